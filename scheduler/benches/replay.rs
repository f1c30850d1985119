//! What another policy, order or patience would have made of jobs that `mgb bench` has measured, without a
//! GPU: the real broker in virtual time. `cargo bench -p mgb-scheduler --bench replay --
//! benches/results/*.json`
//!
//! The kinds of jobs are those of the documents, with what they took under MGB: how long before a task's
//! grant, how long the task held its memory, how long from then to the end (medians). Lists of them are drawn
//! from seeds, half small and half large as in the mixes, or a sixth small; jobs start 40 ms apart. Under
//! `shortest` each list is played twice, and the broker of the second time, which counts, knows what that of
//! the first remembered. Nothing slows anything down here: what is shown is what waiting for memory costs,
//! and in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_interface::{Policy, Queue};
use mgb_probe::Need;
use mgb_probe::wire::{Op, Reply, Request, Text};
use mgb_scheduler::broker::{Activity, Broker, ProgramId, Remembered, ServingRules, Snapshot};
use serde_json::Value;

mod h200;

/// What a context was seen to take (driver 580, MPS).
const CONTEXT: u64 = 517 << 20;
const DRAWS: u64 = 40;
/// Between the starts of two jobs.
const PACE: Duration = Duration::from_millis(40);
/// How often mgbd looks again while somebody waits is finer; here that only decides when patience is seen to
/// be over.
const TICK: Duration = Duration::from_millis(500);
/// For how long a grant counts as work under way; from then on a task is taken to be in a host phase.
const ACTIVE: Duration = Duration::from_millis(500);

/// A kind of job.
#[derive(Clone, Copy, Debug)]
struct JobKind {
    program: ProgramId,
    bytes: u64,
    before: Duration,
    held: Duration,
    after: Duration,
}

fn median(mut of: Vec<f64>) -> Duration {
    of.sort_by(f64::total_cmp);
    Duration::from_secs_f64(of[of.len() / 2].max(0.0))
}

/// The kinds of jobs in the documents that held memory once, and the capacity of a GPU.
fn read(files: &[String]) -> (Vec<JobKind>, u64) {
    let mut seen: BTreeMap<String, Vec<[f64; 4]>> = BTreeMap::new();
    let mut capacity = 0;
    for file in files {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let document: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        capacity = document["settings"]["capacity_bytes"]
            .as_u64()
            .expect("a capacity");
        let runs = document["runs"].as_array().expect("runs").iter();
        let jobs = runs.flat_map(|run| run["batch"]["jobs"].as_array().expect("jobs"));
        for job in jobs.filter(|job| job["state"] == "done") {
            // Plain jobs do not say what they have allocated.
            let Some([task]) = job["tasks"].as_array().map(Vec::as_slice) else {
                continue;
            };
            let Some(bytes) = task["peak_bytes"].as_f64() else {
                continue;
            };
            let at = |of: &Value, name: &str| of[name].as_f64().expect("a time");
            let (from, to) = (at(task, "from_s"), at(task, "to_s"));
            let before = from - at(job, "queued_s") - at(job, "waited_s");
            let after = at(job, "turnaround_s") - to;
            let command = job["command"].as_str().expect("a command").to_owned();
            seen.entry(command)
                .or_default()
                .push([bytes, before, to - from, after]);
        }
    }
    let kind = |(number, of): (usize, Vec<[f64; 4]>)| {
        let part = |at: usize| median(of.iter().map(|one| one[at]).collect());
        JobKind {
            program: ProgramId::new(number as u64),
            bytes: of[0][0] as u64,
            before: part(1),
            held: part(2),
            after: part(3),
        }
    };
    (seen.into_values().enumerate().map(kind).collect(), capacity)
}

/// The SplitMix64 generator of random numbers.
struct RandomDraw(u64);

impl RandomDraw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % limit as u64) as usize
    }

    fn list(&mut self, kinds: &[JobKind], jobs: usize, small: usize, capacity: u64) -> Vec<JobKind> {
        let (little, large): (Vec<JobKind>, Vec<JobKind>) =
            kinds.iter().partition(|kind| kind.bytes <= capacity / 4);
        let mut list: Vec<JobKind> = (0..jobs)
            .map(|at| {
                let from = if at < small { &little } else { &large };
                from[self.below(from.len())]
            })
            .collect();
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
        list
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReplayEvent {
    Asks,
    Ends,
    Exits,
}

/// What came of a list.
struct ReplayOutcome {
    makespan: Duration,
    turnaround: Duration,
    longest_wait: Duration,
}

struct Replay<'a> {
    jobs: &'a [JobKind],
    broker: Broker,
    events: BTreeSet<(Duration, ReplayEvent, u64)>,
    /// By client: where it is since when.
    granted: BTreeMap<u64, (usize, Duration)>,
    asked: BTreeMap<u64, Duration>,
}

impl Replay<'_> {
    fn request(&self, client: u64, op: Op) -> Request {
        let bytes = self.jobs[client as usize - 1].bytes;
        Request {
            op,
            flags: 0,
            task: 1,
            thread: 1,
            site: 1,
            gpus: u64::MAX,
            bytes: if op == Op::Begin { bytes } else { 0 },
            need: Need {
                mapped_bytes: bytes,
                grid_blocks: 100_000,
                block_threads: 256,
                ..Need::default()
            },
            first: 0,
            label: Text::default(),
        }
    }

    fn serve(&mut self, now: Duration, longest_wait: &mut Duration) {
        let idle = self
            .granted
            .iter()
            .filter(|(_, (_, since))| *since + ACTIVE <= now);
        let mut snapshot = Snapshot {
            activity: idle
                .map(|(&client, &(gpu, _))| Activity {
                    client,
                    gpu,
                    ..Activity::default()
                })
                .collect(),
            ..Snapshot::default()
        };
        for answer in self.broker.serve(&mut snapshot, now) {
            let Reply::Granted { gpu, .. } = answer.reply else {
                panic!("{answer:?}");
            };
            let client = answer.client;
            *longest_wait = (*longest_wait).max(now - self.asked[&client]);
            self.granted.insert(client, (gpu as usize, now));
            let held = self.jobs[client as usize - 1].held;
            self.events.insert((now + held, ReplayEvent::Ends, client));
        }
    }
}

/// Plays a list.
fn replay(jobs: &[JobKind], gpus: u32, capacity: u64, rules: ServingRules) -> ReplayOutcome {
    let (first, learned) = play(jobs, gpus, capacity, rules, &Remembered::default());
    match rules.queue {
        Queue::Shortest => play(jobs, gpus, capacity, rules, &learned).0,
        _ => first,
    }
}

/// Plays a list once, under a broker that remembers this; what came of it, and what is remembered then.
fn play(
    jobs: &[JobKind],
    gpus: u32,
    capacity: u64,
    rules: ServingRules,
    remembered: &Remembered,
) -> (ReplayOutcome, Remembered) {
    let gpus = (0..gpus)
        .map(|index| h200::gpu(index, capacity, CONTEXT))
        .collect();
    let mut replay = Replay {
        jobs,
        broker: Broker::new(gpus, rules),
        events: BTreeSet::new(),
        granted: BTreeMap::new(),
        asked: BTreeMap::new(),
    };
    replay.broker.recall(remembered);
    for (at, job) in jobs.iter().enumerate() {
        let asks = PACE * at as u32 + job.before;
        replay.events.insert((asks, ReplayEvent::Asks, at as u64 + 1));
        replay.broker.arrive(at as u64 + 1, at as u32 + 1);
        replay.broker.identify(at as u64 + 1, job.program);
    }
    let (mut now, mut longest_wait, mut turnarounds) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    while let Some(&(next, _, _)) = replay.events.first() {
        if replay.broker.waiting() && now + TICK < next {
            now += TICK;
            replay.serve(now, &mut longest_wait);
            continue;
        }
        let Some((then, event, client)) = replay.events.pop_first() else {
            break;
        };
        now = then;
        match event {
            ReplayEvent::Asks => {
                replay.asked.insert(client, now);
                let request = replay.request(client, Op::Begin);
                assert_eq!(replay.broker.request(client, 0, request, now), None);
            }
            ReplayEvent::Ends => {
                let request = replay.request(client, Op::End);
                assert_eq!(replay.broker.request(client, 0, request, now), Some(Reply::Done));
                replay.granted.remove(&client);
                let after = jobs[client as usize - 1].after;
                replay.events.insert((now + after, ReplayEvent::Exits, client));
            }
            ReplayEvent::Exits => {
                for room in replay.broker.die(client, now) {
                    replay.broker.freed(room.id);
                }
                turnarounds += now;
            }
        }
        replay.serve(now, &mut longest_wait);
    }
    assert!(!replay.broker.waiting(), "everybody was served");
    let outcome = ReplayOutcome {
        makespan: now,
        turnaround: turnarounds / jobs.len() as u32,
        longest_wait,
    };
    (outcome, replay.broker.remembered())
}

fn main() {
    let files: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    if files.is_empty() {
        println!("replay: no documents of mgb bench given, nothing to do");
        return;
    }
    let (kinds, capacity) = read(&files);
    println!(
        "{} kinds of jobs, {} MiB a GPU; means of {DRAWS} draws, in seconds\n",
        kinds.len(),
        capacity >> 20
    );
    println!("GPUs  jobs (small)  policy               patience  makespan  turnaround  longest wait");
    let arms: [(Policy, Queue); 5] = [
        (Policy::Mgb, Queue::Largest),
        (Policy::Mgb, Queue::Backfill),
        (Policy::Mgb, Queue::Shortest),
        (Policy::Alg3, Queue::Backfill),
        (Policy::Mgb, Queue::InOrder),
    ];
    for gpus in [2, 4] {
        for (count, small) in [(16, 8), (16, 3), (32, 16), (32, 5)] {
            for (policy, queue) in arms {
                for patience in [10, 20, 30, 60] {
                    if queue == Queue::InOrder && patience != 10 {
                        continue;
                    }
                    let rules = ServingRules {
                        queue,
                        patience: Duration::from_secs(patience),
                        ..ServingRules::new(policy)
                    };
                    let outcomes: Vec<ReplayOutcome> = (1..=DRAWS)
                        .map(|seed| {
                            let list = RandomDraw(seed).list(&kinds, count, small, capacity);
                            replay(&list, gpus, capacity, rules)
                        })
                        .collect();
                    let mean = |of: fn(&ReplayOutcome) -> Duration| {
                        outcomes.iter().map(of).sum::<Duration>().as_secs_f64() / DRAWS as f64
                    };
                    println!(
                        "{gpus:4}  {count:4} ({small:2})     {:20} {patience:7}  {:8.1}  {:10.1}  {:12.1}",
                        format!("{policy} {queue}"),
                        mean(|one| one.makespan),
                        mean(|one| one.turnaround),
                        mean(|one| one.longest_wait)
                    );
                }
            }
        }
    }
}
