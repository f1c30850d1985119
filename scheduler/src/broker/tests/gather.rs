//! That room for what fits nowhere gathers on one GPU, for a bounded time.

use mgb_probe::view::WaitsFor;

use super::*;
use crate::broker::dispatch::GATHER_TIMEOUT_FACTOR;
use crate::policies::HOLDER_PATIENCE;
use crate::quota::Account;

const TICK: Duration = Duration::from_secs(1);
const RUN: Duration = Duration::from_secs(3);
const CONTEXT: u64 = 1;

/// A node on which there is always somebody with a small task.
struct BusyNode {
    broker: Broker,
    now: Duration,
    next: ClientId,
    ends: Vec<(Duration, ClientId)>,
    /// Small ones that were granted, by GPU.
    small: Vec<u64>,
}

impl BusyNode {
    /// With as many GPUs of 100 bytes.
    fn new(gpus: u32) -> BusyNode {
        let all = (0..gpus).map(|index| test_gpu(index, 100, CONTEXT)).collect();
        BusyNode {
            broker: Broker::new(all, patient_for_ten_seconds()),
            now: Duration::ZERO,
            next: 1000,
            ends: Vec::new(),
            small: vec![0; gpus as usize],
        }
    }

    fn arrive(&mut self, client: ClientId, uid: u32) {
        self.broker.arrive(client, client as u32);
        self.broker.belongs_to(client, uid);
        self.broker.has_account(uid, Account::default());
    }

    fn ask(&mut self, client: ClientId, asked: Request) {
        let cell = asked.task as usize;
        assert_eq!(self.broker.request(client, cell, asked, self.now), None);
    }

    /// A server that holds so much of a GPU for ever.
    fn serves(&mut self, client: ClientId, bytes: u64, gpu: usize) {
        self.arrive(client, 1);
        let asked = Request {
            gpus: 1 << gpu,
            ..request(Op::Begin, 1, bytes, client as u32)
        };
        self.ask(client, asked);
        assert_eq!(self.broker.serve(&mut Snapshot::default(), self.now).len(), 1);
    }

    /// A second goes by, in which `others` come that all would take ten bytes for [`RUN`]. Who else is
    /// granted something.
    fn goes_on(&mut self, others: u64) -> Vec<(ClientId, usize)> {
        self.now += TICK;
        let now = self.now;
        for (_, client) in self.ends.extract_if(.., |(end, _)| *end <= now) {
            for entry in self.broker.die(client, now) {
                self.broker.freed(entry.id);
            }
        }
        for _ in 0..others {
            self.arrive(self.next, 2);
            self.ask(self.next, request(Op::Begin, 1, 10, 1));
            self.next += 1;
        }
        let mut granted = Vec::new();
        for answer in self.broker.serve(&mut Snapshot::default(), now) {
            let Reply::Granted { gpu, .. } = answer.reply else {
                panic!("{:?}", answer.reply);
            };
            if answer.client < 1000 {
                granted.push((answer.client, gpu as usize));
            } else {
                self.small[gpu as usize] += 1;
                self.ends.push((now + RUN, answer.client));
            }
        }
        granted
    }

    /// GPUs where small ones have begun in so many seconds; those that wait for ever do not queue up.
    fn used_in(&mut self, seconds: u32, others: u64) -> u64 {
        let before = self.small.clone();
        for _ in 0..seconds {
            assert_eq!(self.goes_on(others), []);
        }
        let more = before
            .iter()
            .zip(&self.small)
            .map(|(before, after)| after > before);
        more.enumerate()
            .fold(0, |set, (gpu, is_used)| set | u64::from(is_used) << gpu)
    }
}

/// The GPU where room gathers for the request that waits longest.
fn gathers_on(node: &BusyNode) -> u32 {
    node.broker.queue.pending.waiters()[0].gathers.expect("on one") as u32
}

/// What the first request that waits is said to wait for.
fn waits_for(node: &BusyNode) -> Option<WaitsFor> {
    node.broker.wait_views(node.now)[0].waits_for
}

/// A request of nine tenths of a GPU, beside servers on all GPUs but one, where a job ends, and another
/// user's stream.
#[test]
fn nine_tenths_are_served_on_one_gpu_and_the_others_go_on() {
    let mut node = BusyNode::new(4);
    let (job, longest) = (ProgramId::new(77), 100);
    node.arrive(4, 1);
    node.broker.identify(4, job);
    node.ask(4, request(Op::Begin, 1, 30, 4));
    node.goes_on(0);
    for _ in 0..longest {
        node.goes_on(0);
    }
    let end = request(Op::End, 1, 0, 4);
    node.broker.request(4, 9, end, node.now);
    node.broker.die(4, node.now);
    node.broker.freed(0);
    for gpu in [0, 1, 2] {
        node.serves(1 + gpu as u64, 30, gpu);
    }
    // What ran before lasts for as long again.
    node.arrive(5, 1);
    node.broker.identify(5, job);
    node.ask(
        5,
        Request {
            gpus: 0b1000,
            ..request(Op::Begin, 1, 30, 5)
        },
    );
    assert_eq!(node.goes_on(0), [(5, 3)]);
    let ends = node.now + TICK * longest;
    let patience = node.broker.books.rules.patience;
    let all = 40;
    for _ in 0..30 {
        node.goes_on(all);
    }
    let (before, warm) = (node.small.clone(), node.now);
    for _ in 0..30 {
        node.goes_on(all);
    }
    let usual: Vec<u64> = before
        .iter()
        .zip(&node.small)
        .map(|(before, after)| after - before)
        .collect();
    let length = node.now - warm;
    node.arrive(9, 3);
    node.ask(9, request(Op::Begin, 1, 90, 9));
    let (asked, before) = (node.now, node.small.clone());
    let at = loop {
        if node.now >= ends {
            for entry in node.broker.die(5, node.now) {
                node.broker.freed(entry.id);
            }
        }
        if let Some((client, gpu)) = node.goes_on(all).pop() {
            assert_eq!(client, 9);
            break gpu;
        }
        assert!(node.now - asked < patience * 20, "it starves");
    };
    let waited = node.now - asked;
    assert!(
        waited <= (ends - asked).max(patience) + RUN + TICK * 2,
        "{waited:?}"
    );
    assert_eq!(at, 3, "it waits for what ends first");
    for gpu in 0..3 {
        let (part, whole) = (node.small[gpu] - before[gpu], usual[gpu]);
        let per_second = |count: u64, time: Duration| count as f64 / time.as_secs_f64();
        let kept = per_second(part, waited) / per_second(whole, length);
        assert!(kept >= 0.95, "GPU {gpu} served {kept:.2} of what it did before");
    }
}

#[test]
fn of_sixteen_gpus_one_is_kept_and_given_up_where_nothing_leaves() {
    let mut node = BusyNode::new(16);
    for gpu in 0..16 {
        node.serves(1 + gpu as u64, 30, gpu);
    }
    node.arrive(99, 3);
    node.ask(99, request(Op::Begin, 1, 90, 99));
    let patience = node.broker.books.rules.patience;
    node.used_in(20, 40);
    let mut closed = 0;
    let seconds = (patience * GATHER_TIMEOUT_FACTOR).as_secs() as u32;
    for _ in 0..4 * seconds / 10 {
        let kept = !node.used_in(10, 40) & 0xffff;
        assert!(kept.count_ones() <= 1, "{kept:#b} are kept");
        assert_eq!(waits_for(&node), Some(WaitsFor::RoomGathers(gathers_on(&node))));
        closed |= kept;
    }
    assert!(
        closed.count_ones() >= 3,
        "it is tried on one after the other: {closed:#b}"
    );
}

/// One GPU, which nobody leaves: it is everybody's for as long as it was kept, then for longer.
#[test]
fn a_single_gpu_is_not_kept_for_ever() {
    let mut node = BusyNode::new(1);
    node.serves(1, 30, 0);
    node.arrive(99, 3);
    node.ask(99, request(Op::Begin, 1, 90, 99));
    let patience = node.broker.books.rules.patience.as_secs();
    let (mut began, mut is_said, mut others_are_told) = (0, false, false);
    let pid = node.broker.wait_views(node.now)[0].pid;
    let whole = 38 * patience as u32;
    for _ in 0..whole {
        began += u32::from(node.used_in(1, 8) != 0);
        is_said |= waits_for(&node) == Some(WaitsFor::NothingLeaves);
        let waits = node.broker.wait_views(node.now);
        others_are_told |= waits
            .iter()
            .any(|wait| wait.waits_for == Some(WaitsFor::GathersFor(pid)));
    }
    assert!(is_said && others_are_told);
    assert!(began > whole / 8, "in {began} of {whole} seconds somebody began");
}

#[test]
fn many_hopeless_requests_of_a_user_keep_one_gpu_between_them() {
    let mut node = BusyNode::new(8);
    for gpu in 0..8 {
        node.serves(1 + gpu as u64, 30, gpu);
        let client = 100 + gpu as u64;
        node.arrive(client, 3);
        node.ask(
            client,
            Request {
                gpus: 1 << gpu,
                ..request(Op::Begin, 1, 90, 1)
            },
        );
    }
    node.used_in(20, 24);
    for _ in 0..12 {
        let used = node.used_in(20, 24);
        assert!(used.count_ones() >= 7, "{used:#b} are used");
    }
}

#[test]
fn a_growth_for_which_nothing_leaves_keeps_newcomers_out_for_a_bounded_time() {
    let mut node = BusyNode::new(1);
    node.serves(1, 50, 0);
    node.serves(2, 20, 0);
    let asked = node.now;
    node.ask(2, request(Op::Grow, 1, 60, 2));
    let bound = node.broker.books.rules.patience * HOLDER_PATIENCE;
    // The server is at work.
    let mut waited = None;
    while waited.is_none() && node.now - asked < bound * 20 {
        let served = TaskKey { client: 1, task: 1 };
        node.broker.queue.touches.touch(served, 1, node.now);
        waited = (node.used_in(1, 1) != 0).then(|| node.now - asked);
    }
    assert!(
        waited.is_some_and(|waited| waited > TICK && waited <= bound + TICK),
        "{waited:?}"
    );
}

/// A waits to grow, B has what it waits for and waits for C, which asks for nothing but to begin.
#[test]
fn a_program_that_asks_for_no_memory_begins_beside_a_growth() {
    let mut node = BusyNode::new(1);
    node.serves(1, 50, 0);
    node.serves(2, 20, 0);
    node.ask(2, request(Op::Grow, 1, 60, 2));
    node.arrive(3, 1);
    node.ask(3, request(Op::Begin, 1, 0, 3));
    let asked = node.now;
    let patience = node.broker.books.rules.patience;
    while node.goes_on(0) != [(3, 0)] {
        let served = TaskKey { client: 1, task: 1 };
        node.broker.queue.touches.touch(served, 1, node.now);
        assert!(node.now - asked <= patience, "it waits for those who wait for it");
    }
}

#[test]
fn a_gpu_for_itself_is_given_up_where_nobody_leaves() {
    let mut node = BusyNode::new(1);
    node.serves(1, 10, 0);
    node.arrive(9, 3);
    let mut asked = request(Op::Begin, 1, 10, 9);
    asked.need.flags = ALONE;
    node.ask(9, asked);
    node.used_in(20, 8);
    let bound = node.broker.books.rules.patience * GATHER_TIMEOUT_FACTOR;
    let since = node.now;
    while node.used_in(1, 8) == 0 {
        assert!(node.now - since <= bound, "it keeps the GPU for ever");
    }
}

/// Withdrawing and asking again, or asking twice, begins no new time.
#[test]
fn who_asks_again_has_nothing_gather_where_it_was_given_up() {
    let mut node = BusyNode::new(1);
    node.serves(1, 30, 0);
    for client in [100, 101] {
        node.arrive(client, 3);
        node.ask(client, request(Op::Begin, 1, 90, 1));
    }
    let patience = node.broker.books.rules.patience.as_secs() as u32;
    node.used_in(patience * (GATHER_TIMEOUT_FACTOR + 2), 8);
    let withdraw = request(Op::Withdraw, 1, 0, 1);
    node.broker.request(100, 9, withdraw, node.now);
    node.broker.serve(&mut Snapshot::default(), node.now);
    node.ask(100, request(Op::Begin, 1, 90, 1));
    for _ in 0..patience * (GATHER_TIMEOUT_FACTOR - 3) / 3 {
        assert_eq!(node.used_in(3, 8), 1);
    }
}

/// A static need is advice: whoever waits for the program must not wait for ever for a need that is too high.
#[test]
fn a_static_need_for_which_nothing_leaves_is_given_up() {
    let mut node = BusyNode::new(1);
    node.serves(1, 30, 0);
    for (client, site) in [(100, 5), (101, 0)] {
        node.arrive(client, 3);
        node.ask(
            client,
            Request {
                site,
                ..request(Op::Begin, 1, 90, 1)
            },
        );
    }
    let bound = node.broker.books.rules.patience * 64;
    let answer = loop {
        node.now += TICK;
        let answers = node.broker.serve(&mut Snapshot::default(), node.now);
        if let Some(answer) = answers.first() {
            break *answer;
        }
        assert!(node.now < bound, "it waits for ever");
    };
    assert_eq!((answer.client, answer.reply), (100, Reply::Deadlock));
    // What a person declares is no advice.
    assert_eq!(node.used_in(100, 8), 1);
    assert_eq!(node.broker.wait_views(node.now)[0].pid, 101);
}
