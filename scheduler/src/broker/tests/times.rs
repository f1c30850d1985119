//! How long tasks have had their memory, and who has more time than he may.

use super::*;
use crate::quota::Account;

const PERSON: ClientId = 90;

fn may(broker: &mut Broker, uid: u32, most: Option<u64>, ends_late: bool) {
    let account = Account {
        most_time: most.map(seconds),
        ends_late,
        ..Account::default()
    };
    broker.has_account(uid, account);
}

/// A broker with clients 1 and 2 of a user who may have memory for 100 s, client 3 of one who may for any
/// time, and a person's connection.
fn broker() -> Broker {
    let mut broker = broker_over(&[100 * MIB]);
    may(&mut broker, 7, Some(100), true);
    may(&mut broker, 8, None, true);
    for client in 1..=3 {
        broker.arrive(client, client as u32 * 100);
        broker.belongs_to(client, if client < 3 { 7 } else { 8 });
    }
    broker.arrive(PERSON, 9000);
    broker.only_looks(PERSON, true);
    broker
}

fn ask(broker: &mut Broker, client: ClientId, asked: Request, now: Duration) {
    assert_eq!(broker.request(client, asked.task as usize, asked, now), None);
}

fn serve(broker: &mut Broker, now: Duration) -> usize {
    broker.serve(&mut Snapshot::default(), now).len()
}

/// Begins a task of 10 MiB at once.
fn begin(broker: &mut Broker, client: ClientId, task: u64, now: Duration) {
    ask(broker, client, request(Op::Begin, task, 10 * MIB, 1), now);
    assert_eq!(serve(broker, now), 1);
}

/// Of the late processes: who, which task, its time, whether it ends, and whether that is new.
fn late(broker: &mut Broker, at: u64) -> Vec<(ClientId, u64, u64, bool, bool)> {
    let late = broker.check_times(seconds(at)).late.into_iter();
    late.map(|one| (one.client, one.task, one.time.as_secs(), one.ends, one.is_new))
        .collect()
}

#[test]
fn who_has_memory_for_longer_than_he_may_is_late_and_it_is_new_once() {
    let mut broker = broker();
    begin(&mut broker, 1, 1, seconds(10));
    begin(&mut broker, 3, 1, seconds(10));
    begin(&mut broker, 2, 1, seconds(50));
    assert_eq!(late(&mut broker, 110), []);
    assert_eq!(late(&mut broker, 111), [(1, 1, 101, true, true)]);
    begin(&mut broker, 1, 2, seconds(112));
    assert_eq!(late(&mut broker, 112), [(1, 1, 102, true, false)]);
    let both = [(1, 1, 210, true, true), (2, 1, 170, true, true)];
    assert_eq!(late(&mut broker, 220), both, "another task of the first is late");
    // The administrator thinks again, twice.
    may(&mut broker, 7, Some(1000), false);
    assert_eq!(late(&mut broker, 221), []);
    may(&mut broker, 7, Some(100), false);
    let both = [(1, 1, 212, false, true), (2, 1, 172, false, true)];
    assert_eq!(late(&mut broker, 222), both);
    let end = request(Op::End, 1, 0, 1);
    assert_eq!(broker.request(2, 0, end, seconds(223)), Some(Reply::Done));
    assert_eq!(late(&mut broker, 224), [(1, 1, 214, false, false)]);
}

#[test]
fn time_in_which_nothing_of_it_is_on_a_gpu_does_not_count() {
    let mut broker = broker();
    begin(&mut broker, 1, 1, seconds(0));
    begin(&mut broker, 2, 1, seconds(0));
    // A part of the one is evicted, and all of the other.
    for (client, mib) in [(1, 9), (2, 10)] {
        let swapped = request(Op::Swapped, 1, mib * MIB, 1);
        assert_eq!(broker.request(client, 0, swapped, seconds(50)), Some(Reply::Done));
    }
    assert_eq!(late(&mut broker, 50), []);
    assert_eq!(late(&mut broker, 500), [(1, 1, 500, true, true)]);
    // It waits for its room, and has it again.
    ask(&mut broker, 2, request(Op::Grow, 1, 10 * MIB, 1), seconds(500));
    assert_eq!(late(&mut broker, 600).len(), 1);
    assert_eq!(serve(&mut broker, seconds(600)), 1);
    assert_eq!(late(&mut broker, 600).len(), 1);
    let views = broker.task_views(|_, _, task| task, seconds(650));
    let view = views.iter().find(|view| view.pid == 200).unwrap();
    let times = (view.age_ms, view.time_ms, view.most_time_ms, view.is_late());
    assert_eq!(times, (650_000, 100_000, Some(100_000), false));
    assert_eq!(late(&mut broker, 651)[1], (2, 1, 101, true, true));
}

#[test]
fn who_waits_has_no_time() {
    let mut broker = broker();
    let asks = |task| request(Op::Begin, task, 80 * MIB, 1);
    ask(&mut broker, 3, asks(1), seconds(0));
    ask(&mut broker, 1, asks(1), seconds(0));
    assert_eq!(serve(&mut broker, seconds(0)), 1);
    assert_eq!(late(&mut broker, 1000), []);
    broker.die(3, seconds(1000));
    let id = broker.ledger().reclaiming()[0].id;
    broker.freed(id);
    assert_eq!(serve(&mut broker, seconds(1000)), 1);
    assert_eq!(late(&mut broker, 1100), []);
    assert_eq!(late(&mut broker, 1101), [(1, 1, 101, true, true)]);
}

#[test]
fn what_a_suspended_process_has_on_a_gpu_counts_and_what_it_has_not_does_not() {
    let mut broker = broker();
    begin(&mut broker, 1, 1, seconds(0));
    ask(&mut broker, 2, request(Op::Begin, 1, 0, 1), seconds(0));
    assert_eq!(serve(&mut broker, seconds(0)), 1);
    for pid in [100, 200] {
        let order = request(Op::Suspend, pid, 0, 1);
        assert_eq!(broker.request(PERSON, 0, order, seconds(60)), Some(Reply::Done));
    }
    assert_eq!(late(&mut broker, 60), []);
    assert_eq!(late(&mut broker, 300), [(1, 1, 300, true, true)]);
    let order = request(Op::Resume, 200, 0, 1);
    assert_eq!(broker.request(PERSON, 0, order, seconds(300)), Some(Reply::Done));
    assert_eq!(late(&mut broker, 300).len(), 1);
    assert_eq!(late(&mut broker, 341)[1], (2, 1, 101, true, true));
}

#[test]
fn time_goes_on_where_the_last_broker_was() {
    let mut before = broker();
    begin(&mut before, 1, 1, seconds(0));
    begin(&mut before, 2, 1, seconds(0));
    let swapped = request(Op::Swapped, 1, 10 * MIB, 1);
    assert_eq!(before.request(2, 0, swapped, seconds(90)), Some(Reply::Done));
    assert_eq!(late(&mut before, 90), []);
    assert_eq!(late(&mut before, 120).len(), 1);
    let record = crate::journal::JournalLine {
        ledger: before.take_changes().0,
        ..crate::journal::JournalLine::default()
    };
    // As it is written and read.
    let record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    let mut image = crate::journal::Image::default();
    image.apply(record);
    let mut after = broker();
    after.bring_in(&image, &BTreeMap::new(), seconds(200));
    assert_eq!(late(&mut after, 200), [(1, 1, 200, true, false)], "told already");
    assert_eq!(
        after
            .ledger()
            .task(TaskKey { client: 2, task: 1 })
            .unwrap()
            .time(seconds(200)),
        seconds(90)
    );
}

#[test]
fn a_journal_of_before_there_were_times_is_read() {
    let mut before = broker();
    begin(&mut before, 1, 1, seconds(5));
    let key = TaskKey { client: 1, task: 1 };
    let mut holding = serde_json::to_value(before.ledger().task(key).unwrap()).unwrap();
    assert!(holding.get("away").is_none(), "nothing is written of what is not");
    holding.as_object_mut().unwrap().remove("may_rest");
    let holding: crate::ledger::Holding = serde_json::from_value(holding).unwrap();
    assert_eq!(Some(&holding), before.ledger().task(key));
}

#[test]
fn a_grant_that_serves_many_runs_does_so_for_a_part_of_the_time_alone() {
    let mut broker = broker();
    let of_site = Request {
        site: 5,
        ..request(Op::Begin, 1, 10 * MIB, 1)
    };
    ask(&mut broker, 1, of_site, seconds(0));
    assert_eq!(serve(&mut broker, seconds(0)), 1);
    begin(&mut broker, 2, 1, seconds(0));
    let without = |broker: &mut Broker, at| broker.check_times(seconds(at)).without_leases;
    assert!(without(&mut broker, 6).is_empty());
    assert_eq!(without(&mut broker, 7), [1].into());
    let ends = |broker: &mut Broker, at| {
        let late = late(broker, at).into_iter();
        late.map(|(client, _, _, ends, _)| (client, ends))
            .collect::<Vec<_>>()
    };
    // A run may have begun 7 s after the grant.
    assert_eq!(ends(&mut broker, 101), [(1, false), (2, true)]);
    assert_eq!(ends(&mut broker, 107), [(1, false), (2, true)]);
    assert_eq!(ends(&mut broker, 108), [(1, true), (2, true)]);
}
