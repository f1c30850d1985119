//! The broker's part of the node view.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::Class;
use mgb_probe::view::{IdleView, JobView, OwnerView, TaskState, TaskView, WaitView, WaitsFor};

use super::Broker;
use crate::broker::accounts::idle_views;
use crate::broker::clients::{ClientState, JobOfUser};
use crate::broker::jobs::Follower;
use crate::broker::queue::{SuspendReason, SuspendedRequest, Waiting};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::{Holding, Reclaiming, TaskKey};
use crate::quota::shares::even_parts;

/// Most entries of each list in the view. Where there are more, each user has an even part of them.
const MAX_ENTRIES: usize = 1024;

impl Broker {
    /// How many tasks hold room, and how many requests wait: the views may have fewer.
    pub fn view_totals(&self) -> (usize, usize) {
        let ledger = &self.books.ledger;
        let tasks = ledger.count() + ledger.reclaiming().len();
        let queued = self.queue.pending.len() + self.queue.suspended.len();
        (tasks, queued + self.jobs.followers().len())
    }

    /// What users and groups have and may have.
    pub fn owner_views(&self) -> Vec<OwnerView> {
        self.accounts.views(&self.books, &self.queue)
    }

    /// What jobs of Slurm have taken until now.
    pub fn job_views(&self, now: Duration) -> Vec<JobView> {
        self.history.job_views(&self.books, now)
    }

    /// Who has places on a GPU and runs nothing there, where half of all are taken: the most first.
    pub fn idle_views(&self, gpu: usize) -> Vec<IdleView> {
        idle_views(&self.books, gpu)
    }

    /// The first GPU of a job and the one whose place it has, by their numbers; `None` for the number 0, of
    /// none.
    pub fn exchanged(&self, job: JobOfUser) -> Option<[u32; 2]> {
        self.jobs.exchanged(job)
    }

    /// What the numbers of a job stand for; nothing before it has a GPU, nor for the number 0, of none.
    pub fn numbering(&self, job: JobOfUser) -> Vec<u32> {
        self.jobs.numbering(job, self.books.ledger.gpus().len())
    }

    /// Who waits for more memory for a task that it has on a GPU, or for what has left it.
    pub fn growing_at(&self) -> BTreeSet<(ClientId, usize)> {
        let grows = self.queue.pending.grows().iter();
        let place = |waiting: &Waiting| {
            let task = self.books.ledger.task(waiting.key())?;
            Some((waiting.client, task.gpu))
        };
        grows.filter_map(|waiting| place(waiting)).collect()
    }

    /// The tasks that hold room. `seen` adds what was seen of a client on a GPU.
    pub fn task_views(
        &self,
        seen: impl Fn(ClientId, usize, TaskView) -> TaskView,
        now: Duration,
    ) -> Vec<TaskView> {
        let ledger = &self.books.ledger;
        let user = |client| self.books.clients.user(client);
        let mut has_place = even_places(&mut ledger.tasks().map(|(key, _)| user(key.client)));
        let shown = ledger.tasks().filter(|(key, _)| has_place(user(key.client)));
        let living = shown.map(|(key, task)| seen(key.client, task.gpu, self.task_view(key, task, now)));
        let dead = ledger.reclaiming().iter().take(MAX_ENTRIES);
        living
            .chain(dead.map(|entry| reclaiming_view(entry, now)))
            .collect()
    }

    fn task_view(&self, key: TaskKey, task: &Holding, now: Duration) -> TaskView {
        let uid = self.books.clients.user(key.client);
        let most_time = self.accounts.max_time(uid);
        TaskView {
            pid: self.books.clients.pid(key.client),
            uid,
            task: key.task,
            label: task.label.to_text(),
            gpu: task.gpu as u32,
            state: self.state(key, task),
            reserved_bytes: task.reserved,
            expected_bytes: task.expected_bytes,
            held_bytes: 0,
            peak_bytes: task.peak,
            evicted_bytes: task.evicted,
            warps: task.warps,
            age_ms: now.saturating_sub(task.granted).as_millis() as u64,
            time_ms: task.time(now).as_millis() as u64,
            most_time_ms: most_time.map(|most| most.as_millis() as u64),
            class: Class::Batch,
            lacks: Vec::new(),
            pace: None,
            latency: None,
            multiprocessors_percent: None,
            paused_ms: 0,
            speed: None,
            deadline_ms: task.deadline.map(|deadline| until(deadline, now)),
            ends_ms: self.end_of(key, task, now).map(|left| left.as_millis() as u64),
            busy_ms: 0,
            share: None,
            share_due: None,
            job: self.books.clients.get(key.client).and_then(ClientState::job_text),
        }
    }

    /// The requests that wait.
    pub fn wait_views(&self, now: Duration) -> Vec<WaitView> {
        let reasons = self.wait_reasons();
        let gathers = self.queue.pending.waiters().iter().map(|waiter| waiter.gathers);
        // Growths come behind those who begin.
        let gathers = gathers.chain(std::iter::repeat(None));
        let ends = self.ends_of_waiters(now).into_iter();
        let ends = ends.chain(std::iter::repeat(None));
        let pending = self.queue.pending.iter().zip(gathers).zip(ends);
        let pending = pending.map(|((waiting, gathers), ends)| WaitView {
            waits_for: reasons.of(waiting, gathers, now),
            ends_ms: ends
                .filter(|_| waiting.deadline().is_some())
                .map(|left| left.as_millis() as u64),
            ..self.pending_view(waiting, now)
        });
        let suspended = self.queue.suspended.iter();
        let suspended = suspended.map(|request| self.suspended_view(request, now));
        let followers = self.jobs.followers().iter();
        let followers = followers.map(|follower| self.follower_view(follower, now));
        let all: Vec<WaitView> = pending.chain(suspended).chain(followers).collect();
        let mut has_place = even_places(&mut all.iter().map(|view| view.uid));
        all.into_iter().filter(|view| has_place(view.uid)).collect()
    }

    fn pending_view(&self, waiting: &Waiting, now: Duration) -> WaitView {
        WaitView {
            pid: self.books.clients.pid(waiting.client),
            uid: self.books.clients.user(waiting.client),
            label: waiting.request.label.to_text(),
            gpu: only(waiting.gpus),
            bytes: waiting.bytes,
            expected_bytes: waiting.expected_bytes,
            growth: waiting.grows(),
            waited_ms: waiting.waits(now).as_millis() as u64,
            class: Class::Batch,
            has_no_right: false,
            held_back: None,
            over_quota: false,
            limited: None,
            gpu_lost: false,
            waits_for: None,
            deadline_ms: waiting.deadline().map(|deadline| until(deadline, now)),
            ends_ms: None,
        }
    }

    fn suspended_view(&self, suspended: &SuspendedRequest, now: Duration) -> WaitView {
        WaitView {
            pid: self.books.clients.pid(suspended.client),
            uid: self.books.clients.user(suspended.client),
            label: suspended.request.label.to_text(),
            gpu: only(suspended.fit),
            bytes: suspended.bytes,
            expected_bytes: suspended.bytes,
            growth: suspended.grows(),
            waited_ms: now.saturating_sub(suspended.since).as_millis() as u64,
            class: Class::Batch,
            has_no_right: false,
            held_back: match suspended.reason {
                SuspendReason::Person(why) => Some(why),
                _ => None,
            },
            over_quota: matches!(suspended.reason, SuspendReason::Quota(..)),
            limited: match suspended.reason {
                SuspendReason::Quota(_, what) => Some(what),
                _ => None,
            },
            gpu_lost: suspended.reason == SuspendReason::Lost,
            waits_for: match suspended.reason {
                SuspendReason::Places => Some(WaitsFor::UserPlaces),
                SuspendReason::OthersGpus => Some(WaitsFor::OthersGpus),
                _ => None,
            },
            deadline_ms: suspended.deadline().map(|deadline| until(deadline, now)),
            ends_ms: None,
        }
    }

    fn follower_view(&self, follower: &Follower, now: Duration) -> WaitView {
        let bytes = follower.request.need.reserved_bytes();
        WaitView {
            pid: self.books.clients.pid(follower.client),
            uid: self.books.clients.user(follower.client),
            label: follower.request.label.to_text(),
            gpu: None,
            bytes,
            expected_bytes: bytes,
            growth: false,
            waited_ms: now.saturating_sub(follower.since).as_millis() as u64,
            class: Class::Batch,
            has_no_right: false,
            held_back: None,
            over_quota: false,
            limited: None,
            gpu_lost: false,
            waits_for: None,
            deadline_ms: None,
            ends_ms: None,
        }
    }

    fn state(&self, key: TaskKey, task: &Holding) -> TaskState {
        if self.books.is_suspended(key.client) {
            return if task.reserved > 0 {
                TaskState::Suspending
            } else {
                TaskState::Suspended
            };
        }
        let grows = self.queue.pending.grows_task(key) || self.queue.suspended.has(key);
        let is_leaving = self.orders.is_leaving(key.client, task.gpu);
        self.books.ledger.state(key, grows, is_leaving)
    }
}

fn reclaiming_view(entry: &Reclaiming, now: Duration) -> TaskView {
    TaskView {
        pid: 0,
        uid: 0,
        task: 0,
        label: "reclaiming".to_owned(),
        gpu: entry.gpu as u32,
        state: TaskState::Reclaiming,
        reserved_bytes: entry.bytes,
        expected_bytes: 0,
        held_bytes: 0,
        peak_bytes: entry.bytes,
        evicted_bytes: 0,
        warps: 0,
        age_ms: now.saturating_sub(entry.since).as_millis() as u64,
        time_ms: 0,
        most_time_ms: None,
        class: Class::Batch,
        lacks: Vec::new(),
        pace: None,
        latency: None,
        multiprocessors_percent: None,
        paused_ms: 0,
        speed: None,
        deadline_ms: None,
        ends_ms: None,
        busy_ms: 0,
        share: None,
        share_due: None,
        job: None,
    }
}

/// Whether the next entry of a user has a place among [`MAX_ENTRIES`], given the users of all entries.
fn even_places(users: &mut dyn Iterator<Item = u32>) -> impl FnMut(u32) -> bool + use<> {
    let mut wanted: BTreeMap<u32, usize> = BTreeMap::new();
    users.for_each(|uid| *wanted.entry(uid).or_default() += 1);
    let mut left = even_parts(wanted, MAX_ENTRIES);
    move |uid| {
        let left = left.get_mut(&uid).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    }
}

/// The only GPU of a set; `None` if it has several.
fn only(gpus: GpuSet) -> Option<u32> {
    gpus.only().map(|gpu| gpu as u32)
}

/// Milliseconds until then, negative once it has passed.
fn until(deadline: Duration, now: Duration) -> i64 {
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    match deadline.checked_sub(now) {
        Some(left) => millis(left),
        None => -millis(now - deadline),
    }
}
