//! Whose the time of the GPUs was, from the words in which processes say whether work of theirs may be under
//! way.
//!
//! Each sample counts for the time since the one before. Where n processes have work on a GPU, each is
//! counted 1/n of that time; n counts those who wait for their memory there too, where it is about what was
//! due to each. Samples are taken when `mgbd` is awake for other reasons: at least as often as it writes the
//! node view.

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::wire::GpuTime;

use crate::client::ClientId;
use crate::shortfall::{self, Part};

/// The last seconds, by which a share is told, in [`BUCKETS`] parts.
const WINDOW: Duration = Duration::from_secs(4);
const BUCKETS: usize = 16;
/// Between two samples, however often `mgbd` is awake.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// The most time that a sample counts for: `mgbd` did not run, or nobody was there.
const MAX_GAP: Duration = Duration::from_secs(1);

/// Sums of time that are forgotten when the window has passed.
#[derive(Clone, Debug, Default)]
struct TimeWindow {
    sums: [Duration; BUCKETS],
    /// The number of the newest bucket, since the clock began.
    newest: u64,
}

impl TimeWindow {
    fn bucket(now: Duration) -> u64 {
        (now.as_nanos() / (WINDOW.as_nanos() / BUCKETS as u128)) as u64
    }

    fn add(&mut self, time: Duration, now: Duration) {
        let bucket = TimeWindow::bucket(now);
        let passed = bucket.saturating_sub(self.newest).min(BUCKETS as u64);
        for old in 1..=passed {
            self.sums[((self.newest + old) % BUCKETS as u64) as usize] = Duration::ZERO;
        }
        self.newest = self.newest.max(bucket);
        self.sums[(self.newest % BUCKETS as u64) as usize] += time;
    }

    fn sum(&self) -> Duration {
        self.sums.iter().sum()
    }

    /// The part of the last seconds that the sums are, in thousandths; `now` is since the clock began.
    fn load(&self, now: Duration) -> u32 {
        let mut window = self.clone();
        window.add(Duration::ZERO, now);
        let bucket = WINDOW / BUCKETS as u32;
        let of_newest = now.saturating_sub(bucket.saturating_mul(window.newest as u32));
        let covered = (bucket * (BUCKETS as u32 - 1) + of_newest).min(now);
        let covered = covered.as_nanos().max(1);
        (window.sum().as_nanos() * 1000 / covered).min(1000) as u32
    }
}

/// The time in which a GPU had work.
#[derive(Clone, Debug, Default)]
struct GpuWork {
    /// Its time in the last seconds.
    window: TimeWindow,
    /// Its time since the first sample.
    total: Duration,
}

/// What a process does on a GPU where it has a running task or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doing {
    pub(crate) client: ClientId,
    pub(crate) gpu: usize,
    /// It has work there.
    pub(crate) works: bool,
    /// It would have, but waits for memory.
    pub(crate) waits: bool,
}

/// A process on a GPU.
#[derive(Clone, Debug, Default)]
struct Place {
    /// Since it came there.
    total: GpuTime,
    share: TimeWindow,
    due: TimeWindow,
    /// Since when its share is too little.
    short: Option<Duration>,
}

/// What is shown of a process on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShownTime {
    pub(crate) total: GpuTime,
    /// Its part of the GPU's time in the last seconds, in thousandths; `None`: there was no work.
    pub(crate) share: Option<u32>,
    /// What was due to it, if it is short of that for seconds.
    pub(crate) due: Option<u32>,
}

/// Whose the time of the GPUs was.
#[derive(Debug, Default)]
pub(crate) struct GpuTimes {
    places: BTreeMap<(ClientId, usize), Place>,
    /// The time in which each GPU had work, by index.
    gpus: Vec<GpuWork>,
    sampled: Duration,
}

impl GpuTimes {
    pub(crate) fn new(gpus: usize) -> GpuTimes {
        GpuTimes {
            gpus: vec![GpuWork::default(); gpus],
            ..GpuTimes::default()
        }
    }

    /// Whether it is time for a sample: many at once would say no more.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.sampled) >= MIN_INTERVAL
    }

    /// Takes a sample of all processes, in the order of their places.
    pub(crate) fn sample(&mut self, all: &[Doing], now: Duration) {
        let passed = now.saturating_sub(self.sampled).min(MAX_GAP);
        self.sampled = now;
        let is_there = |place: &(ClientId, usize)| {
            all.binary_search_by_key(place, |doing| (doing.client, doing.gpu))
                .is_ok()
        };
        self.places.retain(|place, _| is_there(place));
        // Those that were there for all of that time, by GPU: who works, and who works or waits.
        let mut counts = vec![(0u32, 0u32); self.gpus.len()];
        for doing in all {
            if self.places.contains_key(&(doing.client, doing.gpu)) {
                counts[doing.gpu].0 += u32::from(doing.works);
                counts[doing.gpu].1 += u32::from(doing.works || doing.waits);
            }
        }
        for (gpu, (working, _)) in self.gpus.iter_mut().zip(&counts) {
            let busy = if *working > 0 { passed } else { Duration::ZERO };
            gpu.window.add(busy, now);
            gpu.total += busy;
        }
        for doing in all {
            let (working, wanting) = counts[doing.gpu];
            let Some(place) = self.places.get_mut(&(doing.client, doing.gpu)) else {
                self.places.insert((doing.client, doing.gpu), Place::default());
                continue;
            };
            place.take(doing, passed, (working, wanting), now);
            let (share, due) = place.parts(&self.gpus[doing.gpu].window);
            if shortfall::is_too_little(share, due) {
                place.short.get_or_insert(now);
            } else {
                place.short = None;
            }
        }
    }

    /// What is shown, by place in order.
    pub(crate) fn shown(&self, now: Duration) -> BTreeMap<(ClientId, usize), ShownTime> {
        let parts: Vec<Part> = self
            .places
            .iter()
            .map(|(&(client, gpu), place)| {
                let (share, due) = place.parts(&self.gpus[gpu].window);
                Part {
                    client,
                    gpu,
                    share,
                    due,
                    short_for: place.short.map(|since| now.saturating_sub(since)),
                }
            })
            .collect();
        let short = shortfall::shortfalls(&parts);
        let shown = self.places.iter().map(|(&place, times)| {
            let (client, gpu) = place;
            let is_idle = self.gpus[gpu].window.sum().is_zero();
            let due = short.iter().find(|short| (short.client, short.gpu) == place);
            let shown = ShownTime {
                total: times.total,
                share: (!is_idle).then(|| times.parts(&self.gpus[gpu].window).0),
                due: due.map(|short| short.due),
            };
            ((client, gpu), shown)
        });
        shown.collect()
    }

    /// How long a GPU had work since the first sample, and in which part of the last seconds, in thousandths.
    pub(crate) fn of_gpu(&self, gpu: usize, now: Duration) -> (Duration, u32) {
        let work = self.gpus.get(gpu);
        work.map_or((Duration::ZERO, 0), |work| (work.total, work.window.load(now)))
    }

    /// Whose the time was since the process came to the GPU.
    pub(crate) fn total(&self, client: ClientId, gpu: usize) -> GpuTime {
        self.places
            .get(&(client, gpu))
            .map_or_else(GpuTime::default, |place| place.total)
    }
}

impl Place {
    fn take(&mut self, doing: &Doing, passed: Duration, (working, wanting): (u32, u32), now: Duration) {
        let part = |takes: bool, of: u32| {
            if takes && of > 0 {
                passed / of
            } else {
                Duration::ZERO
            }
        };
        let own = part(doing.works, working);
        // While nobody has work there is nothing to share.
        let due = part((doing.works || doing.waits) && working > 0, wanting);
        self.share.add(own, now);
        self.due.add(due, now);
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        self.total.part_ns += nanoseconds(own);
        self.total.busy_ns += nanoseconds(part(doing.works, 1));
        self.total.gpu_busy_ns += nanoseconds(part(working > 0, 1));
    }

    /// Its share of the GPU's time, and what was due to it, in thousandths.
    fn parts(&self, gpu: &TimeWindow) -> (u32, u32) {
        let all = gpu.sum().as_nanos().max(1);
        let part = |own: &TimeWindow| ((own.sum().as_nanos() * 1000 + all / 2) / all).min(1000) as u32;
        (part(&self.share), part(&self.due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn doing(client: ClientId, works: bool, waits: bool) -> Doing {
        Doing {
            client,
            gpu: 0,
            works,
            waits,
        }
    }

    /// Samples every 50 ms from one moment to another.
    fn run(times: &mut GpuTimes, from: u64, to: u64, all: &[Doing]) {
        for ms in (from..=to).step_by(50) {
            times.sample(all, at(ms));
        }
    }

    fn shares(times: &GpuTimes, ms: u64) -> [Option<u32>; 2] {
        let shown = times.shown(at(ms));
        [1, 2].map(|client| shown.get(&(client, 0)).and_then(|shown| shown.share))
    }

    #[test]
    fn who_works_alone_has_all_and_two_have_half() {
        let mut times = GpuTimes::new(1);
        let (alone, both) = (
            [doing(1, true, false), doing(2, false, false)],
            [doing(1, true, false), doing(2, true, false)],
        );
        run(&mut times, 0, 2000, &alone);
        assert_eq!(shares(&times, 2000), [Some(1000), Some(0)]);
        run(&mut times, 2050, 4000, &both);
        // Of four seconds: two alone, two by halves. The window is a bucket shorter when one has just begun.
        let parts = shares(&times, 4000).map(|share| share.unwrap_or_default());
        assert!(
            (730..=750).contains(&parts[0]) && parts[0] + parts[1] == 1000,
            "{parts:?}"
        );
        let total = times.total(1, 0);
        assert_eq!(
            [total.busy_ns, total.part_ns, total.gpu_busy_ns],
            [4_000_000_000, 3_000_000_000, 4_000_000_000]
        );
        assert_eq!(times.of_gpu(0, at(4000)), (at(4000), 1000));
        // What lies further back is forgotten, and a GPU without work has no share.
        run(&mut times, 4050, 8500, &both);
        assert_eq!(shares(&times, 8500), [Some(500), Some(500)]);
        run(
            &mut times,
            8550,
            13_000,
            &[doing(1, false, false), doing(2, false, false)],
        );
        assert_eq!(shares(&times, 13_000), [None, None]);
    }

    #[test]
    fn a_share_is_of_the_time_with_work() {
        let mut times = GpuTimes::new(1);
        // One works for a quarter of the time, and nobody else does.
        for second in 0..4 {
            run(
                &mut times,
                second * 1000,
                second * 1000 + 250,
                &[doing(1, true, false)],
            );
            run(
                &mut times,
                second * 1000 + 300,
                second * 1000 + 950,
                &[doing(1, false, false)],
            );
        }
        assert_eq!(shares(&times, 4000)[0], Some(1000));
    }

    #[test]
    fn who_waits_for_its_memory_is_short_after_seconds() {
        let mut times = GpuTimes::new(1);
        let all = [doing(1, true, false), doing(2, false, true)];
        let due = |times: &GpuTimes, ms| times.shown(at(ms))[&(2, 0)].due;
        run(&mut times, 0, 1900, &all);
        assert_eq!(due(&times, 1900), None);
        run(&mut times, 1950, 2500, &all);
        assert_eq!(due(&times, 2500), Some(500));
        // It has what it waited for.
        run(
            &mut times,
            2550,
            6000,
            &[doing(1, true, false), doing(2, true, false)],
        );
        assert_eq!(due(&times, 6000), None);
    }

    #[test]
    fn who_pauses_by_itself_is_never_short() {
        let mut times = GpuTimes::new(1);
        for round in 0..40 {
            let works = round % 8 == 0;
            let all = [
                doing(1, works, false),
                doing(2, true, false),
                doing(3, true, false),
            ];
            run(&mut times, round * 200, round * 200 + 150, &all);
            assert!(
                times
                    .shown(at(round * 200))
                    .values()
                    .all(|shown| shown.due.is_none())
            );
        }
    }

    #[test]
    fn who_goes_is_forgotten_and_who_comes_begins() {
        let mut times = GpuTimes::new(1);
        run(&mut times, 0, 1000, &[doing(1, true, false)]);
        times.sample(&[], at(1050));
        assert_eq!(times.total(1, 0), GpuTime::default());
        run(&mut times, 60_000, 61_000, &[doing(1, true, false)]);
        assert_eq!(
            times.total(1, 0).busy_ns,
            1_000_000_000,
            "its first sample begins it"
        );
        // A long gap is no time of work.
        times.sample(&[doing(1, true, false)], at(600_000));
        assert_eq!(times.total(1, 0).busy_ns, 2_000_000_000);
    }
}
