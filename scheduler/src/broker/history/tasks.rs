//! How long tasks took when they ran before, and how far they grew, by program and site: of runs with the
//! same arguments where there were any, else of all.
//!
//! Whoever runs the broker says what a program is ([`ProgramId`]), not the client. What is remembered is
//! bounded.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use mgb_probe::wire::{Request, Text};

use super::progress::TaskProgress;
use super::record::RememberedTask;
use crate::broker::program::ProgramId;
use crate::client::ClientId;
use crate::ledger::TaskKey;

/// Most kinds of tasks that are remembered.
const MAX_KINDS: NonZeroUsize = NonZeroUsize::new(8192).unwrap();

/// What a file says of longer times is no time that a task can have taken, and sums of it overflow.
const MAX_LASTED: Duration = Duration::from_secs(1 << 40);

/// A task of a program, with a need of about this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::broker) struct TaskKind {
    program: ProgramId,
    site: u32,
    label: Text,
    /// Bytes of the need, rounded down to an eighth.
    size: u64,
}

impl TaskKind {
    /// The kind of task that a request of the program stands for.
    pub(in crate::broker) fn of(program: ProgramId, request: &Request) -> TaskKind {
        TaskKind {
            program,
            site: request.site,
            label: request.label,
            size: rough(request.need.reserved_bytes()),
        }
    }

    /// Whether a run of the other says something of it.
    pub(in crate::broker) fn is_akin(&self, other: &TaskKind) -> bool {
        let is_same = |one: &TaskKind| (one.program.whatever(), one.site, one.size);
        is_same(self) == is_same(other) && self.label == other.label
    }

    /// What a run of it counts for, the most general last.
    fn kinds(self) -> impl Iterator<Item = TaskKind> {
        self.program
            .kinds()
            .map(move |program| TaskKind { program, ..self })
    }
}

/// What tasks of a kind took.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskRecord {
    /// From the grant to the end; of several runs, the later weigh more. `None`: no run has ended.
    pub(super) lasted: Option<Duration>,
    /// For how much of that its process had work on the GPU; weighed in the same way.
    pub(super) worked: Option<Duration>,
    /// The most bytes that it had reserved at once, less those of its begin, which may differ a little from
    /// run to run. A run that grows further says so at once, one that grows less brings it down half-way.
    pub(super) grown_bytes: u64,
}

/// A running task: its kind, how far it has grown, and how far it has come.
#[derive(Clone, Copy, Debug)]
struct RunningTask {
    kind: TaskKind,
    began_bytes: u64,
    grown_bytes: u64,
    progress: TaskProgress,
}

/// What tasks took when they ran before, by kind.
#[derive(Debug)]
pub(super) struct TaskHistory {
    known: LruCache<TaskKind, TaskRecord>,
    running: HashMap<TaskKey, RunningTask>,
    /// The mean of all that ended, the later weighing more: what is expected of unknown tasks.
    mean: Option<Duration>,
    has_learned: bool,
}

/// To an eighth: the first four bits of a number.
fn rough(bytes: u64) -> u64 {
    let shift = (u64::BITS - bytes.leading_zeros()).saturating_sub(4);
    bytes >> shift << shift
}

impl Default for TaskHistory {
    fn default() -> TaskHistory {
        TaskHistory {
            known: LruCache::new(MAX_KINDS),
            running: HashMap::new(),
            mean: None,
            has_learned: false,
        }
    }
}

impl TaskHistory {
    /// What tasks of the kind took; `None`: unknown.
    pub(super) fn of(&mut self, kind: &TaskKind) -> Option<TaskRecord> {
        let any = TaskKind {
            program: kind.program.whatever(),
            ..*kind
        };
        let any = self.known.get(&any).copied();
        let same = self.known.get(kind).copied();
        let lasting = same.filter(|same| same.lasted.is_some()).or(any);
        let (lasted, worked) = lasting.map_or((None, None), |record| (record.lasted, record.worked));
        Some(TaskRecord {
            lasted,
            worked,
            ..same.or(any)?
        })
    }

    /// How long tasks of the kind last, without a word that it was of use; `None`: unknown.
    pub(super) fn lasted(&self, kind: &TaskKind) -> Option<Duration> {
        let mut known = kind.kinds().filter_map(|kind| self.known.peek(&kind));
        known.find_map(|record| record.lasted)
    }

    /// How much longer a running task of this age takes, by how much of the work of its kind it has had;
    /// `None`: its kind is unknown.
    pub(super) fn remains(&self, key: TaskKey, age: Duration) -> Option<Duration> {
        let run = self.running.get(&key)?;
        let mut known = run.kind.kinds().filter_map(|kind| self.known.peek(&kind));
        let (lasted, worked) = known.find_map(|record| Some((record.lasted?, record.worked)))?;
        let Some(whole) = worked.filter(|worked| !worked.is_zero()) else {
            return Some(lasted.saturating_sub(age));
        };
        Some(run.progress.left(lasted, whole, age))
    }

    /// A running task of this age was seen to have work for this part of the time, of
    /// [`crate::broker::WHOLE`].
    pub(super) fn saw_work(&mut self, key: TaskKey, age: Duration, part: u32) {
        if let Some(run) = self.running.get_mut(&key) {
            run.progress.saw(age, part);
        }
    }

    /// How long a running task is known to take from its grant to its end.
    pub(super) fn lasts(&self, key: TaskKey) -> Option<Duration> {
        self.lasted(&self.running.get(&key)?.kind)
    }

    /// How long tasks last; `None`: none has ended.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.mean
    }

    /// A task was granted these bytes.
    pub(super) fn began(&mut self, key: TaskKey, kind: TaskKind, bytes: u64) {
        let run = RunningTask {
            kind,
            began_bytes: bytes,
            grown_bytes: 0,
            progress: TaskProgress::new(),
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
        for kind in run.kind.kinds() {
            let old = self.known.get(&kind);
            let old = old.copied().unwrap_or(TaskRecord {
                lasted: None,
                worked: None,
                grown_bytes: 0,
            });
            let grown_bytes = run.grown_bytes.max(old.grown_bytes);
            self.note(kind, TaskRecord { grown_bytes, ..old });
        }
    }

    /// The task is over, after so long. Returns its kind, of which more is known now.
    pub(super) fn ended(&mut self, key: TaskKey, lasted: Duration) -> Option<TaskKind> {
        let run = self.running.remove(&key)?;
        let worked = run.progress.worked(lasted);
        self.mean = Some(self.mean.map_or(lasted, |mean| (mean * 7 + lasted) / 8));
        for kind in run.kind.kinds() {
            let old = self.known.get(&kind);
            let half = |before: Option<Duration>, now| before.map_or(now, |before| (before + now) / 2);
            let before = old.map_or(0, |old| old.grown_bytes);
            let record = TaskRecord {
                lasted: Some(half(old.and_then(|old| old.lasted), lasted)),
                worked: Some(half(old.and_then(|old| old.worked), worked)),
                grown_bytes: run.grown_bytes.max(before.midpoint(run.grown_bytes)),
            };
            self.note(kind, record);
        }
        Some(run.kind)
    }

    fn note(&mut self, kind: TaskKind, record: TaskRecord) {
        self.known.put(kind, record);
        self.has_learned = true;
    }

    /// Begins with what was remembered before, those used last coming last.
    pub(super) fn recall(&mut self, mean: Option<Duration>, tasks: &[RememberedTask]) {
        self.mean = mean.map(|mean| mean.min(MAX_LASTED));
        for task in tasks {
            let kind = TaskKind {
                program: task.program,
                site: task.site,
                label: Text::new(&task.label),
                size: task.size,
            };
            let known = TaskRecord {
                lasted: task.lasted.map(|lasted| lasted.min(MAX_LASTED)),
                worked: task.worked.map(|worked| worked.min(MAX_LASTED)),
                grown_bytes: task.grown_bytes,
            };
            self.known.put(kind, known);
        }
    }

    /// Whether something was learned since [`TaskHistory::remembered`] was last asked.
    pub(super) fn has_learned(&self) -> bool {
        self.has_learned
    }

    /// What is remembered, those used last coming last.
    pub(super) fn remembered(&mut self) -> Vec<RememberedTask> {
        self.has_learned = false;
        let one = |(kind, known): (&TaskKind, &TaskRecord)| RememberedTask {
            program: kind.program,
            site: kind.site,
            label: kind.label.to_text(),
            size: kind.size,
            lasted: known.lasted,
            worked: known.worked,
            grown_bytes: known.grown_bytes,
        };
        self.known.iter().rev().map(one).collect()
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
    use crate::broker::snapshot::WHOLE;
    use mgb_probe::Need;
    use mgb_probe::wire::Op;

    fn kind(program: u64, bytes: u64) -> TaskKind {
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
        TaskKind::of(ProgramId::new(program), &request)
    }

    fn key(task: u64) -> TaskKey {
        TaskKey { client: 1, task }
    }

    #[test]
    fn the_later_runs_weigh_more() {
        let mut history = TaskHistory::default();
        let kind = kind(1, 1000);
        assert!(history.of(&kind).is_none() && history.mean().is_none());
        for lasted in [8, 2, 1] {
            history.began(key(1), kind, 1000);
            history.ended(key(1), Duration::from_secs(lasted));
        }
        assert_eq!(history.of(&kind).unwrap().lasted, Some(Duration::from_secs(3)));
    }

    #[test]
    fn what_remains_is_what_it_has_had_no_work_for() {
        let (mut history, at) = (TaskHistory::default(), Duration::from_secs);
        let kind = kind(1, 1000);
        let remains = |history: &TaskHistory, age| history.remains(key(1), at(age));
        history.began(key(1), kind, 1000);
        assert_eq!(remains(&history, 5), None, "no run has ended");
        // It works for a quarter of its eight seconds.
        history.saw_work(key(1), at(2), WHOLE);
        history.saw_work(key(1), at(8), 0);
        history.ended(key(1), at(8));
        history.began(key(1), kind, 1000);
        history.saw_work(key(1), at(1), WHOLE);
        assert_eq!(remains(&history, 1), Some(at(4)), "half of its work is done");
        // It waits for others, and is no nearer to its end for that.
        history.saw_work(key(1), at(100), 0);
        assert_eq!(remains(&history, 200), Some(at(4)));
        // What was not seen counts as it was seen last, and an old look changes nothing.
        history.saw_work(key(1), at(200), WHOLE / 200);
        history.saw_work(key(1), at(150), u32::MAX);
        assert_eq!(remains(&history, 200), Some(at(2)));
        assert_eq!(remains(&history, 5000), Some(at(0)));
    }

    #[test]
    fn who_grows_further_counts_at_once_and_who_grows_less_half() {
        let mut history = TaskHistory::default();
        let kind = kind(1, 1000);
        let grown = |history: &mut TaskHistory| history.of(&kind).map(|record| record.grown_bytes);
        history.began(key(1), kind, 1000);
        assert_eq!(grown(&mut history), None);
        history.grew(key(1), 9000);
        history.grew(key(1), 5000);
        assert_eq!(grown(&mut history), Some(8000), "it runs still");
        history.ended(key(1), Duration::ZERO);
        assert_eq!(grown(&mut history), Some(8000));
        let mut seen = Vec::new();
        for peak in [1000, 3000, 1000] {
            history.began(key(2), kind, 1000);
            history.grew(key(2), peak);
            history.ended(key(2), Duration::ZERO);
            seen.extend(grown(&mut history));
        }
        assert_eq!(seen, [4000, 3000, 1500]);
        history.began(key(3), kind, 1010);
        history.grew(key(3), 3010);
        assert_eq!(grown(&mut history), Some(2000));
        history.ended(key(3), Duration::ZERO);
        history.grew(key(3), 9999);
        assert_eq!(grown(&mut history), Some(2000), "it is over");
    }

    #[test]
    fn runs_with_the_same_arguments_say_more_than_others() {
        let mut history = TaskHistory::default();
        let with = |arguments| TaskKind {
            program: ProgramId::new(1).called_with(arguments),
            ..kind(1, 1000)
        };
        let lasted =
            |history: &mut TaskHistory, arguments| history.of(&with(arguments)).map(|record| record.lasted);
        for (arguments, seconds, grows) in [(5, 8, 100), (6, 2, 0)] {
            history.began(key(1), with(arguments), 1000);
            history.grew(key(1), 1000 + grows);
            history.ended(key(1), Duration::from_secs(seconds));
        }
        let seconds = |seconds| Some(Some(Duration::from_secs(seconds)));
        assert_eq!(lasted(&mut history, 5), seconds(8));
        assert_eq!(lasted(&mut history, 6), seconds(2));
        assert_eq!(lasted(&mut history, 7), seconds(5), "nobody ran with these");
        let grown = |history: &mut TaskHistory, arguments| history.of(&with(arguments)).unwrap().grown_bytes;
        assert_eq!(
            [5, 6, 7].map(|arguments| grown(&mut history, arguments)),
            [100, 0, 50]
        );
        // It runs for the first time, and another has ended.
        history.began(key(2), with(8), 1000);
        history.grew(key(2), 1030);
        assert_eq!(
            (lasted(&mut history, 8), grown(&mut history, 8)),
            (seconds(5), 30)
        );
    }

    #[test]
    fn sizes_that_differ_by_a_quarter_are_others() {
        assert_eq!(kind(1, 1000), kind(1, 1010));
        assert_ne!(kind(1, 1000), kind(1, 1250));
        assert_ne!(kind(1, 1000), kind(2, 1000));
        assert_eq!((rough(0), rough(7), rough(u64::MAX)), (0, 7, 15 << 60));
    }

    #[test]
    fn what_is_remembered_can_be_handed_on() {
        let mut history = TaskHistory::default();
        for program in [1, 2] {
            history.began(key(program), kind(program, 1000), 1000);
            history.grew(key(program), 1000 + program);
        }
        history.ended(key(1), Duration::from_secs(3));
        assert!(history.has_learned());
        let mut next = TaskHistory::default();
        next.recall(history.mean(), &history.remembered());
        assert!(!history.has_learned() && !next.has_learned());
        assert_eq!(next.mean(), Some(Duration::from_secs(3)));
        assert_eq!(next.remembered(), history.remembered());
        let record = |history: &mut TaskHistory, program| {
            let known = history.of(&kind(program, 1000)).unwrap();
            (known.lasted, known.grown_bytes)
        };
        assert_eq!(record(&mut next, 1), (Some(Duration::from_secs(3)), 1));
        assert_eq!(record(&mut next, 2), (None, 2), "it runs still");
        // A file may say anything.
        let mut tasks = history.remembered();
        for task in &mut tasks {
            (task.lasted, task.grown_bytes) = (Some(Duration::MAX), u64::MAX);
            task.worked = Some(Duration::MAX);
        }
        next.recall(Some(Duration::MAX), &tasks);
        next.began(key(1), kind(1, 1000), 1000);
        next.ended(key(1), Duration::from_secs(3));
        assert!(next.mean().is_some_and(|mean| mean <= MAX_LASTED));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_goes_first() {
        let mut history = TaskHistory::default();
        let most = MAX_KINDS.get() as u64;
        for program in 0..=most {
            history.began(key(program), kind(program, 1), 1);
            history.ended(key(program), Duration::from_secs(1));
        }
        assert!(history.of(&kind(0, 1)).is_none() && history.of(&kind(most, 1)).is_some());
    }
}
