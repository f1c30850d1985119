//! How long tasks took when they ran before, and how far they grew, by program and site: of runs with the
//! same arguments where there were any, else of all.
//!
//! Whoever runs the broker says what a program is ([`Program`]), not the client. What is remembered is
//! bounded.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use mgb_probe::wire::{Request, Text};

use super::program::Program;
use super::remembered::RememberedTask;
use crate::client::ClientId;
use crate::ledger::TaskKey;

/// Most kinds of tasks that are remembered.
const MOST: NonZeroUsize = NonZeroUsize::new(8192).unwrap();

/// What a file says of longer times is no time that a task can have taken, and sums of it overflow.
const LONGEST: Duration = Duration::from_secs(1 << 40);

/// A task of a program, with a need of about this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Which {
    program: Program,
    site: u32,
    label: Text,
    /// The need's bytes, to an eighth.
    size: u64,
}

impl Which {
    /// What a run of it counts for, the most general last.
    fn kinds(self) -> impl Iterator<Item = Which> {
        self.program.kinds().map(move |program| Which { program, ..self })
    }
}

/// What it took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// From the grant to the end; of several runs, the later weigh more. `None`: no run has ended.
    pub(super) lasted: Option<Duration>,
    /// The most bytes that it had reserved at once, less those of its begin, which may differ a little from
    /// run to run. A run that grows further says so at once, one that grows less brings it down half-way.
    pub(super) grown_bytes: u64,
}

/// A task that runs.
#[derive(Clone, Copy, Debug)]
struct Run {
    which: Which,
    began_bytes: u64,
    grown_bytes: u64,
}

/// What tasks took when they ran before.
#[derive(Debug)]
pub(super) struct Past {
    taken: LruCache<Which, Taken>,
    running: HashMap<TaskKey, Run>,
    /// The mean of all that ended, the later weighing more: what is expected of unknown tasks.
    mean: Option<Duration>,
    has_learned: bool,
}

/// To an eighth: the first four bits of a number.
fn rough(bytes: u64) -> u64 {
    let shift = (u64::BITS - bytes.leading_zeros()).saturating_sub(4);
    bytes >> shift << shift
}

impl Default for Past {
    fn default() -> Past {
        Past {
            taken: LruCache::new(MOST),
            running: HashMap::new(),
            mean: None,
            has_learned: false,
        }
    }
}

impl Past {
    /// What a request stands for.
    pub(super) fn which(program: Program, request: &Request) -> Which {
        Which {
            program,
            site: request.site,
            label: request.label,
            size: rough(request.need.reserved_bytes()),
        }
    }

    /// What it took; `None`: unknown.
    pub(super) fn of(&mut self, which: &Which) -> Option<Taken> {
        let any = Which {
            program: which.program.whatever(),
            ..*which
        };
        let any = self.taken.get(&any).copied();
        let same = self.taken.get(which).copied();
        Some(Taken {
            lasted: same.and_then(|same| same.lasted).or(any?.lasted),
            ..same.or(any)?
        })
    }

    /// How long a running task is known to take from its grant to its end.
    pub(super) fn lasts(&self, key: TaskKey) -> Option<Duration> {
        let which = self.running.get(&key)?.which;
        let mut taken = which.kinds().filter_map(|which| self.taken.peek(&which));
        taken.find_map(|taken| taken.lasted)
    }

    /// How long tasks last; `None`: none has ended.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.mean
    }

    /// A task was granted these bytes.
    pub(super) fn began(&mut self, key: TaskKey, which: Which, bytes: u64) {
        let run = Run {
            which,
            began_bytes: bytes,
            grown_bytes: 0,
        };
        self.running.insert(key, run);
    }

    /// It has so many bytes now. Others of its kind need not wait for its end to know.
    pub(super) fn grew(&mut self, key: TaskKey, bytes: u64) {
        let Some(run) = self.running.get_mut(&key) else {
            return;
        };
        run.grown_bytes = run.grown_bytes.max(bytes.saturating_sub(run.began_bytes));
        let run = *run;
        for which in run.which.kinds() {
            let old = self.taken.get(&which);
            let (lasted, before) = old.map_or((None, 0), |old| (old.lasted, old.grown_bytes));
            self.note(which, lasted, run.grown_bytes.max(before));
        }
    }

    /// It is over, after so long.
    pub(super) fn ended(&mut self, key: TaskKey, lasted: Duration) {
        let Some(run) = self.running.remove(&key) else {
            return;
        };
        self.mean = Some(self.mean.map_or(lasted, |mean| (mean * 7 + lasted) / 8));
        for which in run.which.kinds() {
            let old = self.taken.get(&which);
            let before = old.and_then(|old| old.lasted);
            let lasted = before.map_or(lasted, |before| (before + lasted) / 2);
            let before = old.map_or(0, |old| old.grown_bytes);
            let grown_bytes = run.grown_bytes.max(before.midpoint(run.grown_bytes));
            self.note(which, Some(lasted), grown_bytes);
        }
    }

    fn note(&mut self, which: Which, lasted: Option<Duration>, grown_bytes: u64) {
        let taken = Taken { lasted, grown_bytes };
        self.taken.put(which, taken);
        self.has_learned = true;
    }

    /// Begins with what was remembered before, those used last coming last.
    pub(super) fn recall(&mut self, mean: Option<Duration>, tasks: &[RememberedTask]) {
        self.mean = mean.map(|mean| mean.min(LONGEST));
        for task in tasks {
            let which = Which {
                program: task.program,
                site: task.site,
                label: Text::new(&task.label),
                size: task.size,
            };
            let taken = Taken {
                lasted: task.lasted.map(|lasted| lasted.min(LONGEST)),
                grown_bytes: task.grown_bytes,
            };
            self.taken.put(which, taken);
        }
    }

    /// Whether something was learned since [`Past::remembered`] was last asked.
    pub(super) fn has_learned(&self) -> bool {
        self.has_learned
    }

    /// What is remembered, those used last coming last.
    pub(super) fn remembered(&mut self) -> Vec<RememberedTask> {
        self.has_learned = false;
        let one = |(which, taken): (&Which, &Taken)| RememberedTask {
            program: which.program,
            site: which.site,
            label: which.label.to_text(),
            size: which.size,
            lasted: taken.lasted,
            grown_bytes: taken.grown_bytes,
        };
        self.taken.iter().rev().map(one).collect()
    }

    /// A task of which nothing can be learned is gone.
    pub(super) fn forget(&mut self, key: TaskKey) {
        self.running.remove(&key);
    }

    /// Nothing of the client's runs any more.
    pub(super) fn forget_client(&mut self, client: ClientId) {
        self.running.retain(|key, _| key.client != client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgb_probe::Need;
    use mgb_probe::wire::Op;

    fn which(program: u64, bytes: u64) -> Which {
        let request = Request {
            op: Op::Begin,
            flags: 0,
            task: 1,
            thread: 1,
            site: 1,
            gpus: 1,
            bytes,
            need: Need {
                mapped_bytes: bytes,
                ..Need::default()
            },
            first: 0,
            label: Text::default(),
        };
        Past::which(Program::new(program), &request)
    }

    fn key(task: u64) -> TaskKey {
        TaskKey { client: 1, task }
    }

    #[test]
    fn the_later_runs_weigh_more() {
        let mut past = Past::default();
        let which = which(1, 1000);
        assert!(past.of(&which).is_none() && past.mean().is_none());
        for lasted in [8, 2, 1] {
            past.began(key(1), which, 1000);
            past.ended(key(1), Duration::from_secs(lasted));
        }
        assert_eq!(past.of(&which).unwrap().lasted, Some(Duration::from_secs(3)));
    }

    #[test]
    fn who_grows_further_counts_at_once_and_who_grows_less_half() {
        let mut past = Past::default();
        let which = which(1, 1000);
        let grown = |past: &mut Past| past.of(&which).map(|taken| taken.grown_bytes);
        past.began(key(1), which, 1000);
        assert_eq!(grown(&mut past), None);
        past.grew(key(1), 9000);
        past.grew(key(1), 5000);
        assert_eq!(grown(&mut past), Some(8000), "it runs still");
        past.ended(key(1), Duration::ZERO);
        assert_eq!(grown(&mut past), Some(8000));
        let mut seen = Vec::new();
        for peak in [1000, 3000, 1000] {
            past.began(key(2), which, 1000);
            past.grew(key(2), peak);
            past.ended(key(2), Duration::ZERO);
            seen.extend(grown(&mut past));
        }
        assert_eq!(seen, [4000, 3000, 1500]);
        past.began(key(3), which, 1010);
        past.grew(key(3), 3010);
        assert_eq!(grown(&mut past), Some(2000));
        past.ended(key(3), Duration::ZERO);
        past.grew(key(3), 9999);
        assert_eq!(grown(&mut past), Some(2000), "it is over");
    }

    #[test]
    fn runs_with_the_same_arguments_say_more_than_others() {
        let mut past = Past::default();
        let with = |arguments| Which {
            program: Program::new(1).called_with(arguments),
            ..which(1, 1000)
        };
        let lasted = |past: &mut Past, arguments| past.of(&with(arguments)).map(|taken| taken.lasted);
        for (arguments, seconds, grows) in [(5, 8, 100), (6, 2, 0)] {
            past.began(key(1), with(arguments), 1000);
            past.grew(key(1), 1000 + grows);
            past.ended(key(1), Duration::from_secs(seconds));
        }
        let seconds = |seconds| Some(Some(Duration::from_secs(seconds)));
        assert_eq!(lasted(&mut past, 5), seconds(8));
        assert_eq!(lasted(&mut past, 6), seconds(2));
        assert_eq!(lasted(&mut past, 7), seconds(5), "nobody ran with these");
        let grown = |past: &mut Past, arguments| past.of(&with(arguments)).unwrap().grown_bytes;
        assert_eq!(
            [5, 6, 7].map(|arguments| grown(&mut past, arguments)),
            [100, 0, 50]
        );
        // It runs for the first time, and another has ended.
        past.began(key(2), with(8), 1000);
        past.grew(key(2), 1030);
        assert_eq!((lasted(&mut past, 8), grown(&mut past, 8)), (seconds(5), 30));
    }

    #[test]
    fn sizes_that_differ_by_a_quarter_are_others() {
        assert_eq!(which(1, 1000), which(1, 1010));
        assert_ne!(which(1, 1000), which(1, 1250));
        assert_ne!(which(1, 1000), which(2, 1000));
        assert_eq!((rough(0), rough(7), rough(u64::MAX)), (0, 7, 15 << 60));
    }

    #[test]
    fn what_is_remembered_can_be_handed_on() {
        let mut past = Past::default();
        for program in [1, 2] {
            past.began(key(program), which(program, 1000), 1000);
            past.grew(key(program), 1000 + program);
        }
        past.ended(key(1), Duration::from_secs(3));
        assert!(past.has_learned());
        let mut next = Past::default();
        next.recall(past.mean(), &past.remembered());
        assert!(!past.has_learned() && !next.has_learned());
        assert_eq!(next.mean(), Some(Duration::from_secs(3)));
        assert_eq!(next.remembered(), past.remembered());
        let taken = |past: &mut Past, program| {
            let taken = past.of(&which(program, 1000)).unwrap();
            (taken.lasted, taken.grown_bytes)
        };
        assert_eq!(taken(&mut next, 1), (Some(Duration::from_secs(3)), 1));
        assert_eq!(taken(&mut next, 2), (None, 2), "it runs still");
        // A file may say anything.
        let mut tasks = past.remembered();
        for task in &mut tasks {
            (task.lasted, task.grown_bytes) = (Some(Duration::MAX), u64::MAX);
        }
        next.recall(Some(Duration::MAX), &tasks);
        next.began(key(1), which(1, 1000), 1000);
        next.ended(key(1), Duration::from_secs(3));
        assert!(next.mean().is_some_and(|mean| mean <= LONGEST));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_goes_first() {
        let mut past = Past::default();
        let most = MOST.get() as u64;
        for program in 0..=most {
            past.began(key(program), which(program, 1), 1);
            past.ended(key(program), Duration::from_secs(1));
        }
        assert!(past.of(&which(0, 1)).is_none() && past.of(&which(most, 1)).is_some());
    }
}
