//! What users may have at once, and whose turn it is among several.

use mgb_probe::limited::Limited;

use super::*;
use crate::quota::{Account, Limits, Owner};

pub(super) const NOBODY: [ClientId; 0] = [];

pub(super) fn limits(bytes: Option<u64>, tasks: Option<u64>, gpus: Option<u64>) -> Limits {
    Limits {
        bytes,
        tasks,
        gpus,
        ..Limits::default()
    }
}

/// A broker over these GPUs, each of whose users may have so much.
pub(super) fn broker(gpus: &[u64], users: &[(u32, Limits)]) -> Broker {
    let mut broker = broker_over(gpus);
    for (uid, own) in users {
        broker.has_account(
            *uid,
            Account {
                limits: vec![(Owner::User(*uid), *own)],
                weight: 1,
                may_be_alone: true,
                ..Account::default()
            },
        );
    }
    broker
}

pub(super) fn arrive(broker: &mut Broker, uid: u32, clients: impl IntoIterator<Item = ClientId>) {
    for client in clients {
        broker.arrive(client, client as u32);
        broker.belongs_to(client, uid);
    }
}

/// Asks for a task of so many MiB on these GPUs. `None`: it waits.
pub(super) fn begin(
    broker: &mut Broker,
    client: ClientId,
    task: u64,
    mib: u64,
    gpus: u64,
    now: Duration,
) -> Option<Reply> {
    let mut asked = request(Op::Begin, task, mib * MIB, client as u32);
    asked.gpus = gpus;
    broker.request(client, task as usize, asked, now)
}

pub(super) fn granted(broker: &mut Broker, now: Duration) -> Vec<ClientId> {
    let answers = broker.serve(&mut Snapshot::default(), now).into_iter();
    let granted = answers.filter(|answer| matches!(answer.reply, Reply::Granted { .. }));
    granted.map(|answer| answer.client).collect()
}

pub(super) fn end(broker: &mut Broker, client: ClientId, task: u64, now: Duration) {
    let reply = broker.request(client, 63, request(Op::End, task, 0, client as u32), now);
    assert_eq!(reply, Some(Reply::Done));
}

pub(super) fn die(broker: &mut Broker, client: ClientId, now: Duration) {
    for entry in broker.die(client, now) {
        broker.freed(entry.id);
    }
}

pub(super) fn over_quota(broker: &Broker, now: Duration) -> Vec<u32> {
    let views = broker.wait_views(now).into_iter();
    views
        .filter(|view| view.over_quota)
        .map(|view| view.pid)
        .collect()
}

#[test]
fn no_more_tasks_begin_than_a_user_may_have() {
    let mut broker = broker(
        &[1000 * MIB],
        &[(7, limits(None, Some(2), None)), (8, Limits::default())],
    );
    arrive(&mut broker, 7, 1..=4);
    arrive(&mut broker, 8, 5..=8);
    for client in 1..=8 {
        assert_eq!(begin(&mut broker, client, 1, 10, 1, seconds(0)), None);
    }
    let first: BTreeSet<ClientId> = granted(&mut broker, seconds(0)).into_iter().collect();
    assert_eq!(
        first.len(),
        6,
        "two of the first user's, all of the second's: {first:?}"
    );
    assert!(first.is_superset(&(5..=8).collect()));
    granted(&mut broker, seconds(1));
    let waiting = over_quota(&broker, seconds(1));
    assert_eq!(waiting.len(), 2);
    assert!(broker.presses() && !broker.waiting());
    // Leases of the user's own programs end, those of others do not.
    assert_eq!(broker.to_leave(), (1..=4).collect());
    let done = *first.iter().next().unwrap();
    end(&mut broker, done, 1, seconds(2));
    let next = granted(&mut broker, seconds(2));
    assert_eq!(next, [u64::from(waiting[0])], "in the order in which they came");
    assert_eq!(granted(&mut broker, seconds(3)), NOBODY);
}

#[test]
fn who_came_first_is_served_first_although_it_was_held_back() {
    let mut broker = broker(&[1000 * MIB], &[(7, limits(None, Some(1), None))]);
    arrive(&mut broker, 7, 1..=9);
    begin(&mut broker, 1, 1, 10, 1, seconds(0));
    assert_eq!(granted(&mut broker, seconds(0)), [1]);
    for client in 2..=6 {
        begin(&mut broker, client, 1, 10, 1, seconds(client));
        assert_eq!(granted(&mut broker, seconds(client)), NOBODY);
    }
    for (client, next) in [(1, 2), (2, 3), (3, 4)] {
        // One more comes in the moment in which there is room.
        end(&mut broker, client, 1, seconds(10 + client));
        begin(&mut broker, client + 6, 1, 10, 1, seconds(10 + client));
        assert_eq!(granted(&mut broker, seconds(10 + client)), [next]);
    }
}

#[test]
fn what_is_beyond_the_quota_by_itself_is_refused() {
    let mut broker = broker(&[100 * MIB; 2], &[(7, limits(Some(20 * MIB), None, Some(1)))]);
    arrive(&mut broker, 7, [1]);
    let over = |what, wanted, limit| Some(Reply::OverQuota { what, wanted, limit });
    let reply = begin(&mut broker, 1, 1, 20, 3, seconds(0));
    assert_eq!(
        reply,
        over(Limited::Bytes, 21 * MIB, 20 * MIB),
        "the context counts"
    );
    assert_eq!(begin(&mut broker, 1, 1, 15, 1, seconds(0)), None);
    assert_eq!(granted(&mut broker, seconds(0)), [1]);
    let grow =
        |broker: &mut Broker, mib| broker.request(1, 1, request(Op::Grow, 1, mib * MIB, 1), seconds(1));
    assert_eq!(grow(&mut broker, 5), over(Limited::Bytes, 21 * MIB, 20 * MIB));
    assert_eq!(grow(&mut broker, 4), None);
    assert_eq!(granted(&mut broker, seconds(1)), [1]);
    let reply = begin(&mut broker, 1, 2, 1, 2, seconds(2));
    assert_eq!(reply, over(Limited::Gpus, 2, 1));
}

#[test]
fn a_user_stays_on_as_many_gpus_as_it_may_have() {
    let mut broker = broker(
        &[100 * MIB; 3],
        &[(7, limits(None, None, Some(1))), (8, Limits::default())],
    );
    arrive(&mut broker, 7, 1..=3);
    arrive(&mut broker, 8, [4]);
    begin(&mut broker, 1, 1, 60, 0b10, seconds(0));
    assert_eq!(granted(&mut broker, seconds(0)), [1]);
    // The others fit on GPUs where nobody is, and wait for the user's own.
    begin(&mut broker, 2, 1, 60, 7, seconds(1));
    begin(&mut broker, 3, 1, 60, 0b100, seconds(1));
    begin(&mut broker, 4, 1, 60, 7, seconds(1));
    assert_eq!(granted(&mut broker, seconds(1)), [4]);
    assert_eq!(over_quota(&broker, seconds(1)), [3]);
    die(&mut broker, 1, seconds(2));
    let mut next = granted(&mut broker, seconds(2));
    next.extend(granted(&mut broker, seconds(2)));
    assert_eq!(next.len(), 1, "the other one would be on another GPU: {next:?}");
}

#[test]
fn a_group_has_its_quota_together() {
    let mut broker = broker_over(&[1000 * MIB]);
    for uid in [7, 8] {
        broker.has_account(
            uid,
            Account {
                limits: vec![(Owner::Group(50), limits(Some(50 * MIB), None, None))],
                weight: 1,
                may_be_alone: true,
                ..Account::default()
            },
        );
        arrive(&mut broker, uid, [u64::from(uid)]);
        assert_eq!(begin(&mut broker, u64::from(uid), 1, 30, 1, seconds(0)), None);
    }
    assert_eq!(granted(&mut broker, seconds(0)), [7]);
    assert_eq!(granted(&mut broker, seconds(1)), NOBODY);
    let views = broker.owner_views();
    let group = views.iter().find(|view| view.is_group).unwrap();
    assert_eq!(
        (group.id, group.bytes, group.most_bytes),
        (50, 31 * MIB, Some(50 * MIB))
    );
    assert_eq!((group.tasks, group.waiting, group.held_back), (1, 1, 1));
    assert_eq!(group.members, [7, 8]);
    end(&mut broker, 7, 1, seconds(2));
    assert_eq!(granted(&mut broker, seconds(2)), [8]);
}

#[test]
fn where_all_who_share_a_quota_wait_the_eldest_goes_on() {
    let mut broker = broker(&[1000 * MIB], &[(7, limits(Some(50 * MIB), None, None))]);
    arrive(&mut broker, 7, [1, 2]);
    for client in [1, 2] {
        begin(&mut broker, client, 1, 20, 1, seconds(0));
    }
    assert_eq!(granted(&mut broker, seconds(0)), [1, 2]);
    let grow = |broker: &mut Broker, client: ClientId, mib, now| {
        broker.request(client, 1, request(Op::Grow, 1, mib * MIB, client as u32), now)
    };
    assert_eq!(grow(&mut broker, 1, 20, seconds(1)), None);
    // The other one may still end.
    assert_eq!(granted(&mut broker, seconds(1)), NOBODY);
    assert_eq!(over_quota(&broker, seconds(1)), [1]);
    assert_eq!(grow(&mut broker, 2, 20, seconds(1)), None);
    assert_eq!(granted(&mut broker, seconds(1)), [1]);
    // It has 40 of 50, the other 20.
    assert_eq!(granted(&mut broker, seconds(2)), NOBODY);
    end(&mut broker, 1, 1, seconds(3));
    assert_eq!(granted(&mut broker, seconds(3)), [2]);
}

#[test]
fn a_program_that_waits_for_itself_beyond_twice_its_quota_is_refused() {
    let mut broker = broker(&[1000 * MIB], &[(7, limits(None, Some(2), None))]);
    arrive(&mut broker, 7, [1]);
    let mut answers = Vec::new();
    for task in 1..=6 {
        assert_eq!(begin(&mut broker, 1, task, 1, 1, seconds(task)), None);
        answers.extend(broker.serve(&mut Snapshot::default(), seconds(task)));
        answers.extend(broker.serve(&mut Snapshot::default(), seconds(task)));
    }
    let granted = answers.iter();
    let granted = granted.filter(|answer| matches!(answer.reply, Reply::Granted { .. }));
    assert_eq!(granted.count(), 4);
    let over = Reply::OverQuota {
        what: Limited::Tasks,
        wanted: 5,
        limit: 4,
    };
    assert!(answers.iter().any(|answer| answer.reply == over), "{answers:?}");
}

fn account(group: bool) -> impl Strategy<Value = Account> {
    let limit = || proptest::option::of(1..20u64);
    let number = || proptest::option::of(1..4u64);
    (limit(), number(), proptest::option::of(1..3u64), 1..4u32).prop_map(
        move |(bytes, tasks, gpus, weight)| {
            let own = (Owner::User(u32::MAX), limits(bytes, tasks, gpus));
            let shared = (Owner::Group(1), limits(Some(22), Some(5), None));
            let limits = if group { vec![own, shared] } else { vec![own] };
            Account {
                limits,
                weight,
                may_be_alone: true,
                ..Account::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn whatever_users_may_have_all_their_programs_finish(
        lives in proptest::collection::vec(proptest::collection::vec(act(), 1..10), 1..8),
        is_patient in any::<bool>(),
        rules in rules(),
        users in (account(false), account(true), account(true)),
    ) {
        let lives: Vec<Vec<Act>> = lives.into_iter().map(tidy).collect();
        let mut users = vec![users.0, users.1, users.2];
        for (uid, account) in users.iter_mut().enumerate() {
            account.limits[0].0 = Owner::User(uid as u32);
        }
        let mut world = SimulatedWorld::of_users(&[24, 20], 1, lives, users);
        world.broker.books.rules = rules;
        if !is_patient {
            world.broker.books.rules.patience = Duration::from_millis(100);
        }
        world.run();
        for gpu in 0..2 {
            prop_assert_eq!(world.broker.ledger().charges(gpu).bytes(), 0);
        }
        prop_assert!(!world.broker.presses());
    }
}

/// A process that closes its connection and opens another is a new client, and has all its memory still.
#[test]
fn what_a_process_still_has_stays_on_its_users_account() {
    let mut broker = broker(&[1000 * MIB; 2], &[(7, limits(Some(50 * MIB), None, Some(1)))]);
    arrive(&mut broker, 7, [1]);
    assert_eq!(begin(&mut broker, 1, 1, 40, 1, seconds(0)), None);
    assert_eq!(granted(&mut broker, seconds(0)), [1]);
    let lost = broker.exec(1, seconds(1));
    arrive(&mut broker, 7, [2, 3]);
    begin(&mut broker, 2, 1, 40, 1, seconds(1));
    begin(&mut broker, 3, 1, 5, 2, seconds(1));
    assert_eq!(granted(&mut broker, seconds(1)), NOBODY);
    assert_eq!(over_quota(&broker, seconds(1)), [2, 3], "in bytes, and in GPUs");
    let has = broker
        .owner_views()
        .into_iter()
        .find(|view| view.id == 7)
        .map(|view| view.bytes);
    assert_eq!(has, Some(41 * MIB));
    for entry in lost {
        broker.freed(entry.id);
    }
    assert_eq!(granted(&mut broker, seconds(2)).len(), 1);
}

#[test]
fn processes_are_limited_where_the_file_says_so() {
    let quota = Limits {
        processes: Some(2),
        ..Limits::default()
    };
    let mut broker = broker(&[1000 * MIB], &[(7, quota)]);
    arrive(&mut broker, 7, 1..=3);
    for client in 1..=3 {
        begin(&mut broker, client, 1, 10, 1, seconds(0));
    }
    assert_eq!(granted(&mut broker, seconds(0)), [1, 2]);
    end(&mut broker, 1, 1, seconds(1));
    assert_eq!(
        granted(&mut broker, seconds(1)),
        NOBODY,
        "its context is there still"
    );
    assert_eq!(over_quota(&broker, seconds(1)), [3]);
    die(&mut broker, 1, seconds(2));
    assert_eq!(granted(&mut broker, seconds(2)), [3]);
}

/// A process ends while the driver still has its memory, as one that only closes its connection would like it.
#[test]
fn room_of_a_process_that_ended_is_its_users_until_it_is_free() {
    let mut broker = broker(&[200 * MIB], &[(7, limits(Some(50 * MIB), None, None))]);
    arrive(&mut broker, 7, [1, 2]);
    assert_eq!(begin(&mut broker, 1, 1, 40, 1, seconds(1)), None);
    assert_eq!(granted(&mut broker, seconds(1)), [1]);
    let lost = broker.die(1, seconds(2));
    assert_eq!(begin(&mut broker, 2, 1, 20, 1, seconds(2)), None);
    assert_eq!(granted(&mut broker, seconds(2)), NOBODY);
    assert_eq!(broker.owner_views()[0].bytes, lost[0].bytes);
    broker.freed(lost[0].id);
    assert_eq!(granted(&mut broker, seconds(3)), [2]);
}
