//! What jobs of Slurm have taken, and that all steps of one are suspended together.

use mgb_probe::wire::OF_JOB;
use mgb_probe::{slurm_step, slurm_whole};

use super::*;
use crate::broker::history::MAX_JOBS;
use crate::journal::{Image, JournalLine};

fn second(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A process of a step of a job.
fn arrive(broker: &mut Broker, client: ClientId, job: u32, step: u32) {
    broker.arrive(client, client as u32);
    broker.belongs_to(client, 1000);
    broker.join(client, slurm_step(job, step));
}

fn begin(broker: &mut Broker, client: ClientId, mib: u64, now: Duration) {
    let asked = request(Op::Begin, 1, mib * MIB, client as u32);
    assert_eq!(broker.request(client, 1, asked, now), None);
    broker.serve(&mut Snapshot::default(), now);
}

fn end(broker: &mut Broker, client: ClientId, now: Duration) {
    let reply = broker.request(client, 63, request(Op::End, 1, 0, client as u32), now);
    assert_eq!(reply, Some(Reply::Done));
    broker.serve(&mut Snapshot::default(), now);
}

#[test]
fn a_jobs_steps_are_counted_together() {
    let mut broker = broker_over(&[100 * MIB; 2]);
    for (client, job, step) in [(1, 7, 0), (2, 7, 1), (3, 8, 0)] {
        arrive(&mut broker, client, job, step);
    }
    begin(&mut broker, 1, 60, second(0));
    begin(&mut broker, 2, 70, second(0));
    // There is no room before the first ends.
    begin(&mut broker, 3, 60, second(1));
    end(&mut broker, 1, second(3));
    end(&mut broker, 2, second(4));
    broker.die(1, second(4));
    let views = broker.job_views(second(5));
    let of = |job: u32| views.iter().find(|view| view.job == job).unwrap();
    assert_eq!((of(7).tasks, of(7).processes, of(7).uid), (2, 1, 1000));
    assert_eq!(of(7).held_ms, 7000);
    assert!(
        of(7).peak_bytes >= 130 * MIB && of(7).gpu_peak_bytes < 100 * MIB,
        "{views:?}"
    );
    assert_eq!((of(8).waited_ms, of(8).held_ms), (2000, 2000));
}

#[test]
fn a_broker_that_goes_on_counts_what_a_job_has_then() {
    let mut first = broker_over(&[100 * MIB; 2]);
    arrive(&mut first, 1, 7, 0);
    begin(&mut first, 1, 60, second(1));
    let record = JournalLine {
        ledger: first.take_changes().0,
        ..JournalLine::default()
    };
    let image = Image::read(format!("{}\n", serde_json::to_string(&record).unwrap()).as_bytes());
    let mut next = broker_over(&[100 * MIB; 2]);
    arrive(&mut next, 1, 7, 0);
    next.bring_in(&image, &BTreeMap::new(), second(5));
    end(&mut next, 1, second(9));
    let views = next.job_views(second(10));
    assert_eq!((views.len(), views[0].job, views[0].tasks), (1, 7, 1));
    // With its context.
    assert_eq!((views[0].peak_bytes / MIB, views[0].held_ms), (61, 8000));
}

#[test]
fn what_no_gpu_has_is_kept_for_the_next_time() {
    let mut broker = broker_over(&[100 * MIB, 50 * MIB]);
    arrive(&mut broker, 1, 7, 0);
    for mib in [300, 200] {
        let asked = request(Op::Begin, 1, mib * MIB, 1);
        let reply = broker.request(1, 1, asked, second(1));
        assert!(matches!(reply, Some(Reply::NeverFits { .. })), "{reply:?}");
    }
    let views = broker.job_views(second(2));
    assert_eq!((views[0].tasks, views[0].peak_bytes), (0, 0));
    assert!(views[0].refused_bytes >= 300 * MIB, "{views:?}");
}

#[test]
fn nobody_adds_to_what_another_s_job_took() {
    let mut broker = broker_over(&[100_000 * MIB]);
    arrive(&mut broker, 1, 7, 0);
    arrive(&mut broker, 2, 7, 0);
    broker.belongs_to(2, 1001);
    begin(&mut broker, 1, 10, second(0));
    begin(&mut broker, 2, 70, second(0));
    let views = broker.job_views(second(1));
    let own = views.iter().find(|view| view.uid == 1000).unwrap();
    assert_eq!((own.job, own.processes, own.tasks), (7, 1, 1));
    assert!(own.peak_bytes < 20 * MIB, "{views:?}");
    // Nor does a flood of numbers make mgbd forget it.
    end(&mut broker, 1, second(2));
    broker.die(1, second(2));
    for job in 0..2 * MAX_JOBS as u32 {
        let client = 100 + ClientId::from(job);
        broker.arrive(client, job);
        broker.belongs_to(client, 1001);
        broker.join(client, slurm_step(1000 + job, 0));
        begin(&mut broker, client, 1, second(3));
        end(&mut broker, client, second(3));
        broker.die(client, second(3));
    }
    let views = broker.job_views(second(4));
    assert_eq!(views.len(), MAX_JOBS);
    assert!(views.iter().any(|view| view.uid == 1000));
}

#[test]
fn jobs_that_ended_long_ago_are_forgotten() {
    let mut broker = broker_over(&[1000 * MIB]);
    for job in 1..=MAX_JOBS as u32 + 10 {
        let (client, now) = (u64::from(job), second(u64::from(job)));
        arrive(&mut broker, client as ClientId, job, 0);
        begin(&mut broker, client as ClientId, 1, now);
        if job != 1 {
            end(&mut broker, client as ClientId, now);
            broker.die(client as ClientId, now);
        }
    }
    let views = broker.job_views(second(10_000));
    assert_eq!(views.len(), MAX_JOBS);
    let has = |job: u32| views.iter().any(|view| view.job == job);
    assert!(
        has(1) && !has(2) && has(MAX_JOBS as u32 + 10),
        "the first one still runs"
    );
}

#[test]
fn a_job_is_suspended_with_all_its_steps() {
    let mut broker = broker_over(&[100 * MIB]);
    for (client, job, step) in [(1, 7, 0), (2, 7, 1), (3, 8, 0)] {
        arrive(&mut broker, client, job, step);
    }
    broker.arrive(9, 9);
    broker.only_looks(9, true);
    let whole = slurm_whole(slurm_step(7, 0)).unwrap();
    let order = |broker: &mut Broker, op| {
        let mut asked = request(op, whole, 0, 9);
        asked.flags = OF_JOB;
        broker.request(9, 5, asked, second(1))
    };
    assert_eq!(order(&mut broker, Op::Suspend), Some(Reply::Done));
    let is = |broker: &Broker| [1, 2, 3].map(|client| broker.books.is_suspended(client));
    assert_eq!(is(&broker), [true, true, false]);
    broker.die(1, second(2));
    assert!(
        broker.books.is_suspended(2),
        "the job is there as long as a process is"
    );
    assert_eq!(order(&mut broker, Op::Resume), Some(Reply::Done));
    assert_eq!(is(&broker), [false; 3]);
    assert_eq!(order(&mut broker, Op::Suspend), Some(Reply::Done));
    broker.die(2, second(3));
    arrive(&mut broker, 4, 7, 2);
    assert!(
        !broker.books.is_suspended(4),
        "it ended, and with it what was wanted of it"
    );
}
