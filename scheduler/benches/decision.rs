//! How long a whole decision takes: a round of the broker over 1,000 waiting
//! tasks on 8 GPUs where 128 run, from the ledger to the answers. Run with
//! `cargo bench -p mgb-scheduler`; a word after `--` picks policies that contain it.
//!
//! | case   | what is there to decide |
//! |--------|-------------------------|
//! | full   | memory of no GPU is enough for anybody |
//! | aged   | the same, and all have waited beyond the patience |
//! | hard   | memory would be enough for all, compute for nobody (under policies that look at it) |
//! | grant  | a task has ended; one far back in the queue takes its place |
//! | mixed  | as grant, with as many different sizes and launches as tasks |
//! | grown  | as grant, and all who fit are expected to grow to the double |

use std::time::{Duration, Instant};

use mgb_interface::{Policy, Queue};
use mgb_probe::Need;
use mgb_probe::wire::{Op, Reply, Request, Text};
use mgb_scheduler::broker::{Broker, ProgramId, ServingRules, Snapshot};

mod h200;

const GPUS: u64 = 8;
const RUNNING: u64 = 128;
const WAITING: u64 = 1000;
const ROUNDS: usize = 2000;
const GIB: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecisionCase {
    Full,
    Aged,
    Hard,
    Grant,
    Mixed,
    Grown,
}

const CASES: [DecisionCase; 6] = [
    DecisionCase::Full,
    DecisionCase::Aged,
    DecisionCase::Hard,
    DecisionCase::Grant,
    DecisionCase::Mixed,
    DecisionCase::Grown,
];

fn request(op: Op, bytes: u64, blocks: u64, number: u64) -> Request {
    Request {
        op,
        flags: 0,
        task: 1,
        thread: 1,
        site: 1 + number as u32,
        gpus: u64::MAX,
        bytes,
        need: Need {
            mapped_bytes: bytes,
            grid_blocks: blocks,
            block_threads: 256,
            registers: 32,
            // Some can be met, some are lost as time goes by, and every third has none.
            deadline_ns: number % 3 * (1 + number * 7919 % 1000) * 50_000_000,
            ..Need::default()
        },
        first: 0,
        label: Text::new("bench.cu:main"),
    }
}

struct Bench {
    broker: Broker,
    snapshot: Snapshot,
    case: DecisionCase,
    now: Duration,
    next: u64,
    running: Vec<u64>,
}

impl Bench {
    fn new(policy: Policy, queue: Queue, case: DecisionCase) -> Bench {
        let rules = ServingRules {
            queue,
            ..ServingRules::new(policy)
        };
        let gpus = (0..GPUS as u32).map(|index| h200::gpu(index, 140 * GIB, GIB / 2));
        let broker = Broker::new(gpus.collect(), rules);
        let mut bench = Bench {
            broker,
            snapshot: Snapshot::default(),
            case,
            now: Duration::ZERO,
            next: 1,
            running: Vec::new(),
        };
        if case == DecisionCase::Grown {
            bench.learn();
        }
        // 16 on each GPU: 8.5 GiB with the context, 4 GiB are left.
        for _ in 0..RUNNING {
            let bytes = match case {
                DecisionCase::Hard => GIB,
                DecisionCase::Grown => 4 * GIB,
                _ => 8 * GIB,
            };
            bench.ask(bytes, 64);
            bench.serve();
        }
        assert_eq!(bench.running.len() as u64, RUNNING);
        for number in 0..WAITING {
            bench.enqueue(number);
        }
        if case == DecisionCase::Aged {
            bench.now = rules.patience * 4 / 3;
        }
        bench
    }

    /// A run of each kind of task that begins with 4 GiB.
    fn learn(&mut self) {
        for _ in 0..7 * 16 {
            self.ask(4 * GIB, 64);
            self.serve();
            self.end();
        }
    }

    /// The oldest that runs ends, having grown as is expected of it.
    fn end(&mut self) {
        let client = self.running.remove(0);
        if self.case == DecisionCase::Grown {
            let grow = request(Op::Grow, 4 * GIB, 64, 0);
            assert_eq!(self.broker.request(client, 1, grow, self.now), None);
            let answers = self.broker.serve(&mut self.snapshot.clone(), self.now);
            assert_eq!(answers.len(), 1);
        }
        for entry in self.broker.die(client, self.now) {
            self.broker.freed(entry.id);
        }
    }

    /// One more waits.
    fn enqueue(&mut self, number: u64) {
        match self.case {
            DecisionCase::Full | DecisionCase::Aged => self.ask(16 * GIB, 264),
            DecisionCase::Hard => self.ask(GIB, 100_000),
            // The last of every fifty fits where one has ended, not beside those that run.
            DecisionCase::Grant if number % 50 == 49 => self.ask(8 * GIB, 64),
            DecisionCase::Grant => self.ask(16 * GIB, 264),
            DecisionCase::Grown if number % 50 == 49 => self.ask(4 * GIB, 64),
            DecisionCase::Grown => self.ask(16 * GIB, 264),
            DecisionCase::Mixed if number % 50 == 49 => self.ask(8 * GIB - number, 20 + number % 44),
            DecisionCase::Mixed => self.ask(16 * GIB + number * 4096, 264 + number),
        }
    }

    fn ask(&mut self, bytes: u64, blocks: u64) {
        let client = self.next;
        self.next += 1;
        self.broker.arrive(client, client as u32);
        self.broker.identify(client, ProgramId::new(client % 7));
        let request = request(Op::Begin, bytes, blocks, client % 16);
        assert_eq!(self.broker.request(client, 0, request, self.now), None);
    }

    fn serve(&mut self) -> (Duration, usize) {
        self.now += Duration::from_micros(10);
        let mut snapshot = self.snapshot.clone();
        let start = Instant::now();
        let answers = self.broker.serve(&mut snapshot, self.now);
        let took = start.elapsed();
        for answer in &answers {
            assert!(matches!(answer.reply, Reply::Granted { .. }));
            self.running.push(answer.client);
        }
        (took, answers.len())
    }

    fn round(&mut self, at: usize) -> Duration {
        let grants = matches!(
            self.case,
            DecisionCase::Grant | DecisionCase::Mixed | DecisionCase::Grown
        );
        if grants {
            self.end();
        }
        let (took, granted) = self.serve();
        if grants {
            assert_eq!(granted, 1);
            self.enqueue(49 + 50 * at as u64);
        }
        took
    }
}

fn main() {
    let only = std::env::args().nth(1).filter(|word| !word.starts_with("--"));
    println!("{WAITING} waiting and {RUNNING} running tasks on {GPUS} GPUs; microseconds, median and p99\n");
    println!(
        "{:<14} {:<9} {:<6} {:>8} {:>8}",
        "policy", "queue", "case", "median", "p99"
    );
    for policy in ["mgb", "alg2", "alg3", "schedgpu:mmu"] {
        if only.as_ref().is_some_and(|word| !policy.contains(word.as_str())) {
            continue;
        }
        for queue in [
            Queue::Backfill,
            Queue::Shortest,
            Queue::Largest,
            Queue::Edf,
            Queue::Laxity,
        ] {
            for case in CASES {
                let policy: Policy = policy.parse().expect("a policy");
                if case == DecisionCase::Hard && !policy.compute_hard() {
                    continue;
                }
                let mut bench = Bench::new(policy, queue, case);
                let mut times: Vec<Duration> = (0..ROUNDS).map(|at| bench.round(at)).collect();
                times.sort();
                let micros = |part: usize| times[ROUNDS * part / 100].as_nanos() as f64 / 1000.0;
                let case = format!("{case:?}").to_lowercase();
                println!(
                    "{:<14} {:<9} {case:<6} {:>8.1} {:>8.1}",
                    policy.to_string(),
                    queue.to_string(),
                    micros(50),
                    micros(99)
                );
            }
        }
    }
}
