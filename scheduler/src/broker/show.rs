//! The broker's part of the node view.

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::view::{TaskState, TaskView, WaitView, WaitsFor};

use super::held::Why;
use super::{Broker, Waiting};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::{Holding, TaskKey};
use crate::quota::shares::even_parts;

/// Most entries of each list in the view. Where there are more, each user has an even part of them.
const MAX_ENTRIES: usize = 1024;

impl Broker {
    /// How many tasks hold room, and how many requests wait: the views may have fewer.
    pub fn view_totals(&self) -> (usize, usize) {
        let tasks = self.ledger.count() + self.ledger.reclaiming().len();
        let waiting = self.queue.len() + self.held.len() + self.jobs.followers().len();
        (tasks, waiting)
    }

    /// The tasks that hold room. `held` says what a client has mapped on a GPU.
    pub fn task_views(&self, held: impl Fn(ClientId, usize) -> u64, now: Duration) -> Vec<TaskView> {
        let mut has_place = even_places(&mut self.ledger.tasks().map(|(key, _)| self.uid(key.client)));
        let shown = self
            .ledger
            .tasks()
            .filter(|(key, _)| has_place(self.uid(key.client)));
        let living = shown.map(|(key, task)| TaskView {
            pid: self.pid(key.client),
            uid: self.uid(key.client),
            task: key.task,
            label: task.label.to_text(),
            gpu: task.gpu as u32,
            state: self.state(key, task),
            reserved_bytes: task.reserved,
            expected_bytes: task.expected_bytes,
            held_bytes: held(key.client, task.gpu),
            peak_bytes: task.peak,
            evicted_bytes: task.evicted,
            warps: task.warps,
            age_ms: now.saturating_sub(task.granted).as_millis() as u64,
            time_ms: task.time(now).as_millis() as u64,
            most_time_ms: self.most_time(key.client).map(|most| most.as_millis() as u64),
        });
        let dead = self.ledger.reclaiming().iter().map(|entry| TaskView {
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
        });
        living.chain(dead.take(MAX_ENTRIES)).collect()
    }

    /// The requests that wait.
    pub fn wait_views(&self, now: Duration) -> Vec<WaitView> {
        let followers = self.jobs.followers().iter().map(|follower| WaitView {
            pid: self.pid(follower.client),
            uid: self.uid(follower.client),
            label: follower.request.label.to_text(),
            gpu: None,
            bytes: follower.request.need.reserved_bytes(),
            expected_bytes: follower.request.need.reserved_bytes(),
            growth: false,
            waited_ms: now.saturating_sub(follower.since).as_millis() as u64,
            held_back: None,
            over_quota: false,
            limited: None,
            gpu_lost: false,
            waits_for: None,
        });
        let held = self.held.iter().map(|held| WaitView {
            pid: self.pid(held.client),
            uid: self.uid(held.client),
            label: held.request.label.to_text(),
            gpu: only(held.fit),
            bytes: held.bytes,
            expected_bytes: held.bytes,
            growth: held.grows(),
            waited_ms: now.saturating_sub(held.since).as_millis() as u64,
            held_back: match held.why {
                Why::Person(why) => Some(why),
                Why::Quota(..) | Why::Lost | Why::Places | Why::OthersGpus => None,
            },
            over_quota: matches!(held.why, Why::Quota(..)),
            limited: match held.why {
                Why::Quota(_, what) => Some(what),
                _ => None,
            },
            gpu_lost: held.why == Why::Lost,
            waits_for: match held.why {
                Why::Places => Some(WaitsFor::UserPlaces),
                Why::OthersGpus => Some(WaitsFor::OthersGpus),
                _ => None,
            },
        });
        let growing = self.queue.growing_on();
        let gathers = self.queue.waiters().iter().map(|waiter| waiter.gathers);
        // Growths come behind those who begin.
        let gathers = gathers.chain(std::iter::repeat(None));
        let all = self
            .queue
            .iter()
            .zip(gathers)
            .map(|(waiting, gathers)| WaitView {
                pid: self.pid(waiting.client),
                uid: self.uid(waiting.client),
                label: waiting.request.label.to_text(),
                gpu: only(waiting.gpus),
                bytes: waiting.bytes,
                expected_bytes: waiting.expected_bytes,
                growth: waiting.grows(),
                waited_ms: now.saturating_sub(waiting.since).as_millis() as u64,
                held_back: None,
                over_quota: false,
                limited: None,
                gpu_lost: false,
                waits_for: self.waits_for(waiting, gathers, growing, now),
            })
            .chain(held)
            .chain(followers);
        let all: Vec<WaitView> = all.collect();
        let mut has_place = even_places(&mut all.iter().map(|view| view.uid));
        all.into_iter().filter(|view| has_place(view.uid)).collect()
    }

    /// What a request waits for, where that is more than its turn and room.
    fn waits_for(
        &self,
        waiting: &Waiting,
        gathers: Option<usize>,
        growing: GpuSet,
        now: Duration,
    ) -> Option<WaitsFor> {
        if let Some(gpu) = gathers {
            return Some(WaitsFor::RoomGathers(gpu as u32));
        }
        if waiting.grows() || self.ledger.blind() {
            return None;
        }
        if self
            .gathers
            .are_given_up(self.user(waiting.client), waiting.gpus, now)
        {
            return Some(WaitsFor::NothingLeaves);
        }
        let gpus = (0..self.ledger.gpus().len()).filter(|gpu| waiting.gpus.contains(gpu));
        let fits = |gpu: &usize| {
            self.ledger.cost(waiting.client, *gpu, waiting.bytes) <= self.ledger.room(*gpu)
                && !self.ledger.has_context(waiting.client, *gpu)
        };
        let fitting: Vec<usize> = gpus.filter(fits).collect();
        let is_full = |gpu: &usize| self.ledger.processes(*gpu) >= self.rules.max_processes;
        let grows = |gpu: &usize| growing.contains(gpu);
        match fitting.as_slice() {
            [] => self.keeps_swap(waiting.gpus).then_some(WaitsFor::SwapQuota),
            all if all.iter().all(is_full) => Some(WaitsFor::Places),
            all if all.iter().all(|gpu| is_full(gpu) || grows(gpu)) => Some(WaitsFor::Growth),
            _ => None,
        }
    }

    fn state(&self, key: TaskKey, task: &Holding) -> TaskState {
        if self.is_suspended(key.client) {
            return if task.reserved > 0 {
                TaskState::Suspending
            } else {
                TaskState::Suspended
            };
        }
        let grows = self.queue.grows_task(key) || self.is_held(key);
        self.ledger
            .state(key, grows, self.is_leaving(key.client, task.gpu))
    }

    fn uid(&self, client: ClientId) -> u32 {
        self.clients.get(&client).map_or(0, |client| client.uid)
    }

    fn pid(&self, client: ClientId) -> u32 {
        self.clients.get(&client).map_or(0, |client| client.pid)
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
