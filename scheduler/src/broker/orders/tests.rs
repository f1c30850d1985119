//! Orders by themselves.

use super::*;
use crate::node::test_gpu;

const AT: fn(u64) -> Duration = Duration::from_secs;
const EVICT: Order = Order::Evict { gpu: 1 };

/// Client 1 with an order to bring 100 bytes to the host, given after a second.
fn ordered() -> (Orders, Clients) {
    let (mut orders, mut clients) = (Orders::new(Speed::expected(1)), Clients::default());
    clients.arrive(1, 11);
    orders.arrive(1);
    assert!(orders.give(&clients, 1, EVICT, 100, AT(1)) && !orders.give(&clients, 2, EVICT, 1, AT(1)));
    (orders, clients)
}

fn listening() -> Snapshot {
    Snapshot {
        listening: [1, 2].into_iter().collect(),
        ..Snapshot::default()
    }
}

#[test]
fn an_order_goes_out_once_and_is_open_until_it_is_answered() {
    let (mut orders, _) = ordered();
    let outgoing = orders.take_outgoing();
    let sent = outgoing.iter().map(|to| (to.client, to.number, to.order));
    assert_eq!(sent.collect::<Vec<_>>(), [(1, 1, EVICT)]);
    assert!(orders.take_outgoing().is_empty());
    assert!(orders.is_leaving(1, 1) && !orders.is_leaving(1, 0) && orders.leaving_from() == GpuSet::of(1));
    assert_eq!(orders.on_their_way().collect::<Vec<_>>(), [(1, 100)]);
    assert!(orders.free_agent(1, &listening(), AT(2)).is_none());
    let mut counts = Counts::default();
    orders.obeyed(1, 7, 50, false, &mut counts, AT(2));
    assert!(orders.is_leaving(1, 1), "that was another order's answer");
    orders.obeyed(1, 1, 500, false, &mut counts, AT(2));
    assert_eq!(
        (counts.evicted, counts.evicted_bytes),
        (1, 100),
        "no more than it was told"
    );
    assert!(orders.free_agent(1, &listening(), AT(2)).is_some());
    assert_eq!(orders.next_number(1), Some(2));
}

#[test]
fn memory_that_left_counts_though_the_process_ends_before_it_answers() {
    let ended_after = |gpu, bytes| {
        let (mut orders, _) = ordered();
        orders.left(1, gpu, bytes);
        let mut counts = Counts::default();
        orders.remove(1, &mut counts);
        (counts.evicted, counts.evicted_bytes)
    };
    assert_eq!(ended_after(1, 60), (1, 60));
    assert_eq!(ended_after(1, 600), (1, 100), "no more than was to leave");
    assert_eq!(ended_after(0, 60), (0, 0), "the order was about another GPU");
    assert_eq!(ended_after(1, 0), (0, 0), "nothing had left");
}

#[test]
fn an_agent_that_frees_nothing_or_does_not_answer_is_left_alone_for_a_while() {
    let (mut orders, clients) = ordered();
    let mut counts = Counts::default();
    orders.obeyed(1, 1, 0, false, &mut counts, AT(2));
    let is_free = |orders: &Orders, now| orders.free_agent(1, &listening(), now).is_some();
    assert!(!is_free(&orders, AT(2)) && is_free(&orders, AT(2) + RETRY_INTERVAL));
    orders.give(&clients, 1, EVICT, 3 << 30, AT(10));
    orders.give_up_late(&clients, &mut counts, AT(10) + OBEY_TIMEOUT + AT(3));
    assert!(orders.is_leaving(1, 1), "a second more for each gibibyte");
    let late = AT(11) + OBEY_TIMEOUT + AT(3);
    orders.give_up_late(&clients, &mut counts, late);
    assert_eq!(counts.evictions_failed, 2);
    assert!(!is_free(&orders, late) && is_free(&orders, late + DEAF_TIMEOUT));
    orders.forget_failures(1, late);
    assert!(is_free(&orders, late));
}

#[test]
fn a_client_that_asks_again_without_having_made_room_cannot_swap() {
    let ledger = Ledger::new(vec![test_gpu(0, 100, 1)], false);
    let (mut orders, _) = ordered();
    orders.order_swap(&ledger, 1, 5, 0);
    assert!(orders.is_to_swap(1) && orders.swaps_from(0) && !orders.swaps_from(1));
    orders.asks_again(&ledger, 1, 6);
    assert!(orders.is_to_swap(1), "another thread asks");
    orders.asks_again(&ledger, 1, 5);
    assert!(!orders.is_to_swap(1) && orders.cannot_swap(1, 0) && !orders.cannot_swap(1, 1));
    orders.may_swap_again(1);
    assert!(
        !orders.cannot_swap(1, 0) && orders.cannot_swap(9, 0),
        "there is no client 9"
    );
}

#[test]
fn the_first_copy_counts_alone_and_others_a_little() {
    let (mut orders, mut clients) = (Orders::new(Speed::expected(1)), Clients::default());
    clients.arrive(1, 11);
    orders.arrive(1);
    let mut evict = |bytes, took| {
        let now = AT(10);
        orders.give(&clients, 1, EVICT, bytes, now);
        let number = orders.agents[&1].last.into();
        orders.obeyed(1, number, bytes, false, &mut Counts::default(), now + took);
        orders.speed().bytes_per_s
    };
    assert_eq!(evict(1 << 20, AT(1)), 5 << 30, "so little says nothing");
    assert_eq!(evict(10 << 30, AT(1)), 10 << 30);
    assert_eq!(evict(20 << 30, AT(1)), 13 << 30);
    // Who is stopped meanwhile says little.
    assert!(evict(1 << 30, AT(60)) > 10 << 30);
}
