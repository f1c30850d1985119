//! What the broker has seen: what tasks and programs took when they ran before, what jobs have taken, and totals.

mod job_usage;
mod overheads;
mod progress;
mod record;
mod runs;
mod tasks;

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::view::{Counts, JobView};
use mgb_probe::wire::Request;

use super::books::{Books, is_whole_process};
use super::clients::{JobOfUser, UsersJob};
use super::snapshot::Snapshot;
use crate::client::ClientId;
use crate::ledger::TaskKey;

#[cfg(test)]
pub(super) use job_usage::MAX_JOBS;
use job_usage::{JobUsage, JobUsages};
use overheads::Overheads;
pub use record::Remembered;
pub(super) use runs::RunKind;
use runs::Runs;
use tasks::TaskHistory;
pub(super) use tasks::TaskKind;

/// How often it is noted what work tasks have had.
const WORK_INTERVAL: Duration = Duration::from_millis(20);

/// What tasks, programs and jobs have taken, and totals.
#[derive(Debug, Default)]
pub(super) struct History {
    tasks: TaskHistory,
    overheads: Overheads,
    runs: Runs,
    jobs: JobUsages,
    /// When a task ended last, by GPU.
    work_ended: BTreeMap<usize, Duration>,
    /// When it was last noted what work tasks have had.
    saw_work: Duration,
    counts: Counts,
}

/// What is expected of a task that is to begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expectation {
    /// What kind of task it is; `None`: its program is unknown.
    pub(super) kind: Option<TaskKind>,
    /// How long it runs; [`Duration::MAX`]: unknown.
    pub(super) lasts: Duration,
    /// Whether that is known of its kind, and not the mean of all.
    pub(super) is_known: bool,
    /// Bytes that it has beyond those of its begin.
    pub(super) grows: u64,
    /// Bytes that its process takes beside its tasks.
    pub(super) overhead: u64,
}

impl History {
    /// Totals of what was granted, refused, evicted and moved.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// The same totals, to be added to.
    pub(super) fn counts_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// A request was refused.
    pub(super) fn count_refused(&mut self) {
        self.counts.refused += 1;
    }

    /// A request was refused since it wants more than any GPU here has.
    pub(super) fn never_fits(&mut self, books: &Books, client: ClientId, wanted: u64, now: Duration) {
        self.counts.refused += 1;
        if let Some(job) = books.clients.slurm_job_of(client) {
            let usage = self.touch(books, job, now);
            usage.refused_bytes = usage.refused_bytes.max(wanted);
        }
    }

    /// What is expected of a task that a client wants to begin.
    pub(super) fn expectation(&mut self, books: &Books, client: ClientId, request: &Request) -> Expectation {
        let kind = books
            .clients
            .program(client)
            .map(|program| TaskKind::of(program, request));
        let known = kind.as_ref().and_then(|kind| self.tasks.of(kind));
        let lasted = known.and_then(|known| known.lasted);
        Expectation {
            kind,
            lasts: lasted.or(self.tasks.mean()).unwrap_or(Duration::MAX),
            is_known: lasted.is_some(),
            grows: known.map_or(0, |known| known.grown_bytes),
            overhead: self.expected_overhead(books, client, request),
        }
    }

    /// Bytes to keep for the process that asks, if this is for its first task. A plain program has said what
    /// it needs.
    fn expected_overhead(&mut self, books: &Books, client: ClientId, request: &Request) -> u64 {
        if is_whole_process(request) || books.ledger.contexts_of(client).next().is_some() {
            return 0;
        }
        let program = books.clients.program(client);
        program.map_or(0, |program| self.overheads.of(program))
    }

    /// The driver shows that the client's process has so many bytes on a GPU beside its tasks and an ordinary
    /// context.
    pub(super) fn has_overhead(&mut self, books: &Books, client: ClientId, bytes: u64) {
        // Of a whole process this is what it takes beyond its own word, which it may change.
        let mut tasks = books.ledger.tasks_of(client);
        if tasks.any(|(_, holding)| holding.whole_process) {
            return;
        }
        if let Some(program) = books.clients.program(client) {
            self.overheads.record(client, program, bytes);
        }
    }

    /// How long tasks last; `None`: none has ended.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.tasks.mean()
    }

    /// How long a running task is known to take from its grant to its end.
    pub(super) fn lasts(&self, key: TaskKey) -> Option<Duration> {
        self.tasks.lasts(key)
    }

    /// How long tasks of the kind are known to last.
    pub(super) fn lasted(&self, kind: &TaskKind) -> Option<Duration> {
        self.tasks.lasted(kind)
    }

    /// How much longer a running task takes that was granted so long ago, by how much of its work is done.
    pub(super) fn remains(&self, key: TaskKey, age: Duration) -> Option<Duration> {
        self.tasks.remains(key, age)
    }

    /// How long a program took when `mgb run` started it before.
    pub(super) fn run_lasted(&self, kind: &RunKind) -> Option<Duration> {
        self.runs.lasted(kind)
    }

    /// `mgb run`, of this number, becomes the program, whose processes are this job.
    pub(super) fn run_starts(&mut self, job: JobOfUser, kind: RunKind, pid: u32, now: Duration) {
        self.runs.starts(job, kind, pid, now);
    }

    /// No process of this number is left: what `mgb run` has started as it is over.
    pub(super) fn run_ends(&mut self, pid: u32, now: Duration) {
        self.runs.ended(pid, now);
    }

    /// How much longer the program takes that the client is a process of, where it is known.
    pub(super) fn run_remains(&self, books: &Books, client: ClientId, now: Duration) -> Option<Duration> {
        let entry = books.clients.get(client)?;
        self.runs.remains(entry.job_of_user(), now)
    }

    /// Running tasks had work for these parts of the last time.
    pub(super) fn saw_work(&mut self, books: &Books, snapshot: &Snapshot, now: Duration) {
        if now.saturating_sub(self.saw_work) < WORK_INTERVAL {
            return;
        }
        self.saw_work = now;
        for (key, holding) in books.ledger.tasks().filter(|(_, holding)| holding.running) {
            let age = now.saturating_sub(holding.granted);
            self.tasks
                .saw_work(key, age, snapshot.busy_part(key.client, holding.gpu));
        }
    }

    /// When a task on the GPU, or its process, ended last; `None`: none has.
    pub(super) fn work_ended(&self, gpu: usize) -> Option<Duration> {
        self.work_ended.get(&gpu).copied()
    }

    /// A task was granted these bytes and begins, after it has waited so long.
    pub(super) fn began(
        &mut self,
        books: &Books,
        key: TaskKey,
        kind: Option<TaskKind>,
        bytes: u64,
        waited: Duration,
        now: Duration,
    ) {
        self.counts.granted += 1;
        if let Some(kind) = kind {
            self.tasks.began(key, kind, bytes);
        }
        if let Some(usage) = self.charge(books, key.client, waited, now) {
            usage.tasks += 1;
        }
    }

    /// A task that an earlier broker granted runs on. What its job took before is forgotten; it has taken what it has
    /// now.
    pub(super) fn runs_on(&mut self, books: &Books, key: TaskKey, now: Duration) {
        if let Some(usage) = self.charge(books, key.client, Duration::ZERO, now) {
            usage.tasks += 1;
        }
    }

    /// A task was granted more and has so many bytes now, after it has waited so long.
    pub(super) fn grew(&mut self, books: &Books, key: TaskKey, bytes: u64, waited: Duration, now: Duration) {
        self.counts.grown += 1;
        self.tasks.grew(key, bytes);
        self.charge(books, key.client, waited, now);
    }

    /// A task ends, if it is in the ledger still. Returns its kind, if more is known of that now.
    pub(super) fn task_ends(&mut self, books: &Books, key: TaskKey, now: Duration) -> Option<TaskKind> {
        let holding = books.ledger.task(key)?;
        let lasted = now.saturating_sub(holding.granted);
        self.work_ended.insert(holding.gpu, now);
        let ended = self.tasks.ended(key, lasted);
        if holding.running {
            self.had_tasks_for(books, key.client, lasted, now);
        }
        ended
    }

    /// A process ends, and with it those of its tasks that run to its end: lazy ones of programs that free nothing, and
    /// whole processes. Returns their kinds.
    pub(super) fn process_ends(&mut self, books: &Books, client: ClientId, now: Duration) -> Vec<TaskKind> {
        let mut had_tasks_for = Duration::ZERO;
        let mut ended = Vec::new();
        for (key, holding) in books.ledger.tasks_of(client) {
            self.work_ended.insert(holding.gpu, now);
            let lasted = now.saturating_sub(holding.granted);
            ended.extend(self.tasks.ended(key, lasted));
            had_tasks_for += if holding.running { lasted } else { Duration::ZERO };
        }
        self.had_tasks_for(books, client, had_tasks_for, now);
        self.program_ends(books, client);
        ended
    }

    /// The client's process ends, or is another program from now on.
    pub(super) fn program_ends(&mut self, books: &Books, client: ClientId) {
        self.tasks.forget_client(client);
        self.overheads.ended(client, books.clients.program(client));
    }

    /// A task of which nothing can be learned is gone.
    pub(super) fn forget(&mut self, key: TaskKey) {
        self.tasks.forget(key);
    }

    /// Begins with what an earlier broker remembered.
    pub(super) fn recall(&mut self, remembered: &Remembered) {
        self.tasks.recall(remembered.mean, &remembered.tasks);
        self.overheads.recall(&remembered.programs);
        self.runs.recall(&remembered.runs);
    }

    /// Whether something was learned since it was last asked what is remembered.
    pub(super) fn has_learned(&self) -> bool {
        self.tasks.has_learned() || self.overheads.has_learned() || self.runs.has_learned()
    }

    /// What is remembered of programs and their tasks now.
    pub(super) fn remembered(&mut self) -> Remembered {
        Remembered {
            mean: self.tasks.mean(),
            tasks: self.tasks.remembered(),
            programs: self.overheads.remembered(),
            runs: self.runs.remembered(),
        }
    }

    /// What jobs of Slurm have taken until now, for the node view.
    pub(super) fn job_views(&self, books: &Books, now: Duration) -> Vec<JobView> {
        let view = |(job, usage): (UsersJob, &JobUsage)| {
            let members = books.clients.of_slurm_job(job);
            let members = members.filter(|(_, entry)| !entry.observes());
            let members: Vec<ClientId> = members.map(|(client, _)| client).collect();
            let tasks = members.iter().flat_map(|client| books.ledger.tasks_of(*client));
            let running: Duration = tasks
                .filter(|(_, holding)| holding.running)
                .map(|(_, holding)| now.saturating_sub(holding.granted))
                .sum();
            JobView {
                job: job.job,
                uid: job.uid,
                processes: members.len() as u32,
                tasks: usage.tasks,
                peak_bytes: usage.peak_bytes,
                gpu_peak_bytes: usage.gpu_peak_bytes,
                refused_bytes: usage.refused_bytes,
                waited_ms: usage.waited.as_millis() as u64,
                held_ms: (usage.had_tasks_for + running).as_millis() as u64,
            }
        };
        self.jobs.iter().map(view).collect()
    }

    /// A client was granted room, for which it has waited.
    fn charge(
        &mut self,
        books: &Books,
        client: ClientId,
        waited: Duration,
        now: Duration,
    ) -> Option<&mut JobUsage> {
        if let Some(entry) = books.clients.get(client) {
            self.runs.waited(entry.job_of_user(), waited, now);
        }
        let job = books.clients.slurm_job_of(client)?;
        let by_gpu = bytes_of(books, job);
        let usage = self.touch(books, job, now);
        usage.waited += waited;
        usage.peak_bytes = usage.peak_bytes.max(by_gpu.iter().sum());
        usage.gpu_peak_bytes = usage.gpu_peak_bytes.max(by_gpu.into_iter().max().unwrap_or(0));
        Some(usage)
    }

    /// Tasks of the client that are over had room for so long.
    fn had_tasks_for(&mut self, books: &Books, client: ClientId, lasted: Duration, now: Duration) {
        let job = books.clients.slurm_job_of(client);
        if let Some(usage) = job.and_then(|job| self.jobs.get_mut(job)) {
            usage.had_tasks_for += lasted;
            usage.touched = now;
        }
    }

    fn touch(&mut self, books: &Books, job: UsersJob, now: Duration) -> &mut JobUsage {
        let runs = |job| books.clients.of_slurm_job(job).next().is_some();
        self.jobs.touch(job, now, runs)
    }
}

/// By GPU: bytes that a job's processes have reserved, and their contexts.
fn bytes_of(books: &Books, job: UsersJob) -> Vec<u64> {
    let gpus = books.ledger.gpus();
    let mut bytes = vec![0; gpus.len()];
    for (client, _) in books.clients.of_slurm_job(job) {
        for (_, holding) in books.ledger.tasks_of(client) {
            bytes[holding.gpu] += holding.reserved;
        }
        for gpu in books.ledger.contexts_of(client) {
            bytes[gpu] += gpus[gpu].context_bytes;
        }
    }
    bytes
}
