//! What users may have of other things than tasks and memory: GPUs for themselves, host memory, places to
//! wait.

use mgb_probe::limited::Limited;
use mgb_probe::view::{Hindrance, WaitView, WaitsFor};

use super::*;
use crate::quota::{Account, Limits, Owner};

const NOBODY: [ClientId; 0] = [];

fn may(broker: &mut Broker, uid: u32, own: Limits) {
    let account = Account {
        limits: vec![(Owner::User(uid), own)],
        ..Account::default()
    };
    broker.has_account(uid, account);
}

/// A broker over these GPUs whose users 7 and 8 may have so much, with clients 1 to 9 of the first and from
/// 10 on of the second.
fn broker(gpus: &[u64], own: Limits) -> Broker {
    let mut broker = broker_over(gpus);
    may(&mut broker, 7, own);
    may(&mut broker, 8, Limits::default());
    for client in 1..=12 {
        broker.arrive(client, client as u32);
        broker.belongs_to(client, if client < 10 { 7 } else { 8 });
    }
    broker
}

fn begin(broker: &mut Broker, client: ClientId, task: u64, mib: u64, alone: bool, now: Duration) {
    let mut asked = request(Op::Begin, task, mib * MIB, client as u32);
    asked.need.flags |= if alone { ALONE } else { 0 };
    assert_eq!(broker.request(client, task as usize, asked, now), None);
}

fn granted(broker: &mut Broker, snapshot: &mut Snapshot, now: Duration) -> Vec<ClientId> {
    let answers = broker.serve(snapshot, now).into_iter();
    let granted = answers.filter(|answer| matches!(answer.reply, Reply::Granted { .. }));
    granted.map(|answer| answer.client).collect()
}

fn refused(broker: &mut Broker, now: Duration) -> Vec<(ClientId, Reply)> {
    let answers = broker.refuse_beyond_waiting(now).into_iter();
    answers.map(|answer| (answer.client, answer.reply)).collect()
}

fn waits(broker: &Broker, now: Duration) -> Vec<WaitView> {
    broker.wait_views(now)
}

/// These clients have had no work on the first GPU for a minute, and listen.
fn idle(clients: &[ClientId]) -> Snapshot {
    let seen = |&client: &ClientId| Activity {
        client,
        idle: Some(seconds(60)),
        ..Activity::default()
    };
    Snapshot {
        activity: clients.iter().map(seen).collect(),
        listening: clients.iter().copied().collect(),
        host_bytes: Some(1 << 40),
        ..Snapshot::default()
    }
}

#[test]
fn a_user_has_so_many_gpus_for_itself_and_no_more() {
    let own = Limits {
        alone: Some(1),
        ..Limits::default()
    };
    let mut broker = broker(&[100 * MIB; 3], own);
    for client in [1, 2, 10] {
        begin(&mut broker, client, 1, 10, true, seconds(0));
    }
    let none = || Snapshot::default();
    assert_eq!(granted(&mut broker, &mut none(), seconds(0)).len(), 2);
    let second = waits(&broker, seconds(0));
    assert_eq!(
        (second[0].over_quota, second[0].limited),
        (true, Some(Limited::Alone))
    );
    // What shares a GPU is not meant.
    begin(&mut broker, 3, 1, 10, false, seconds(1));
    assert_eq!(granted(&mut broker, &mut none(), seconds(1)), [3]);
    let views = broker.owner_views();
    assert_eq!((views[0].alone, views[0].most_alone), (1, Some(1)));
    let has_it = if second[0].pid == 1 { 2 } else { 1 };
    broker.request(has_it, 63, request(Op::End, 1, 0, 1), seconds(2));
    assert_eq!(
        granted(&mut broker, &mut none(), seconds(2)),
        [u64::from(second[0].pid)]
    );
}

#[test]
fn who_would_wait_beyond_the_quota_is_told_so() {
    let own = Limits {
        tasks: Some(1),
        waiting: Some(2),
        ..Limits::default()
    };
    let mut broker = broker(&[100 * MIB], own);
    let none = || Snapshot::default();
    for client in 1..=5 {
        begin(&mut broker, client, 1, 10, false, seconds(client));
    }
    for client in 10..=12 {
        begin(&mut broker, client, 1, 60, false, seconds(client));
    }
    granted(&mut broker, &mut none(), seconds(12));
    let over = |wanted| Reply::OverQuota {
        what: Limited::Waiting,
        wanted,
        limit: 2,
    };
    assert_eq!(
        refused(&mut broker, seconds(12)),
        [(4, over(3)), (5, over(3))],
        "those that came last, and none of the other user's"
    );
    assert_eq!(refused(&mut broker, seconds(13)), []);
    assert_eq!(waits(&broker, seconds(13)).len(), 4);
    // Who waits goes on waiting when less is allowed.
    let fewer = Limits {
        waiting: Some(0),
        ..own
    };
    may(&mut broker, 7, fewer);
    assert_eq!(refused(&mut broker, seconds(14)), []);
    begin(&mut broker, 6, 1, 10, false, seconds(15));
    granted(&mut broker, &mut none(), seconds(15));
    let reply = Reply::OverQuota {
        what: Limited::Waiting,
        wanted: 3,
        limit: 0,
    };
    assert_eq!(refused(&mut broker, seconds(15)), [(6, reply)]);
    // A task that grows waits whatever the quota.
    let grow = request(Op::Grow, 1, 80 * MIB, 1);
    assert_eq!(broker.request(1, 9, grow, seconds(16)), None);
    granted(&mut broker, &mut none(), seconds(16));
    assert_eq!(refused(&mut broker, seconds(16)), []);
}

#[test]
fn no_more_goes_to_the_host_than_a_user_may_have_there() {
    let own = Limits {
        swap: Some(70 * MIB),
        ..Limits::default()
    };
    let mut broker = broker(&[130 * MIB], own);
    begin(&mut broker, 1, 1, 60, false, seconds(0));
    begin(&mut broker, 2, 1, 60, false, seconds(0));
    assert_eq!(
        granted(&mut broker, &mut Snapshot::default(), seconds(0)).len(),
        2
    );
    let evict = |broker: &mut Broker, now| {
        granted(broker, &mut idle(&[1, 2]), now);
        broker.take_orders().len()
    };
    begin(&mut broker, 10, 1, 60, false, seconds(60));
    assert_eq!(
        evict(&mut broker, seconds(90)),
        1,
        "one of both has room in the host"
    );
    let on_its_way = broker.orders.is_leaving(1, 0);
    let (gone, other) = if on_its_way { (1, 2) } else { (2, 1) };
    assert_eq!(evict(&mut broker, seconds(91)), 0);
    broker.request(gone, 7, request(Op::Swapped, 1, 60 * MIB, 9), seconds(92));
    broker.request(gone, 7, request(Op::Obeyed, 1, 60 * MIB, 9), seconds(92));
    assert_eq!(granted(&mut broker, &mut idle(&[]), seconds(93)), [10]);
    begin(&mut broker, 11, 1, 60, false, seconds(94));
    assert_eq!(evict(&mut broker, seconds(110)), 0);
    let waits_for = waits(&broker, seconds(110))[0].waits_for;
    assert_eq!(waits_for, Some(WaitsFor::SwapQuota));
    let views = broker.owner_views();
    assert_eq!(
        (views[0].swap_bytes, views[0].most_swap_bytes),
        (60 * MIB, Some(70 * MIB))
    );
    // Nor does it go there because a person wants it.
    broker.arrive(90, 9000);
    broker.only_looks(90, true);
    let reply = broker.request(90, 0, request(Op::Suspend, other, 0, 1), seconds(111));
    assert_eq!(reply, Some(Reply::Done));
    assert_eq!(evict(&mut broker, seconds(111)), 0);
    let left = broker.leaving_views();
    assert_eq!(left[0].hindrance, Some(Hindrance::SwapQuota));
    may(&mut broker, 7, Limits::default());
    assert_eq!(
        evict(&mut broker, seconds(112)),
        1,
        "the file says something else now"
    );
}

/// Two hold half of the GPU each and want more: only if one goes to the host both can end.
#[test]
fn who_may_not_go_to_the_host_is_refused_where_nobody_else_can() {
    let own = Limits {
        swap: Some(10 * MIB),
        ..Limits::default()
    };
    let mut broker = broker(&[102 * MIB], own);
    for client in [1, 2] {
        begin(&mut broker, client, 1, 50, false, seconds(0));
    }
    assert_eq!(
        granted(&mut broker, &mut Snapshot::default(), seconds(0)).len(),
        2
    );
    for client in [1, 2] {
        let grow = request(Op::Grow, 1, 40 * MIB, client as u32);
        assert_eq!(broker.request(client, 2, grow, seconds(1)), None);
    }
    let answers = broker.serve(&mut Snapshot::default(), seconds(2));
    let reply = Reply::OverQuota {
        what: Limited::Swap,
        wanted: 50 * MIB,
        limit: 10 * MIB,
    };
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0].reply, reply);
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(3)), NOBODY);
}

#[test]
fn nobody_has_a_higher_priority_than_an_administrator_gives() {
    let mut broker = broker(&[100 * MIB], Limits::default());
    let account = Account {
        most_priority: Some(1),
        ..Account::default()
    };
    broker.has_account(7, account);
    let priorities: Vec<u32> = [(1, 9), (2, 1), (3, 0), (10, 9)]
        .into_iter()
        .map(|(client, priority)| {
            let mut asked = request(Op::Begin, 1, MIB, client as u32);
            asked.need.priority = priority;
            assert_eq!(broker.request(client, 1, asked, seconds(client)), None);
            broker.queue.pending.waiters().last().unwrap().priority
        })
        .collect();
    assert_eq!(priorities, [1, 1, 0, 9]);
}

#[test]
fn who_has_places_in_vain_is_named_to_those_who_wait() {
    let mut broker = broker(&[1000 * MIB], Limits::default());
    broker.books.rules.max_processes = 4;
    for client in [1, 2, 10] {
        begin(&mut broker, client, 1, 10, false, seconds(0));
    }
    assert_eq!(
        granted(&mut broker, &mut Snapshot::default(), seconds(0)).len(),
        3
    );
    for client in [1, 10] {
        let reply = broker.request(client, 63, request(Op::End, 1, 0, 1), seconds(1));
        assert_eq!(reply, Some(Reply::Done));
    }
    begin(&mut broker, 3, 1, 10, false, seconds(2));
    assert_eq!(granted(&mut broker, &mut Snapshot::default(), seconds(2)), NOBODY);
    assert_eq!(
        waits(&broker, seconds(2))[0].waits_for,
        Some(WaitsFor::UserPlaces)
    );
    let idle: Vec<(u32, u32)> = broker
        .idle_views(0)
        .iter()
        .map(|idle| (idle.uid, idle.processes))
        .collect();
    assert_eq!(idle, [(7, 1), (8, 1)], "the second one of user 7 has a task");
}
