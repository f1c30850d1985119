//! Programs with deadlines that come at random times to a node of two GPUs, in virtual time: the real
//! broker, without processes. So many fit on a GPU at a time as the mix says, and those that run there have
//! even parts of it, but for those that others are held for.
//!
//! There are three programs, which come equally often. Times between arrivals are exponential, deadlines two
//! to four times the length after the arrival. Nothing is known at first. With `admits` a program asks before
//! it starts, as `mgb run --or-refuse` does, and does not start where it is expected to be late.

use std::time::Duration;

use mgb_interface::{Policy, Queue};
use mgb_probe::wire::{Op, PROCESS_DEADLINE, Reply, Request, STARTS, Text};
use mgb_probe::{Gpu, Need};
use mgb_scheduler::broker::{Broker, ProgramId, ServingRules, Snapshot};
use mgb_scheduler::help::MAX_PART;
use mgb_scheduler::time_left;

/// How long the programs last, in seconds, and what becomes of them.
#[derive(Clone, Copy, Debug)]
pub struct Programs {
    /// What it is called.
    pub name: &'static str,
    lengths: [u64; 3],
    /// From the middle on the second program takes so many times as long.
    slower: f64,
    /// How many fit on a GPU.
    pub side_by_side: u64,
}

/// The classes of programs that the model plays.
pub const PROGRAMS: [Programs; 5] = [
    Programs {
        name: "5, 10 and 20 s",
        lengths: [5, 10, 20],
        slower: 1.0,
        side_by_side: 1,
    },
    Programs {
        name: "2, 10 and 60 s",
        lengths: [2, 10, 60],
        slower: 1.0,
        side_by_side: 1,
    },
    Programs {
        name: "5, 10 and 20 s, the second 40 s midway",
        lengths: [5, 10, 20],
        slower: 4.0,
        side_by_side: 1,
    },
    Programs {
        name: "5, 10 and 20 s, four on a GPU",
        lengths: [5, 10, 20],
        slower: 1.0,
        side_by_side: 4,
    },
    Programs {
        name: "2, 10 and 60 s, four on a GPU",
        lengths: [2, 10, 60],
        slower: 1.0,
        side_by_side: 4,
    },
];

/// Bytes that all programs may take of a GPU's 100.
const BYTES: u64 = 80;
/// Jobs of one play.
const JOBS: usize = 300;
/// How often it is looked who is to be held for whom, and whether patience is over.
const TICK: Duration = Duration::from_millis(250);

/// A mix of arrivals, as the model plays it.
#[derive(Clone, Copy, Debug)]
pub struct Play {
    /// The order of the queue.
    pub queue: Queue,
    /// Whether programs ask before they start, and do not if they would be late.
    pub admits: bool,
    /// Whether others are held for those that run and would be late.
    pub holds: bool,
    /// The work that arrives in some time, of what two GPUs can do in it.
    pub load: f64,
    /// The programs that come.
    pub programs: Programs,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Jobs that ended before their deadlines, in per cent of all.
    pub met: f64,
    /// Jobs that did not start.
    pub refused: f64,
    /// Work of jobs that were late, in per cent of all that was done.
    pub wasted: f64,
}

/// The SplitMix64 generator of random numbers.
struct Draw(u64);

impl Draw {
    /// A number from 0 up to, not with, 1.
    fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A program that comes.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    program: usize,
    at: Duration,
    length: Duration,
    within: Duration,
}

fn arrivals(play: &Play, seed: u64) -> Vec<Arrival> {
    let mut draw = Draw(seed);
    let Programs { lengths, slower, .. } = play.programs;
    let mean = lengths.iter().sum::<u64>() as f64 / lengths.len() as f64;
    let pace = mean / 2.0 / play.load;
    let mut at = Duration::ZERO;
    let arrival = |number: usize| {
        at += Duration::from_secs_f64(-(1.0 - draw.part()).ln() * pace);
        let program = (draw.part() * lengths.len() as f64) as usize;
        let length = Duration::from_secs(lengths[program]);
        let within = length.mul_f64(2.0 + 2.0 * draw.part());
        let is_slow = program == 1 && number >= JOBS / 2;
        Arrival {
            program,
            at,
            // No two runs take exactly as long.
            length: length.mul_f64((0.9 + 0.2 * draw.part()) * if is_slow { slower } else { 1.0 }),
            within,
        }
    };
    (0..JOBS).map(arrival).collect()
}

/// A job that runs, and how much longer it would take alone.
#[derive(Clone, Copy, Debug)]
struct RunningJob {
    job: usize,
    gpu: u32,
    left: Duration,
}

struct Node {
    broker: Broker,
    jobs: Vec<Arrival>,
    running: Vec<RunningJob>,
    bytes: u64,
    admits: bool,
    holds: bool,
    refused: usize,
    done: usize,
    met: usize,
    work: Duration,
    wasted: Duration,
}

/// The job's number as a client, process and job.
fn client(job: usize) -> u64 {
    job as u64 + 1
}

impl Node {
    fn request(&self, job: usize, op: Op, flags: u32) -> Request {
        let arrival = &self.jobs[job];
        let is_begin = op == Op::Begin;
        Request {
            op,
            flags,
            task: if is_begin { 1 } else { client(job) },
            thread: 1,
            site: 1,
            gpus: u64::MAX,
            bytes: if is_begin {
                self.bytes
            } else {
                arrival.program as u64
            },
            need: Need {
                mapped_bytes: self.bytes,
                deadline_ns: arrival.within.as_nanos() as u64,
                ..Need::default()
            },
            first: 0,
            label: Text::default(),
        }
    }

    fn comes(&mut self, job: usize, now: Duration) {
        let Arrival { program, within, .. } = self.jobs[job];
        let id = client(job);
        self.broker.arrive(id, id as u32);
        self.broker.join(id, id);
        self.broker.identify(id, ProgramId::new(program as u64));
        if self.admits {
            let Some(Reply::Expected { waits_ns, lasts_ns }) =
                self.broker.request(id, 0, self.request(job, Op::Expect, 0), now)
            else {
                panic!("it is told what is expected");
            };
            let ends = Duration::from_nanos(waits_ns.saturating_add(lasts_ns));
            if lasts_ns != u64::MAX && ends > within {
                self.refused += 1;
                self.broker.die(id, now);
                return;
            }
        }
        self.broker
            .request(id, 0, self.request(job, Op::Expect, STARTS), now);
        let begin = self.request(job, Op::Begin, PROCESS_DEADLINE);
        assert_eq!(self.broker.request(id, 0, begin, now), None);
    }

    fn ends(&mut self, job: usize, now: Duration) {
        for room in self.broker.die(client(job), now) {
            self.broker.freed(room.id);
        }
        let Arrival {
            at, within, length, ..
        } = self.jobs[job];
        self.done += 1;
        self.work += length;
        if now <= at + within {
            self.met += 1;
        } else {
            self.wasted += length;
        }
    }

    fn serve(&mut self, now: Duration) {
        for answer in self.broker.serve(&mut Snapshot::default(), now) {
            let Reply::Granted { gpu, .. } = answer.reply else {
                panic!("it is granted: {answer:?}");
            };
            let job = answer.client as usize - 1;
            let left = self.jobs[job].length;
            self.running.push(RunningJob { job, gpu, left });
        }
    }

    /// How fast each of those that run goes, by what it would do alone.
    fn speeds(&self, now: Duration) -> Vec<f64> {
        let of_gpu = |gpu| {
            let programs = self.running.iter().filter(|one| one.gpu == gpu).map(|one| {
                let id = client(one.job);
                (id, self.broker.time_left(id, now))
            });
            let programs: Vec<_> = programs.collect();
            let whom = time_left::whom(&programs).filter(|_| self.holds && programs.len() > 1);
            (programs.len() as f64, whom)
        };
        let gpus = [of_gpu(0), of_gpu(1)];
        let speed = |one: &RunningJob| match gpus[one.gpu as usize] {
            (count, None) => 1.0 / count,
            (count, Some(whom)) => {
                let alone = if whom == client(one.job) { MAX_PART } else { 0.0 };
                alone + (1.0 - MAX_PART) / count
            }
        };
        self.running.iter().map(speed).collect()
    }

    /// Time goes by, until something happens, or until then.
    fn run(&mut self, until: Duration, now: &mut Duration) {
        let speeds = self.speeds(*now);
        let ends = self.running.iter().zip(&speeds);
        let first = ends.map(|(one, speed)| one.left.div_f64(*speed)).min();
        let step = first.unwrap_or(until - *now).min(until - *now);
        *now += step;
        for (one, speed) in self.running.iter_mut().zip(&speeds) {
            one.left = one.left.saturating_sub(step.mul_f64(*speed));
        }
        // What less than a microsecond is missing of is rounding.
        let is_over = |one: &RunningJob| one.left < Duration::from_micros(1);
        let over: Vec<usize> = self
            .running
            .iter()
            .filter(|one| is_over(one))
            .map(|one| one.job)
            .collect();
        self.running.retain(|one| !is_over(one));
        over.into_iter().for_each(|job| self.ends(job, *now));
    }
}

/// Plays it once, with arrivals drawn from a seed.
pub fn play(play: &Play, seed: u64, gpu: impl Fn(u32) -> Gpu) -> Outcome {
    let rules = ServingRules {
        queue: play.queue,
        ..ServingRules::new(Policy::Mgb)
    };
    let jobs = arrivals(play, seed);
    let mut node = Node {
        broker: Broker::new((0..2).map(gpu).collect(), rules),
        running: Vec::new(),
        bytes: BYTES / play.programs.side_by_side,
        jobs,
        admits: play.admits,
        holds: play.holds,
        refused: 0,
        done: 0,
        met: 0,
        work: Duration::ZERO,
        wasted: Duration::ZERO,
    };
    let (mut now, mut next) = (Duration::ZERO, 0);
    while next < JOBS || node.done + node.refused < JOBS {
        let comes = node.jobs.get(next).map(|job| job.at);
        if comes == Some(now) {
            node.comes(next, now);
            next += 1;
        } else {
            let until = comes.unwrap_or(Duration::MAX).min(now + TICK);
            node.run(until, &mut now);
        }
        node.serve(now);
    }
    assert_eq!(node.done + node.refused, JOBS, "everybody was served");
    let percent = |part: f64, all: f64| 100.0 * part / all;
    Outcome {
        met: percent(node.met as f64, JOBS as f64),
        refused: percent(node.refused as f64, JOBS as f64),
        wasted: percent(node.wasted.as_secs_f64(), node.work.as_secs_f64()),
    }
}

/// The mean of so many plays.
pub fn mean(of: &Play, seeds: u64, gpu: impl Fn(u32) -> Gpu) -> Outcome {
    let all: Vec<Outcome> = (1..=seeds).map(|seed| play(of, seed, &gpu)).collect();
    let mean = |part: fn(&Outcome) -> f64| all.iter().map(part).sum::<f64>() / seeds as f64;
    Outcome {
        met: mean(|one| one.met),
        refused: mean(|one| one.refused),
        wasted: mean(|one| one.wasted),
    }
}
