//! Accounts by themselves.

use mgb_interface::Policy;
use mgb_probe::Need;
use mgb_probe::wire::{Op, Text};

use super::*;
use crate::broker::queue::WaitingTask;
use crate::broker::rules::ServingRules;
use crate::node::test_gpu;

const AT: fn(u64) -> Duration = Duration::from_secs;

/// Two GPUs of 100 bytes; clients 1 and 2 are of users 1 and 2.
fn books() -> Books {
    let gpus = (0..2).map(|gpu| test_gpu(gpu, 100, 10)).collect();
    let mut books = Books::new(gpus, ServingRules::new(Policy::Mgb));
    for client in [1, 2] {
        books.clients.arrive(client, client as u32);
        books.clients.belongs_to(client, client as u32);
    }
    books
}

fn limited(uid: u32, limits: Limits) -> Account {
    Account {
        limits: vec![(Owner::User(uid), limits)],
        ..Account::default()
    }
}

fn begin(bytes: u64) -> Request {
    Request {
        op: Op::Begin,
        flags: 0,
        task: 1,
        thread: 1,
        site: 0,
        gpus: u64::MAX,
        bytes,
        need: Need {
            mapped_bytes: bytes,
            ..Need::default()
        },
        first: 0,
        label: Text::default(),
    }
}

const KEY: TaskKey = TaskKey { client: 1, task: 1 };

#[test]
fn a_request_is_beyond_a_quota_by_itself_or_with_what_its_user_has() {
    let (mut accounts, books) = (Accounts::default(), books());
    let limits = Limits {
        bytes: Some(50),
        ..Limits::default()
    };
    accounts.set(1, limited(1, limits));
    assert!(accounts.count_amounts(&books, std::iter::empty()));
    let all = GpuSet::first_of(2);
    let alone = |bytes| {
        accounts
            .over_quota_alone(&books, KEY, &begin(bytes), all)
            .is_some()
    };
    assert!(!alone(40) && alone(41), "with its context");
    assert_eq!(accounts.over_quota(&books, KEY, &begin(40), all), None);
    accounts.add_to(1, amounts::swapped(7));
    accounts.add_to(
        1,
        Amount {
            bytes: 1,
            ..Amount::default()
        },
    );
    let over = Some((Owner::User(1), Limited::Bytes));
    assert_eq!(accounts.over_quota(&books, KEY, &begin(40), all), over);
    let others = TaskKey { client: 2, task: 1 };
    assert_eq!(accounts.over_quota(&books, others, &begin(80), all), None);
}

#[test]
fn what_is_on_its_way_to_the_host_counts() {
    let (mut accounts, books) = (Accounts::default(), books());
    let limits = Limits {
        swap: Some(10),
        ..Limits::default()
    };
    accounts.set(1, limited(1, limits));
    accounts.count_amounts(&books, [(1, 6), (2, 60)].into_iter());
    assert!(accounts.may_swap(1, 4) && !accounts.may_swap(1, 5) && accounts.may_swap(2, 500));
    accounts.count_swap(1, 4);
    assert!(!accounts.may_swap(1, 1));
    assert_eq!(accounts.beyond_swap(1, 1).unwrap().wanted, 11);
    assert!(accounts.beyond_swap(1, 0).is_none());
}

#[test]
fn of_the_tasks_that_wait_the_last_are_refused() {
    let (mut accounts, books) = (Accounts::default(), books());
    let limits = Limits {
        waiting: Some(1),
        ..Limits::default()
    };
    accounts.set(1, limited(1, limits));
    let task = |client, cell, since| WaitingTask {
        client,
        cell,
        since: AT(since),
    };
    let all = [task(1, 2, 5), task(1, 1, 4), task(2, 1, 4), task(2, 2, 4)];
    let mut beyond = |now| {
        let beyond = accounts.beyond_waiting(&books.clients, || all.into_iter(), AT(now));
        let cells = beyond.iter().map(|(task, _)| (task.client, task.cell));
        cells.collect::<Vec<_>>()
    };
    assert_eq!(beyond(6), [(1, 2)]);
    assert_eq!(beyond(7), [], "they wait already");
}

#[test]
fn a_user_who_is_gone_is_forgotten() {
    let mut accounts = Accounts::default();
    assert!(!accounts.has_several_users());
    let kept = Account {
        gpus: GpuSet::of(1),
        most_priority: Some(3),
        ..Account::default()
    };
    accounts.set(1, kept);
    accounts.set(2, Account::default());
    assert!(accounts.has_several_users() && accounts.keeps_gpus() && !accounts.has_limits());
    assert_eq!((accounts.usable(1), accounts.max_priority(1)), (GpuSet::of(1), 3));
    accounts.retain(&BTreeSet::from([2]));
    assert!(!accounts.has(1) && accounts.has(2));
    assert_eq!(
        (accounts.usable(1), accounts.max_priority(1)),
        (GpuSet::ALL, u32::MAX)
    );
}
