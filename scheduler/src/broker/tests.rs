//! Whole lives of processes, simulated: nobody hangs, nobody overflows.

use super::*;
use crate::node::test_gpu;
use mgb_probe::Need;
use mgb_probe::wire::Text;
use proptest::prelude::*;

/// What a process does next, one step at a time.
#[derive(Clone, Debug)]
enum Act {
    /// Begins task n with these bytes, anywhere (0) or in this set of GPUs.
    Begin(u64, u64, u64),
    /// Grows task n.
    Grow(u64, u64),
    /// Works for some ticks, launches in flight.
    Work(u32),
    /// Ends task n; keeps these bytes.
    End(u64, u64),
}

/// A single-threaded process under the runtime's rules: it swaps when told, and
/// a task that was swapped grows back before it is used.
struct Process {
    client: ClientId,
    acts: Vec<Act>,
    waiting: Option<Request>,
    busy: u32,
    /// Per task: GPU, bytes it wants, bytes on the GPU.
    tasks: BTreeMap<u64, (u32, u64, u64)>,
    dead: bool,
    swaps: u32,
}

struct World {
    broker: Broker,
    processes: Vec<Process>,
    now: Duration,
    capacity: Vec<u64>,
}

fn request(op: Op, task: u64, bytes: u64, thread: u32) -> Request {
    Request {
        op,
        flags: 0,
        task,
        thread,
        site: 0,
        gpus: u64::MAX,
        bytes,
        need: Need {
            mapped_bytes: bytes,
            grid_blocks: 1,
            block_threads: 32,
            ..Need::default()
        },
        label: Text::default(),
    }
}

impl World {
    fn new(capacity: &[u64], context: u64, lives: Vec<Vec<Act>>) -> World {
        let gpus = capacity
            .iter()
            .enumerate()
            .map(|(index, &bytes)| test_gpu(index as u32, bytes, context))
            .collect();
        let mut broker = Broker::new(gpus, Rules::new(Policy::Mgb));
        let processes = (1..)
            .zip(lives)
            .map(|(client, acts)| {
                broker.arrive(client, client as u32);
                Process {
                    client,
                    acts,
                    waiting: None,
                    busy: 0,
                    tasks: BTreeMap::new(),
                    dead: false,
                    swaps: 0,
                }
            })
            .collect();
        World {
            broker,
            processes,
            now: Duration::ZERO,
            capacity: capacity.to_vec(),
        }
    }

    fn ask(&mut self, at: usize, request: Request) {
        let process = &mut self.processes[at];
        process.waiting = Some(request);
        let client = process.client;
        if let Some(reply) = self.broker.request(client, 0, request, self.now) {
            self.answer(at, reply);
        }
    }

    fn tell(&mut self, at: usize, op: Op, task: u64, bytes: u64) {
        let client = self.processes[at].client;
        let reply = self
            .broker
            .request(client, 1, request(op, task, bytes, client as u32), self.now);
        assert_eq!(reply, Some(Reply::Done));
    }

    fn swap_out(&mut self, at: usize, task: u64) {
        let resident = self.processes[at].tasks[&task].2;
        self.processes[at].tasks.get_mut(&task).unwrap().2 = 0;
        self.tell(at, Op::Swapped, task, resident);
        self.processes[at].swaps += 1;
    }

    fn answer(&mut self, at: usize, reply: Reply) {
        let asked = self.processes[at]
            .waiting
            .take()
            .expect("an answer to a question");
        let client = self.processes[at].client as u32;
        match (asked.op, reply) {
            (Op::Begin, Reply::Granted { gpu, reserved }) => {
                self.processes[at]
                    .tasks
                    .insert(asked.task, (gpu, reserved, reserved));
            }
            (Op::Grow, Reply::Granted { reserved, .. }) => {
                let task = self.processes[at].tasks.get_mut(&asked.task).unwrap();
                task.2 = reserved;
                task.1 = task.1.max(reserved);
            }
            (Op::Grow, Reply::SwapOut { .. }) => {
                let whole = self.processes[at].tasks[&asked.task].2 + asked.bytes;
                self.swap_out(at, asked.task);
                self.ask(at, request(Op::Grow, asked.task, whole, client));
            }
            (_, Reply::SwapOthers { gpu }) => {
                let others: Vec<u64> = self.processes[at]
                    .tasks
                    .iter()
                    .filter(|(task, held)| **task != asked.task && held.0 == gpu && held.2 > 0)
                    .map(|(task, _)| *task)
                    .collect();
                assert!(!others.is_empty(), "told to swap what it does not have");
                for task in others {
                    self.swap_out(at, task);
                }
                self.ask(at, asked);
            }
            // Two may each fit alone and never beside the other's context.
            (_, Reply::NeverFits { .. } | Reply::NoGpu | Reply::Deadlock) => {
                self.processes[at].acts.clear();
            }
            (_, reply) => panic!("{reply:?} to {asked:?}"),
        }
    }

    fn step(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let client = process.client as u32;
        if process.dead || process.waiting.is_some() {
            return;
        }
        if process.busy > 0 {
            process.busy -= 1;
            return;
        }
        if process.acts.is_empty() {
            process.dead = true;
            let lost = self.broker.die(client.into(), self.now);
            for entry in lost {
                self.broker.freed(entry.id);
            }
            return;
        }
        // A task on the host comes back before it is used.
        let used = match process.acts[0] {
            Act::Grow(task, _) => Some(task),
            Act::Work(_) => process.tasks.keys().next().copied(),
            _ => None,
        };
        if let Some((task, (_, whole, 0))) = used.and_then(|t| Some((t, *process.tasks.get(&t)?)))
            && whole > 0
        {
            self.ask(at, request(Op::Grow, task, whole, client));
            return;
        }
        match process.acts.remove(0) {
            Act::Begin(task, bytes, gpus) => {
                let gpus = if gpus == 0 { u64::MAX } else { gpus };
                self.ask(
                    at,
                    Request {
                        gpus,
                        ..request(Op::Begin, task, bytes, client)
                    },
                );
            }
            Act::Grow(task, bytes) if process.tasks.contains_key(&task) => {
                self.ask(at, request(Op::Grow, task, bytes, client));
            }
            Act::Work(ticks) => process.busy = ticks,
            Act::End(task, kept) if process.tasks.contains_key(&task) => {
                let held = process.tasks.get_mut(&task).unwrap();
                held.2 = held.2.min(kept);
                let kept = held.2;
                if kept == 0 {
                    process.tasks.remove(&task);
                }
                self.tell(at, Op::End, task, kept);
            }
            _ => {}
        }
    }

    /// Runs until all are dead; panics when that takes suspiciously long.
    fn run(&mut self) -> u32 {
        for tick in 0..5_000 {
            if self.processes.iter().all(|process| process.dead) {
                return tick;
            }
            self.now += Duration::from_millis(50);
            for at in 0..self.processes.len() {
                self.step(at);
            }
            let busy = self
                .processes
                .iter()
                .filter(|process| process.busy > 0)
                .flat_map(|process| {
                    let on = process.tasks.values().map(|held| held.0 as usize);
                    on.map(|gpu| (process.client, gpu))
                })
                .collect();
            let sight = Sight {
                covered: Vec::new(),
                busy,
            };
            for answer in self.broker.serve(&sight, self.now) {
                let at = answer.client as usize - 1;
                if answer.cell == 0 {
                    self.answer(at, answer.reply);
                }
            }
            for (gpu, &capacity) in self.capacity.iter().enumerate() {
                let mapped: u64 = self
                    .processes
                    .iter()
                    .filter(|process| !process.dead)
                    .flat_map(|process| process.tasks.values())
                    .filter(|held| held.0 as usize == gpu)
                    .map(|held| held.2)
                    .sum();
                assert!(mapped <= capacity, "GPU {gpu} holds {mapped} of {capacity}");
            }
        }
        panic!("it hangs: {:#?}", self.broker);
    }
}

/// FlexGPU's four processes, in bytes at 1/`shrink` of the sizes.
fn flexgpu(shrink: f64) {
    let gib = |size: f64| (size * f64::from(1 << 30) / shrink) as u64;
    let context = gib(0.514);
    let lives = [(3.61, 3.36), (1.36, 3.09), (1.88, 3.51), (3.88, 2.51)]
        .map(|(hold, more)| {
            vec![
                Act::Begin(1, gib(hold), 0),
                Act::Work(20),
                Act::Grow(1, gib(more)),
                Act::Work(20),
                Act::End(1, 0),
            ]
        })
        .to_vec();
    let mut world = World::new(&[gib(12.0) + 4 * context], context, lives);
    world.run();
    let swaps: Vec<u32> = world.processes.iter().map(|process| process.swaps).collect();
    assert_eq!(swaps, [0, 0, 0, 1], "only the youngest makes room, once");
    assert_eq!(world.broker.counts().grown, 4);
    assert_eq!(world.broker.ledger().charges(0).bytes(), 0);
}

#[test]
fn four_that_grow_at_once_all_finish() {
    flexgpu(1.0);
    flexgpu(16.0);
}

#[test]
fn two_that_hold_and_begin_more_both_finish() {
    let life = || {
        vec![
            Act::Begin(1, 6, 0),
            Act::Work(2),
            Act::Begin(2, 5, 0),
            Act::Work(2),
            Act::End(2, 0),
            Act::Work(1),
        ]
    };
    let mut world = World::new(&[14], 1, vec![life(), life()]);
    world.run();
    assert_eq!((world.processes[0].swaps, world.processes[1].swaps), (0, 1));
}

#[test]
fn what_can_never_fit_is_refused_at_once() {
    let gpus = vec![test_gpu(0, 80 << 30, 1 << 30), test_gpu(1, 40 << 30, 1 << 30)];
    let mut broker = Broker::new(gpus, Rules::new(Policy::Mgb));
    broker.arrive(1, 1);
    let reply = broker.request(1, 0, request(Op::Begin, 1, 95 << 30, 1), Duration::ZERO);
    assert_eq!(
        reply,
        Some(Reply::NeverFits {
            wanted: 96 << 30,
            largest: 80 << 30
        })
    );
    let only = Request {
        gpus: 0b10,
        ..request(Op::Begin, 1, 50 << 30, 1)
    };
    let reply = broker.request(1, 0, only, Duration::ZERO);
    assert_eq!(
        reply,
        Some(Reply::NeverFits {
            wanted: 51 << 30,
            largest: 40 << 30
        })
    );
    let none = Request {
        gpus: 0b100,
        ..request(Op::Begin, 1, 1, 1)
    };
    assert_eq!(broker.request(1, 0, none, Duration::ZERO), Some(Reply::NoGpu));
    assert_eq!(
        broker.request(1, 0, request(Op::Begin, 1, 1, 1), Duration::ZERO),
        None
    );
    broker.serve(&Sight::default(), Duration::ZERO);
    let more = request(Op::Grow, 1, 80 << 30, 1);
    assert!(matches!(
        broker.request(1, 0, more, Duration::ZERO),
        Some(Reply::NeverFits { .. })
    ));
}

#[test]
fn room_that_the_driver_does_not_show_free_is_not_granted() {
    let mut broker = Broker::new(vec![test_gpu(0, 100, 10)], Rules::new(Policy::Mgb));
    broker.arrive(1, 1);
    broker.request(1, 0, request(Op::Begin, 1, 50, 1), Duration::ZERO);
    let sight = |free| Sight {
        covered: vec![Some(free)],
        ..Sight::default()
    };
    assert!(broker.serve(&sight(59), Duration::ZERO).is_empty());
    assert_eq!(broker.serve(&sight(60), Duration::ZERO).len(), 1);
}

#[test]
fn a_running_thread_keeps_its_process_from_waiting() {
    let mut broker = Broker::new(vec![test_gpu(0, 20, 0)], Rules::new(Policy::Mgb));
    for client in [1, 2] {
        broker.arrive(client, client as u32);
        broker.request(client, 0, request(Op::Begin, 1, 10, 1), Duration::ZERO);
    }
    let now = Duration::from_millis(100);
    assert_eq!(broker.serve(&Sight::default(), now).len(), 2);
    // Thread 1 of both waits for more; thread 9 of the second has a task too.
    broker.request(2, 1, request(Op::Begin, 2, 0, 9), now);
    assert_eq!(broker.serve(&Sight::default(), now).len(), 1);
    broker.request(2, 2, request(Op::Grow, 2, 0, 9), now);
    broker.request(1, 0, request(Op::Grow, 1, 5, 1), now);
    let busy = Sight {
        busy: [(2, 0)].into(),
        ..Sight::default()
    };
    assert!(broker.serve(&busy, now).is_empty());
    broker.request(2, 0, request(Op::Grow, 1, 5, 1), now);
    let answers = broker.serve(&busy, now);
    // Task 2 holds nothing, so it does not count.
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].reply, Reply::SwapOut { gpu: 0 });
    assert_eq!(answers[0].client, 2);
}

#[test]
fn who_was_told_and_frees_nothing_is_refused() {
    let mut broker = Broker::new(vec![test_gpu(0, 20, 0)], Rules::new(Policy::Mgb));
    for client in [1, 2] {
        broker.arrive(client, client as u32);
        broker.request(client, 0, request(Op::Begin, 1, 10, 1), Duration::ZERO);
    }
    broker.serve(&Sight::default(), Duration::ZERO);
    for client in [1, 2] {
        broker.request(client, 0, request(Op::Grow, 1, 5, 1), Duration::ZERO);
    }
    let answers = broker.serve(&Sight::default(), Duration::ZERO);
    assert_eq!(
        (answers[0].client, answers[0].reply),
        (2, Reply::SwapOut { gpu: 0 })
    );
    // The junior asks again and freed nothing; then the senior likewise.
    broker.request(2, 0, request(Op::Grow, 1, 5, 1), Duration::ZERO);
    let answers = broker.serve(&Sight::default(), Duration::ZERO);
    assert_eq!(
        (answers[0].client, answers[0].reply),
        (1, Reply::SwapOut { gpu: 0 })
    );
    broker.request(1, 0, request(Op::Grow, 1, 5, 1), Duration::ZERO);
    let answers = broker.serve(&Sight::default(), Duration::ZERO);
    assert_eq!((answers[0].client, answers[0].reply), (2, Reply::Deadlock));
}

#[test]
fn nonsense_is_answered() {
    let mut broker = Broker::new(vec![test_gpu(0, 20, 0)], Rules::new(Policy::Mgb));
    broker.arrive(1, 1);
    for op in [Op::Grow, Op::Swapped, Op::GiveBack, Op::End] {
        let reply = broker.request(1, 0, request(op, 7, u64::MAX, 1), Duration::ZERO);
        assert!(matches!(reply, Some(Reply::Bad(_))), "{op:?}");
    }
    assert!(matches!(
        broker.request(1, 0, request(Op::Begin, 0, 1, 1), Duration::ZERO),
        Some(Reply::Bad(_))
    ));
    assert_eq!(
        broker.request(1, 0, request(Op::Begin, 1, 1, 1), Duration::ZERO),
        None
    );
    let twice = broker.request(1, 1, request(Op::Begin, 1, 1, 1), Duration::ZERO);
    assert!(matches!(twice, Some(Reply::Bad(_))));
}

#[test]
fn a_blind_policy_grants_what_does_not_fit() {
    let mut broker = Broker::new(vec![test_gpu(0, 20, 1)], Rules::new(Policy::Cg(2)));
    for client in 1..=3 {
        broker.arrive(client, client as u32);
        broker.request(client, 0, request(Op::Begin, 1, 1000, 1), Duration::ZERO);
    }
    assert_eq!(broker.serve(&Sight::default(), Duration::ZERO).len(), 2);
    broker.die(1, Duration::ZERO);
    assert_eq!(broker.serve(&Sight::default(), Duration::ZERO).len(), 1);
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1..4u64, 0..12u64, prop_oneof![Just(0u64), Just(1), Just(2)])
            .prop_map(|(task, bytes, gpus)| Act::Begin(task, bytes, gpus)),
        4 => (1..4u64, 1..10u64).prop_map(|(task, bytes)| Act::Grow(task, bytes)),
        3 => (1..5u32).prop_map(Act::Work),
        2 => (1..4u64, 0..3u64).prop_map(|(task, kept)| Act::End(task, kept)),
    ]
}

/// Makes task numbers unique: a number is begun once.
fn tidy(acts: Vec<Act>) -> Vec<Act> {
    let mut begun = BTreeSet::new();
    acts.into_iter()
        .filter(|act| !matches!(act, Act::Begin(task, ..) if !begun.insert(*task)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn whatever_they_do_all_finish(
        lives in proptest::collection::vec(proptest::collection::vec(act(), 1..10), 1..7)
    ) {
        let lives = lives.into_iter().map(tidy).collect();
        let mut world = World::new(&[24, 20], 1, lives);
        world.run();
        for gpu in 0..2 {
            prop_assert_eq!(world.broker.ledger().charges(gpu).bytes(), 0);
        }
    }
}
