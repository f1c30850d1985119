//! Whose turn it is among several users.

use mgb_probe::view::{WaitView, WaitsFor};

use super::quota::{NOBODY, arrive, begin, broker, die, end, granted};
use super::*;
use crate::quota::Limits;

#[test]
fn a_user_with_one_task_does_not_wait_for_all_of_anothers() {
    let mut broker = broker(&[101 * MIB], &[(7, Limits::default()), (8, Limits::default())]);
    arrive(&mut broker, 7, 1..=200);
    arrive(&mut broker, 8, [201]);
    for client in 1..=200 {
        begin(&mut broker, client, 1, 9, 1, seconds(0));
    }
    let mut running: Vec<ClientId> = granted(&mut broker, seconds(0));
    assert_eq!(running.len(), 10);
    // All of the first user's have waited beyond the patience by now.
    let came = 100;
    begin(&mut broker, 201, 1, 9, 1, seconds(came));
    for second in came..came + 5 {
        let done = running.remove(0);
        die(&mut broker, done, seconds(second));
        let next = granted(&mut broker, seconds(second));
        if second == came {
            assert_eq!(next, [201]);
        }
        running.extend(next);
    }
}

#[test]
fn the_large_task_of_a_user_is_served_although_others_have_less() {
    let mut broker = broker(&[100 * MIB], &[(7, Limits::default()), (8, Limits::default())]);
    arrive(&mut broker, 7, [1, 2]);
    // A long task, and one that needs almost all the rest.
    begin(&mut broker, 1, 1, 40, 1, seconds(0));
    assert_eq!(granted(&mut broker, seconds(0)), [1]);
    let asks = |broker: &mut Broker, client: ClientId, now| {
        arrive(broker, 8, [client]);
        begin(broker, client, 1, 9, 1, now);
    };
    let mut next = 10;
    let mut running: Vec<(ClientId, u64)> = Vec::new();
    let patience = broker.books.rules.patience.as_secs();
    for second in 0..20 * patience {
        // The other user always has small ones that fit.
        for _ in 0..3 {
            asks(&mut broker, next, seconds(second));
            next += 1;
        }
        if second == 5 {
            begin(&mut broker, 2, 1, 55, 1, seconds(second));
        }
        let over: Vec<ClientId> = running
            .extract_if(.., |(_, end)| *end <= second)
            .map(|it| it.0)
            .collect();
        for client in over {
            die(&mut broker, client, seconds(second));
        }
        let got = granted(&mut broker, seconds(second));
        if got.contains(&2) {
            assert!(second > 2 * patience, "there was no contention");
            return;
        }
        running.extend(got.into_iter().map(|client| (client, second + 3)));
    }
    panic!("it starves");
}

/// Idle notebooks: contexts stay as long as their processes.
#[test]
fn one_of_several_users_has_half_of_a_gpus_places() {
    let mut broker = broker(
        &[1000 * MIB; 2],
        &[(7, Limits::default()), (8, Limits::default())],
    );
    let most = u64::from(broker.books.rules.max_processes);
    arrive(&mut broker, 7, 1..=3 * most);
    arrive(&mut broker, 8, [1000]);
    for client in 1..=3 * most {
        assert_eq!(begin(&mut broker, client, 1, 1, 3, seconds(0)), None);
    }
    let mut idle = granted(&mut broker, seconds(0));
    idle.extend(granted(&mut broker, seconds(0)));
    assert_eq!(idle.len() as u64, most, "half of two GPUs");
    for client in idle {
        end(&mut broker, client, 1, seconds(1));
    }
    assert_eq!(granted(&mut broker, seconds(1)), NOBODY);
    let says = |view: &WaitView| view.waits_for == Some(WaitsFor::UserPlaces);
    let views = broker.wait_views(seconds(1));
    assert!(views.iter().all(says) && views.len() as u64 == 2 * most);
    begin(&mut broker, 1000, 1, 1, 3, seconds(1));
    assert_eq!(granted(&mut broker, seconds(1)), [1000]);
    // A notebook that is there already goes on, and who leaves makes room for the next.
    begin(&mut broker, 1, 2, 1, 3, seconds(2));
    assert_eq!(granted(&mut broker, seconds(2)), [1]);
    die(&mut broker, 1, seconds(3));
    assert_eq!(granted(&mut broker, seconds(3)).len(), 1);
}
