//! How long tasks have had their memory on a GPU, and whose user may have it for less.
//!
//! What counts is the time since the grant, less that in which all of the memory was in the host: evicted for
//! others, or because a person has suspended the process. Memory that cannot leave counts on.
//!
//! A task in a loop may run again and again with one grant, of which only its process knows (a lease). Where
//! times are limited a grant serves new runs for a part of the time only ([`REST_PART`]), and a process is
//! ended so much later that none of its tasks has run for less than it may.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Accounts;
use crate::broker::books::Books;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::{Holding, TaskKey};

/// The part of the time for which a grant may serve new runs: one in so many.
const REST_PART: u32 = 16;
/// How much later than that it may take until it does so no more.
const REST_DELAY: Duration = Duration::from_secs(1);

/// What becomes of tasks with time.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Processes with tasks that have had more than they may.
    pub late: Vec<Late>,
    /// Processes whose grants are to serve no new runs.
    pub without_leases: BTreeSet<ClientId>,
}

/// Tasks of a process that have had their memory for longer than their user may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The process that has the tasks.
    pub client: ClientId,
    /// The GPUs where the tasks are.
    pub gpus: GpuSet,
    /// The task that is the latest, by the process's number for it.
    pub task: u64,
    /// The label of the latest task.
    pub label: String,
    /// How long the latest task has had its memory.
    pub time: Duration,
    /// How long the latest task may have its memory.
    pub most: Duration,
    /// Whether the process is to end now.
    pub ends: bool,
    /// Of one of the tasks this is said for the first time.
    pub is_new: bool,
}

impl Accounts {
    /// Looks at how long tasks have had their memory, and writes down in the ledger whose memory has left the GPUs and
    /// which processes were told.
    pub(in crate::broker) fn check_times(&self, books: &mut Books, now: Duration) -> Times {
        mark_away(books, now);
        let late: Vec<(TaskKey, Late)> = books
            .ledger
            .tasks()
            .filter_map(|(key, holding)| {
                let uid = books.clients.user(key.client);
                Some((key, self.late(uid, key, holding, now)?))
            })
            .collect();
        let is_late = |key: &TaskKey| late.binary_search_by_key(key, |(late, _)| *late).is_ok();
        let told = books.ledger.tasks().filter(|(_, holding)| holding.away.is_told);
        let in_time: Vec<TaskKey> = told.map(|(key, _)| key).filter(|key| !is_late(key)).collect();
        for key in in_time {
            books.ledger.mark_told(key, false);
        }
        let mut processes: Vec<Late> = Vec::new();
        for (key, one) in late {
            books.ledger.mark_told(key, true);
            // They are in the order of their processes.
            match processes.last_mut().filter(|last| last.client == one.client) {
                Some(last) => last.join(one),
                None => processes.push(one),
            }
        }
        let tasks = books.ledger.tasks();
        let without_leases = tasks
            .filter(|(key, holding)| self.is_to_end_leases(books.clients.user(key.client), holding, now));
        Times {
            without_leases: without_leases.map(|(key, _)| key.client).collect(),
            late: processes,
        }
    }

    fn is_to_end_leases(&self, uid: u32, holding: &Holding, now: Duration) -> bool {
        let is_old = |most: Duration| holding.time(now) > most / REST_PART;
        holding.may_rest && self.max_time(uid).is_some_and(is_old)
    }

    fn late(&self, uid: u32, key: TaskKey, holding: &Holding, now: Duration) -> Option<Late> {
        let (time, most) = (holding.time(now), self.max_time(uid)?);
        (time > most).then(|| Late {
            client: key.client,
            gpus: GpuSet::of(holding.gpu),
            task: key.task,
            label: holding.label.to_text(),
            time,
            most,
            ends: self.ends_late(uid) && (!holding.may_rest || time > most + most / REST_PART + REST_DELAY),
            is_new: !holding.away.is_told,
        })
    }

    /// How long a user's tasks may have their memory; `None`: any time.
    pub(in crate::broker) fn max_time(&self, uid: u32) -> Option<Duration> {
        self.by_user.get(&uid)?.most_time
    }

    fn ends_late(&self, uid: u32) -> bool {
        let account = self.by_user.get(&uid);
        account.is_some_and(|account| account.ends_late)
    }
}

/// Writes down whose memory has left the GPUs, and whose is back.
fn mark_away(books: &mut Books, now: Duration) {
    let is_away = |key: TaskKey, holding: &Holding| {
        holding.reserved == 0 && (holding.evicted > 0 || books.is_suspended(key.client))
    };
    let tasks = books.ledger.tasks();
    let all = tasks.map(|(key, holding)| (key, holding.away.since.is_some(), is_away(key, holding)));
    let changed: Vec<(TaskKey, bool)> = all
        .filter(|(_, was, is)| was != is)
        .map(|(key, _, is)| (key, is))
        .collect();
    for (key, is_away) in changed {
        books.ledger.mark_away(key, is_away, now);
    }
}

impl Late {
    /// With another task of the process.
    fn join(&mut self, other: Late) {
        let (gpus, is_new, ends) = (
            self.gpus | other.gpus,
            self.is_new | other.is_new,
            self.ends | other.ends,
        );
        if other.time > self.time {
            *self = other;
        }
        (self.gpus, self.is_new, self.ends) = (gpus, is_new, ends);
    }
}
