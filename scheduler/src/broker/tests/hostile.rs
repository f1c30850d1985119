//! Clients that ask for anything at all: no sum overflows, the ledger keeps its rules, and every request is
//! answered exactly once.

use mgb_probe::Need;
use mgb_probe::wire::Text;

use super::*;
use crate::ledger::Reclaiming;

const POLICIES: [&str; 6] = ["mgb", "alg3", "alg2", "sa", "cg:2", "schedgpu"];
const CLIENTS: u64 = 3;

/// Sizes at which sums overflow, and such as fit.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        1u64..200,
        Just(1 << 50),
        Just((1 << 50) - 1),
        Just(u64::MAX / 2),
        Just(u64::MAX - 1),
        Just(u64::MAX),
        any::<u64>(),
    ]
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 1u32..2048, Just(u32::MAX), any::<u32>()]
}

fn op() -> impl Strategy<Value = Op> {
    use Op::*;
    prop_oneof![
        4 => Just(Begin),
        3 => Just(Grow),
        1 => Just(Swapped),
        1 => Just(GiveBack),
        2 => Just(End),
        1 => Just(Turn),
        1 => Just(TurnOver),
        1 => Just(Expect),
    ]
}

prop_compose! {
    fn need()(
        sizes in [bytes(), bytes(), bytes(), bytes(), bytes()],
        numbers in [number(), number(), number(), number(), number()],
    ) -> Need {
        let [peak_bytes, mapped_bytes, grid_blocks, heap_bytes, deadline_ns] = sizes;
        let [block_threads, registers, shared_bytes, flags, priority] = numbers;
        Need {
            peak_bytes,
            mapped_bytes,
            grid_blocks,
            block_threads,
            registers,
            shared_bytes,
            heap_bytes,
            flags,
            priority,
            deadline_ns,
        }
    }
}

prop_compose! {
    fn any_request()(
        op in op(),
        task in prop_oneof![0u64..4, Just(u64::MAX)],
        thread in 0u32..3,
        flags in number(),
        gpus in prop_oneof![3 => Just(u64::MAX), 1 => any::<u64>()],
        bytes in bytes(),
        need in need(),
        plain in any::<bool>(),
    ) -> Request {
        // Half of the beginning tasks only name some bytes, so that many are granted.
        let need = if plain { Need { mapped_bytes: bytes, ..Need::default() } } else { need };
        Request { op, flags, task, thread, site: flags, gpus, bytes, need, first: flags, label: Text::default() }
    }
}

/// What happens to the broker.
#[derive(Clone, Debug)]
enum BrokerEvent {
    Ask(u64, Request),
    Serve { covered: u64, busy: bool },
    TakeLease(u64, u64),
    HasOverhead(u64, u64),
    Die(u64),
    Exec(u64),
    Free,
}

fn event() -> impl Strategy<Value = BrokerEvent> {
    let client = || 1..=CLIENTS;
    prop_oneof![
        12 => (client(), any_request()).prop_map(|(client, request)| BrokerEvent::Ask(client, request)),
        6 => (bytes(), any::<bool>()).prop_map(|(covered, busy)| BrokerEvent::Serve { covered, busy }),
        1 => (client(), 0u64..4).prop_map(|(client, task)| BrokerEvent::TakeLease(client, task)),
        1 => (client(), bytes()).prop_map(|(client, bytes)| BrokerEvent::HasOverhead(client, bytes)),
        1 => client().prop_map(BrokerEvent::Die),
        1 => client().prop_map(BrokerEvent::Exec),
        1 => Just(BrokerEvent::Free),
    ]
}

/// The broker, and the requests that it has not answered yet, by client and cell.
struct Crowd {
    broker: Broker,
    now: Duration,
    asked: BTreeSet<(u64, usize)>,
    cells: usize,
    /// The client that each of [`CLIENTS`] is now.
    lives: BTreeMap<u64, u64>,
    next_life: u64,
    lost: Vec<u64>,
}

impl Crowd {
    fn new(policy: &str) -> Crowd {
        let gpus = vec![test_gpu(0, 200, 5), test_gpu(1, 100, 5)];
        let mut crowd = Crowd {
            broker: Broker::new(gpus, ServingRules::new(policy.parse().unwrap())),
            now: Duration::ZERO,
            asked: BTreeSet::new(),
            cells: 0,
            lives: BTreeMap::new(),
            next_life: 1,
            lost: Vec::new(),
        };
        for who in 1..=CLIENTS {
            crowd.arrive(who);
        }
        crowd
    }

    fn arrive(&mut self, who: u64) {
        let client = self.next_life;
        self.next_life += 1;
        self.broker.arrive(client, client as u32);
        self.broker.identify(client, ProgramId::new(who));
        self.broker.join(client, who % 3);
        self.lives.insert(who, client);
    }

    fn happens(&mut self, event: BrokerEvent) {
        self.now += Duration::from_secs(7);
        match event {
            BrokerEvent::Ask(who, request) => {
                let (client, cell) = (self.lives[&who], self.cells);
                self.cells += 1;
                if self.broker.request(client, cell, request, self.now).is_none() {
                    self.asked.insert((client, cell));
                }
            }
            BrokerEvent::Serve { covered, busy } => {
                let contexts = self.broker.ledger().contexts();
                let mut snapshot = Snapshot {
                    covered: vec![Some(covered), None],
                    busy: contexts
                        .filter(|_| busy)
                        .map(|(client, gpu, _)| (client, gpu))
                        .collect(),
                    ..Snapshot::default()
                };
                let mut answers = self.broker.serve(&mut snapshot, self.now);
                answers.extend(self.broker.take_turns(self.now));
                for answer in answers {
                    assert!(
                        self.asked.remove(&(answer.client, answer.cell)),
                        "answered twice: {answer:?}"
                    );
                }
                // What is not answered waits for something.
                let queued = self
                    .broker
                    .queue
                    .pending
                    .iter()
                    .map(|waiting| (waiting.client, waiting.cell));
                let followers = self.broker.jobs.followers().iter();
                let followers = followers.map(|follower| (follower.client, follower.cell));
                let turns = self.broker.turns.cells();
                let waiting: BTreeSet<_> = queued.chain(turns).chain(followers).collect();
                assert_eq!(self.asked, waiting);
            }
            BrokerEvent::TakeLease(who, task) => {
                let client = self.lives[&who];
                self.broker.take_lease(TaskKey { client, task });
            }
            BrokerEvent::HasOverhead(who, bytes) => self.broker.has_overhead(self.lives[&who], 0, bytes),
            BrokerEvent::Die(who) => {
                let client = self.lives[&who];
                let lost = self.broker.die(client, self.now);
                self.gone(client, lost);
                self.arrive(who);
            }
            BrokerEvent::Exec(who) => {
                let client = self.lives[&who];
                let lost = self.broker.exec(client, self.now);
                self.gone(client, lost);
            }
            BrokerEvent::Free => {
                for id in std::mem::take(&mut self.lost) {
                    self.broker.freed(id);
                }
            }
        }
        self.broker.task_views(|_, _, task| task, self.now);
        self.broker.wait_views(self.now);
    }

    fn gone(&mut self, client: u64, lost: Vec<Reclaiming>) {
        self.asked.retain(|(other, _)| *other != client);
        self.lost.extend(lost.into_iter().map(|entry| entry.id));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_requests_are_answered_once_and_overflow_nothing(
        policy in prop::sample::select(POLICIES.to_vec()),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut crowd = Crowd::new(policy);
        for event in events {
            crowd.happens(event);
        }
    }
}

#[test]
fn two_hostile_requests_overflow_no_sum_under_policies_that_know_no_memory() {
    for policy in ["sa", "cg:2"] {
        let mut crowd = Crowd::new(policy);
        for client in 1..=2 {
            let reply = crowd
                .broker
                .request(client, 0, request(Op::Begin, 1, u64::MAX, 1), Duration::ZERO);
            assert!(
                matches!(reply, Some(Reply::NeverFits { .. })),
                "{policy}: {reply:?}"
            );
        }
        // As much as one request may be for, in very many tasks.
        for task in 1..=2000 {
            crowd
                .broker
                .request(1, 0, request(Op::Begin, task, (1 << 50) - 5, 1), Duration::ZERO);
            crowd.broker.serve(&mut Snapshot::default(), Duration::ZERO);
        }
        let charges = crowd.broker.ledger().charges(0);
        assert_eq!(
            charges.reserved,
            crate::ledger::MOST_CHARGED - charges.contexts,
            "{policy}"
        );
        let more = crowd
            .broker
            .request(1, 0, request(Op::Grow, 2000, 1, 1), Duration::ZERO);
        assert_eq!(more, None);
        assert_eq!(
            crowd.broker.serve(&mut Snapshot::default(), Duration::ZERO).len(),
            1
        );
    }
}

#[test]
fn a_growth_whose_task_ends_meanwhile_is_answered() {
    let ends: [fn(&mut Broker); 4] = [
        |broker| {
            broker.request(1, 1, request(Op::End, 1, 0, 2), Duration::ZERO);
        },
        // Ended with something left, which goes then.
        |broker| {
            broker.request(1, 1, request(Op::End, 1, 10, 2), Duration::ZERO);
            broker.request(1, 2, request(Op::GiveBack, 1, 10, 2), Duration::ZERO);
        },
        |broker| broker.take_lease(TaskKey { client: 1, task: 1 }),
        |broker| {
            broker.request(1, 1, request(Op::Swapped, 1, 60, 2), Duration::ZERO);
            broker.request(1, 2, request(Op::End, 1, 0, 2), Duration::ZERO);
            broker.request(1, 3, request(Op::GiveBack, 1, 0, 2), Duration::ZERO);
        },
    ];
    for (at, end) in ends.into_iter().enumerate() {
        let mut broker = Broker::new(vec![test_gpu(0, 100, 5)], ServingRules::new(Policy::Mgb));
        broker.arrive(1, 1);
        broker.request(1, 0, request(Op::Begin, 1, 60, 1), Duration::ZERO);
        // The driver has little, so the growth waits.
        let snapshot = || Snapshot {
            covered: vec![Some(65)],
            ..Snapshot::default()
        };
        assert_eq!(broker.serve(&mut snapshot(), Duration::ZERO).len(), 1);
        assert_eq!(
            broker.request(1, 7, request(Op::Grow, 1, 30, 1), Duration::ZERO),
            None
        );
        let mut full = Snapshot {
            covered: vec![Some(0)],
            ..Snapshot::default()
        };
        assert!(broker.serve(&mut full, Duration::ZERO).is_empty());
        end(&mut broker);
        assert!(broker.waiting(), "way {at}: nobody would serve");
        let answers = broker.serve(&mut full, Duration::ZERO);
        assert!(
            matches!(
                answers[..],
                [Answer {
                    client: 1,
                    cell: 7,
                    reply: Reply::Bad(_)
                }]
            ),
            "way {at}: {answers:?}"
        );
        assert!(!broker.waiting());
    }
}

#[test]
fn one_user_cannot_fill_the_ledger_and_each_client_has_a_few() {
    let mut broker = broker_over(&[100 * MIB]);
    for (client, user) in [(1, 7), (2, 7), (3, 8)] {
        broker.arrive(client, client as u32);
        broker.belongs_to(client, user);
        broker.has_account(user, crate::quota::Account::default());
    }
    let mut granted = |client, tasks: u64| {
        let mut begins = |task: &u64| {
            let begin = request(Op::Begin, *task, 1, 1);
            let refusal = broker.request(client, 0, begin, Duration::ZERO);
            refusal.is_none() && broker.serve(&mut Snapshot::default(), Duration::ZERO).len() == 1
        };
        (1..=tasks).filter(|task| begins(task)).count()
    };
    assert_eq!(granted(1, 3000), 2048);
    assert_eq!(granted(2, 100), 16, "another one of the same user");
    assert_eq!(granted(3, 100), 100, "another user");
}
