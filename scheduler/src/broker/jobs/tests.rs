//! Jobs by themselves.

use mgb_probe::Need;
use mgb_probe::wire::{Op, Text};

use super::*;

fn request(task: u64) -> Request {
    Request {
        op: Op::Begin,
        flags: FIRST | NUMBERED,
        task,
        thread: 1,
        site: 0,
        gpus: u64::MAX,
        bytes: 1,
        need: Need::default(),
        first: 0,
        label: Text::default(),
    }
}

/// Clients 1 and 2 of job 7, client 3 of job 7 of another user.
fn clients() -> Clients {
    let mut clients = Clients::default();
    for (client, uid) in [(1, 0), (2, 0), (3, 1)] {
        clients.arrive(client, client as u32);
        clients.belongs_to(client, uid);
        clients.join(client, 7);
    }
    clients
}

fn order() -> JobOrder {
    JobOrder {
        first: 0,
        gpus: GpuSet::first_of(2),
        numbering: Numbering::exchanging(0, 1),
    }
}

fn follow(jobs: &mut Jobs, clients: &Clients, client: ClientId) -> Follow {
    let key = TaskKey { client, task: 1 };
    jobs.follow(clients, key, client as usize, &request(1), Duration::ZERO)
}

#[test]
fn those_that_come_while_the_first_waits_are_told_its_order() {
    let (mut jobs, clients) = (Jobs::default(), clients());
    assert!(matches!(follow(&mut jobs, &clients, 1), Follow::IsPlaced));
    jobs.lead(&clients, TaskKey { client: 1, task: 1 }, &request(1));
    assert!(matches!(follow(&mut jobs, &clients, 2), Follow::Waits));
    assert!(
        matches!(follow(&mut jobs, &clients, 3), Follow::IsPlaced),
        "of another user"
    );
    let answers = jobs.order(&clients, 1, &request(1), order());
    let told = answers.iter().map(|answer| (answer.client, answer.cell));
    assert_eq!(told.collect::<Vec<_>>(), [(2, 2)]);
    assert_eq!(
        (jobs.exchanged((0, 7)), jobs.exchanged((1, 7))),
        (Some([0, 1]), None)
    );
    assert_eq!(jobs.kin(&clients, 1), [1, 2]);
}

#[test]
fn what_a_job_was_told_holds_under_the_next_broker() {
    let (mut jobs, mut clients) = (Jobs::default(), clients());
    jobs.lead(&clients, TaskKey { client: 1, task: 1 }, &request(1));
    jobs.order(&clients, 1, &request(1), order());
    assert!(jobs.take_changed() && !jobs.take_changed());
    let mut standing = Standing::default();
    jobs.write(&mut standing, 2);
    let mut next = Jobs::default();
    next.bring_in(&standing, &clients);
    assert_eq!(next.numbering((0, 7), 2), [1, 0]);
    clients.remove(1);
    clients.remove(2);
    let mut later = Jobs::default();
    later.bring_in(&standing, &clients);
    assert_eq!(
        later.numbering((0, 7), 2),
        [0; 0],
        "none of its processes is here"
    );
}
