//! GPUs that are kept for some users.

use mgb_probe::limited::Limited;
use mgb_probe::view::WaitsFor;

use super::*;
use crate::quota::Account;

fn may(broker: &mut Broker, uid: u32, gpus: u64, is_provisional: bool) {
    let account = Account {
        gpus: GpuSet::from_bits(gpus),
        is_provisional,
        ..Account::default()
    };
    broker.has_account(uid, account);
}

/// Three GPUs, of which the first is user 7's, the second user 8's and the third everybody's. Clients 1 to 9
/// are the first one's, from 10 on the second one's.
fn broker() -> Broker {
    let mut broker = broker_over(&[100 * MIB; 3]);
    may(&mut broker, 7, !0b010, false);
    may(&mut broker, 8, !0b001, false);
    for client in 1..=12 {
        broker.arrive(client, client as u32);
        broker.belongs_to(client, if client < 10 { 7 } else { 8 });
    }
    broker
}

fn begin(broker: &mut Broker, client: ClientId, mib: u64, gpus: u64, flags: u32) -> Option<Reply> {
    let mut asked = request(Op::Begin, 1, mib * MIB, client as u32);
    asked.gpus = gpus;
    asked.need.flags |= flags;
    broker.request(client, 1, asked, seconds(0))
}

fn granted(broker: &mut Broker) -> Vec<(ClientId, u32)> {
    let answers = broker.serve(&mut Snapshot::default(), seconds(0)).into_iter();
    let granted = answers.filter_map(|answer| match answer.reply {
        Reply::Granted { gpu, .. } => Some((answer.client, gpu)),
        _ => None,
    });
    granted.collect()
}

fn none_of(gpus: u64, usable: u64) -> Reply {
    Reply::OverQuota {
        what: Limited::Which,
        wanted: gpus,
        limit: usable,
    }
}

#[test]
fn nobody_is_placed_on_a_gpu_of_others() {
    for flags in [0, ALONE] {
        let mut broker = broker();
        for client in [1, 2, 3, 10, 11] {
            assert_eq!(begin(&mut broker, client, 60, u64::MAX, flags), None);
        }
        let placed = granted(&mut broker);
        assert_eq!(placed.len(), 3, "{placed:?}");
        for (client, gpu) in placed {
            assert_ne!(gpu, if client < 10 { 1 } else { 0 });
        }
        // What it would not get there in any case it is told at once.
        assert_eq!(
            begin(&mut broker, 12, 10, 0b001, flags),
            Some(none_of(0b001, 0b110))
        );
    }
}

#[test]
fn a_job_of_several_gpus_has_its_own_and_common_ones() {
    let mut broker = broker();
    let place = |broker: &mut Broker, client, job, count| {
        broker.request(client, 0, request(Op::Place, job, count, 1), seconds(0))
    };
    assert_eq!(place(&mut broker, 1, 5, 2), Some(Reply::Placed { gpus: 0b101 }));
    assert_eq!(place(&mut broker, 10, 6, 2), Some(Reply::Placed { gpus: 0b110 }));
    assert_eq!(place(&mut broker, 1, 7, 3), Some(none_of(0b111, 0b101)));
}

#[test]
fn no_task_is_moved_to_a_gpu_of_others() {
    let mut broker = broker();
    assert_eq!(begin(&mut broker, 1, 10, 0b001, mgb_probe::need::MOVABLE), None);
    assert_eq!(granted(&mut broker), [(1, 0)]);
    broker.arrive(90, 9000);
    broker.only_looks(90, true);
    let reply = broker.request(90, 0, request(Op::Move, 1, 1, 1), seconds(1));
    assert!(matches!(reply, Some(Reply::Bad(text)) if text.to_text().contains("kept for others")));
    let uid = broker.books.clients.user(1);
    assert!(!broker.accounts.may_be_on(uid, 1) && broker.accounts.may_be_on(uid, 2));
}

#[test]
fn who_waits_hears_that_its_gpus_are_others_now_and_who_works_there_goes_on() {
    let mut broker = broker();
    assert_eq!(begin(&mut broker, 1, 60, 0b001, 0), None);
    assert_eq!(begin(&mut broker, 2, 60, 0b001, 0), None);
    assert_eq!(granted(&mut broker), [(1, 0)]);
    may(&mut broker, 7, !0b011, false);
    let answers = broker.serve(&mut Snapshot::default(), seconds(1));
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].client, answers[0].reply), (2, none_of(0b001, 0b100)));
    let grow = request(Op::Grow, 1, MIB, 1);
    assert_eq!(broker.request(1, 2, grow, seconds(2)), None);
    assert_eq!(granted(&mut broker), [(1, 0)]);
}

#[test]
fn while_its_groups_are_not_known_a_user_waits_for_their_gpus() {
    let mut broker = broker();
    may(&mut broker, 7, !0b011, true);
    assert_eq!(begin(&mut broker, 1, 10, 0b001, 0), None);
    assert_eq!(begin(&mut broker, 2, 10, u64::MAX, 0), None);
    assert_eq!(granted(&mut broker), [(2, 2)], "the common one");
    let view = &broker.wait_views(seconds(1))[0];
    assert_eq!((view.pid, view.waits_for), (1, Some(WaitsFor::OthersGpus)));
    assert_eq!(granted(&mut broker), []);
    may(&mut broker, 7, !0b010, false);
    assert_eq!(granted(&mut broker), [(1, 0)]);
    assert!(broker.wait_views(seconds(1)).is_empty());
}
