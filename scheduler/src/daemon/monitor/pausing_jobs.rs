//! Jobs that hold memory through pauses, in virtual time: the real broker by the real samples of work, with
//! copies and kernels that only take their time.

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_interface::Policy;
use mgb_probe::Need;
use mgb_probe::wire::{Op, Order, Reply, Request, Text};

use super::activity::{Activities, SeenWork};
use crate::broker::{Broker, ServingRules, Snapshot};
use crate::client::ClientId;
use crate::eviction::Speed;
use crate::node::test_gpu;

const GIB: u64 = 1 << 30;
const MS: Duration = Duration::from_millis(1);
const STEP: Duration = Duration::from_millis(10);
/// Between two rounds while somebody waits.
const ROUND_INTERVAL: Duration = Duration::from_millis(50);
/// How long a client's agent takes to see that work is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(60);

/// What jobs do: each round a pause, then work.
#[derive(Clone, Debug)]
struct JobKind {
    bytes: u64,
    /// It asks for that in so many parts, one behind the other.
    parts: u64,
    /// The rounds: how long each pauses, and then works where it has the GPU for itself.
    rounds: Vec<(Duration, Duration)>,
}

impl JobKind {
    fn new(gib: u64, rounds: usize, pause_ms: u32, work_ms: u32) -> JobKind {
        JobKind {
            bytes: gib * GIB,
            parts: 1,
            rounds: vec![(pause_ms * MS, work_ms * MS); rounds],
        }
    }
}

/// What a job is about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    /// It has asked for room.
    Waits,
    /// It has a part of its memory, and asks for the next.
    Grows {
        until: Duration,
    },
    /// Everybody on its GPU waits, so it makes room.
    MakesRoom {
        until: Duration,
    },
    /// Its memory comes back.
    Restores {
        until: Duration,
    },
    Pauses {
        until: Duration,
    },
    Works {
        left: f64,
    },
    Ended,
}

struct SimulatedJob {
    kind: JobKind,
    round: usize,
    doing: Doing,
    gpu: Option<usize>,
    /// What it has asked for and been granted.
    granted: u64,
    /// Its memory is on its GPU.
    is_resident: bool,
    /// It is on its way to the host until then, by the order of this number.
    leaves: Option<(Duration, u32)>,
    busy_until: Duration,
}

/// What came of all jobs.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    seconds: f64,
    evicted: u64,
    gib_evicted: u64,
    /// When the first eviction began, after the first job's first pause had.
    first_after: Option<Duration>,
}

struct Simulation {
    broker: Broker,
    activities: Activities,
    jobs: BTreeMap<ClientId, SimulatedJob>,
    bytes_per_s: u64,
    first_order: Option<Duration>,
    first_idle: Option<Duration>,
    now: Duration,
}

fn ask(op: Op, task: u64, bytes: u64) -> Request {
    Request {
        op,
        flags: 0,
        task,
        thread: 1,
        site: 0,
        gpus: u64::MAX,
        bytes,
        need: Need {
            mapped_bytes: bytes,
            grid_blocks: 1000,
            block_threads: 32,
            ..Need::default()
        },
        first: 0,
        label: Text::default(),
    }
}

impl Simulation {
    /// These jobs on so many GPUs of so many GiB, which copy so many GiB a second.
    fn new(jobs: Vec<JobKind>, [gpus, gib]: [u32; 2], gib_per_s: u64, evicts: bool) -> Simulation {
        let mut rules = ServingRules::new(Policy::Mgb);
        rules.evicts = rules.evicts.filter(|_| evicts);
        rules.copy_speed = Speed::expected(16);
        let gpus = (0..gpus)
            .map(|index| test_gpu(index, u64::from(gib) * GIB, GIB / 2))
            .collect();
        let mut simulation = Simulation {
            broker: Broker::new(gpus, rules),
            activities: Activities::default(),
            jobs: BTreeMap::new(),
            bytes_per_s: gib_per_s * GIB,
            first_order: None,
            first_idle: None,
            now: Duration::from_secs(1000),
        };
        for (client, kind) in (1..).zip(jobs) {
            simulation.broker.arrive(client, client as u32);
            let begin = ask(Op::Begin, 1, kind.bytes / kind.parts);
            assert_eq!(simulation.broker.request(client, 0, begin, simulation.now), None);
            let job = SimulatedJob {
                kind,
                round: 0,
                doing: Doing::Waits,
                gpu: None,
                granted: 0,
                is_resident: false,
                leaves: None,
                busy_until: Duration::ZERO,
            };
            simulation.jobs.insert(client, job);
        }
        simulation
    }

    fn copying(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64)
    }

    fn tell(&mut self, client: ClientId, op: Op, task: u64, bytes: u64) {
        let reply = self.broker.request(client, 1, ask(op, task, bytes), self.now);
        assert_eq!(reply, Some(Reply::Done), "{op:?}");
    }

    /// Runs until all have ended.
    fn run(mut self) -> Outcome {
        let began = self.now;
        let mut round_at = self.now;
        while self.jobs.values().any(|job| job.doing != Doing::Ended) {
            assert!(self.now < began + Duration::from_secs(3000), "it hangs");
            let clients: Vec<ClientId> = self.jobs.keys().copied().collect();
            let has_changed = clients
                .into_iter()
                .fold(false, |changed, client| self.step(client) | changed);
            if has_changed || self.now >= round_at {
                self.serve();
                round_at = self.now + ROUND_INTERVAL;
            }
            self.now += STEP;
        }
        let counts = self.broker.counts();
        Outcome {
            seconds: (self.now - began).as_secs_f64(),
            evicted: counts.evicted,
            gib_evicted: counts.evicted_bytes / GIB,
            first_after: self
                .first_order
                .zip(self.first_idle)
                .map(|(order, idle)| order.saturating_sub(idle)),
        }
    }

    /// A step of a job. True: it has told mgbd something.
    fn step(&mut self, client: ClientId) -> bool {
        let now = self.now;
        let job = &self.jobs[&client];
        let bytes = job.granted;
        if let Some((_, number)) = job.leaves.filter(|(until, _)| now >= *until) {
            self.tell(client, Op::Swapped, 1, bytes);
            self.tell(client, Op::Obeyed, number.into(), bytes);
            let job = self.job(client);
            (job.leaves, job.is_resident) = (None, false);
            return true;
        }
        let sharing = self
            .jobs
            .values()
            .filter(|other| other.gpu == job.gpu && matches!(other.doing, Doing::Works { .. }));
        let sharing = sharing.count().max(1) as f64;
        match job.doing {
            Doing::Works { left } if left <= 0.0 => return self.end_round(client),
            Doing::Works { left } => {
                let job = self.job(client);
                job.doing = Doing::Works {
                    left: left - STEP.as_secs_f64() / sharing,
                };
                job.busy_until = now + LOOK_INTERVAL;
            }
            Doing::MakesRoom { until } if now >= until => {
                self.tell(client, Op::Swapped, 1, bytes);
                let job = self.job(client);
                job.is_resident = false;
                job.doing = Doing::Grows { until: now };
                return true;
            }
            Doing::Grows { until } if now >= until && job.leaves.is_none() => {
                let part = job.kind.bytes / job.kind.parts;
                let bytes = if job.is_resident { part } else { bytes + part };
                let grow = ask(Op::Grow, 1, bytes);
                assert_eq!(self.broker.request(client, 0, grow, now), None);
                self.job(client).doing = Doing::Waits;
                return true;
            }
            Doing::Restores { until } if now >= until => self.work(client),
            Doing::Pauses { until } if now >= until && job.leaves.is_none() => {
                if job.is_resident {
                    self.work(client);
                } else {
                    let grow = ask(Op::Grow, 1, bytes);
                    assert_eq!(self.broker.request(client, 0, grow, now), None);
                    self.job(client).doing = Doing::Waits;
                    return true;
                }
            }
            _ => {}
        }
        false
    }

    fn job(&mut self, client: ClientId) -> &mut SimulatedJob {
        self.jobs.get_mut(&client).expect("it is there")
    }

    fn work(&mut self, client: ClientId) {
        let job = self.job(client);
        let (_, work) = job.kind.rounds[job.round];
        job.doing = Doing::Works {
            left: work.as_secs_f64(),
        };
    }

    fn end_round(&mut self, client: ClientId) -> bool {
        let now = self.now;
        let job = self.job(client);
        job.round += 1;
        if let Some((pause, _)) = job.kind.rounds.get(job.round) {
            job.doing = Doing::Pauses { until: now + *pause };
            return false;
        }
        job.doing = Doing::Ended;
        for lost in self.broker.die(client, now) {
            self.broker.freed(lost.id);
        }
        true
    }

    fn serve(&mut self) {
        let (now, jobs) = (self.now, &self.jobs);
        let see = |client, _| SeenWork {
            is_busy: jobs.get(&client).is_some_and(|job| job.busy_until > now),
            warps: 1000,
        };
        let mut snapshot = Snapshot {
            activity: self.activities.sample_by(&self.broker, see, now),
            listening: jobs.keys().copied().collect(),
            host_bytes: Some(1 << 40),
            ..Snapshot::default()
        };
        for answer in self.broker.serve(&mut snapshot, now) {
            let gpu = match answer.reply {
                Reply::Granted { gpu, .. } => gpu,
                Reply::SwapOut { .. } => {
                    let until = now + self.copying(self.jobs[&answer.client].granted);
                    let job = self.job(answer.client);
                    job.doing = Doing::MakesRoom { until };
                    // Nobody looks whether its work is done until it comes back.
                    job.busy_until = Duration::MAX;
                    continue;
                }
                _ => panic!("{answer:?}"),
            };
            let job = &self.jobs[&answer.client];
            let part = job.kind.bytes / job.kind.parts;
            let is_grown = job.granted + part >= job.kind.bytes;
            let back = now + self.copying(if job.is_resident { 0 } else { job.granted });
            let job = self.job(answer.client);
            job.doing = match job.gpu {
                Some(_) if job.granted >= job.kind.bytes => Doing::Restores { until: back },
                _ => {
                    job.granted += part;
                    job.busy_until = now + 300 * MS;
                    if is_grown {
                        Doing::Pauses {
                            until: now + job.kind.rounds[0].0,
                        }
                    } else {
                        Doing::Grows {
                            until: back + 30 * MS,
                        }
                    }
                }
            };
            (job.gpu, job.is_resident) = (Some(gpu as usize), true);
            self.first_idle.get_or_insert(now + 300 * MS);
        }
        for order in self.broker.take_orders() {
            self.first_order.get_or_insert(now);
            assert!(matches!(order.order, Order::Evict { .. }), "{order:?}");
            let leaves = now + self.copying(self.jobs[&order.client].granted) + LOOK_INTERVAL;
            let job = self.job(order.client);
            let may = matches!(
                job.doing,
                Doing::Pauses { .. } | Doing::Grows { .. } | Doing::Waits
            );
            if may && job.is_resident {
                job.leaves = Some((leaves, order.number));
            } else {
                self.tell(order.client, Op::Obeyed, order.number.into(), 0);
            }
        }
    }
}

fn outcomes(jobs: &[JobKind], gib_per_s: u64) -> (Outcome, Outcome) {
    outcomes_on([2, 24], jobs, gib_per_s)
}

fn outcomes_on(gpus: [u32; 2], jobs: &[JobKind], gib_per_s: u64) -> (Outcome, Outcome) {
    let [with, without] =
        [true, false].map(|evicts| Simulation::new(jobs.to_vec(), gpus, gib_per_s, evicts).run());
    println!(
        "{gib_per_s} GiB/s: {:.1} s, {} evictions, {} GiB, the first after {:?}; --no-swap {:.1} s",
        with.seconds, with.evicted, with.gib_evicted, with.first_after, without.seconds
    );
    (with, without)
}

/// Ten jobs of 9 GiB that work 1.5 s and pause 5 s.
#[test]
fn ten_jobs_that_pause_share_two_gpus() {
    let jobs = vec![JobKind::new(9, 3, 5000, 1500); 10];
    let (with, without) = outcomes(&jobs, 40);
    assert!(with.seconds <= 33.0 && without.seconds >= 60.0);
    assert!(
        with.first_after.is_some_and(|after| after <= 1500 * MS),
        "{with:?}"
    );
    let (slow, _) = outcomes(&jobs, 8);
    assert!(slow.seconds <= 60.0);
}

/// Who is evicted in a pause that is too short costs others more than it gives.
#[test]
fn many_short_pauses_evict_hardly_anybody() {
    for (pause, work) in [(300, 200), (120, 400), (900, 100), (60, 20)] {
        for gib_per_s in [8, 40] {
            let jobs = vec![JobKind::new(9, 60, pause, work); 10];
            let (with, without) = outcomes(&jobs, gib_per_s);
            assert!(with.seconds <= 1.02 * without.seconds, "{pause} {work}");
        }
    }
}

/// Eight jobs that train: each asks for its memory piece by piece, and has short host phases between its
/// steps and a long one before every fourth.
#[test]
fn training_jobs_that_pause_share_a_gpu() {
    let steps = (0..12).map(|step| (if step % 4 == 3 { 4150 * MS } else { 150 * MS }, 20 * MS));
    let kind = JobKind {
        bytes: 9 * GIB,
        parts: 15,
        rounds: steps.collect(),
    };
    let (with, without) = outcomes_on([1, 16], &vec![kind; 8], 30);
    assert!(with.seconds <= without.seconds / 2.0, "{with:?} {without:?}");
}

/// Where the jobs have as much work as the GPUs can do, memory that leaves gains little.
#[test]
fn jobs_that_fill_the_gpus_lose_nothing() {
    for (pause, work) in [(1000, 5000), (3000, 3000), (2000, 8000)] {
        for gib_per_s in [8, 40] {
            let jobs = vec![JobKind::new(9, 6, pause, work); 8];
            let (with, without) = outcomes(&jobs, gib_per_s);
            assert!(with.seconds <= 1.02 * without.seconds, "{pause} {work}");
        }
    }
}

/// Jobs of all sizes, with pauses and work of all lengths.
#[test]
fn mixes_take_no_longer_than_without_evictions() {
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut all = BTreeMap::from([(8, (0.0f64, 0.0f64, 0.0f64)), (40, (0.0, 0.0, 0.0))]);
    for _ in 0..16 {
        let jobs: Vec<JobKind> = (0..24)
            .map(|_| {
                let (pause, work) = (40 << next(8), 40 << next(8));
                let mut length = |mean: u64| (mean / 2 + next(mean)) as u32 * MS;
                let rounds = (0..4).map(|_| (length(pause), length(work))).collect();
                JobKind {
                    bytes: (2 + next(18)) * GIB,
                    parts: 1,
                    rounds,
                }
            })
            .collect();
        for (gib_per_s, (all_with, all_without, worst)) in &mut all {
            let (with, without) = outcomes(&jobs, *gib_per_s);
            *all_with += with.seconds;
            *all_without += without.seconds;
            *worst = worst.max(with.seconds / without.seconds);
        }
    }
    for (gib_per_s, (with, without, worst)) in all {
        let part = with / without;
        println!("all at {gib_per_s} GiB/s: {part:.3} of --no-swap, the worst {worst:.2}");
        // Where a link is slow, pauses of which nothing is known yet cost more than they give: once for each
        // job.
        assert!(part <= if gib_per_s < 10 { 1.1 } else { 1.02 });
    }
}
