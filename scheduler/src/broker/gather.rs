//! Where room gathers for tasks that have waited for long and fit nowhere: on one GPU, which is kept from
//! newcomers meanwhile ([`crate::policies`]), and for a bounded time.
//!
//! - It is the GPU where, by what tasks there took before, the room is there first.
//! - A user has one such GPU at a time, and all users together a quarter of the node's, at least one. The
//!   next request's turn comes when the one before it is served or has given up.
//! - Where nothing leaves for [`GATHER_TIMEOUT_FACTOR`] times the patience (or twice the time that what is
//!   there is known to need, if that is more), it is given up: others may begin there again, and room gathers
//!   on another GPU. The user has nothing gather there for as long again, twice as long with each time in a
//!   row.
//! - A static task that has waited for [`NEED_TIMEOUT_FACTOR`] times the patience when it gives a GPU up is
//!   refused: its need may be too high, and its program asks for what it really allocates.
//!
//! A task that waits to grow keeps newcomers off its GPU in the same way
//! ([`super::gathered::Gathers::is_open`]): where nothing leaves for [`HOLDER_PATIENCE`] times the patience,
//! they may begin there for as long again, and so on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::wire::Reply;

use super::gathered::{Gather, GivenUp, Growths, MAX_PAUSE_TIMEOUT, Progress};
use super::{Answer, Broker};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::{Colocation, Holding};
use crate::policies::{HOLDER_PATIENCE, Queue, Waiter};

/// After how many times the patience a GPU where nothing leaves is given up. More than [`HOLDER_PATIENCE`]:
/// until then tasks of processes that are there already pass.
pub(super) const GATHER_TIMEOUT_FACTOR: u32 = 8;
/// After how many times the patience a static task's need counts as too high, where nothing leaves.
const NEED_TIMEOUT_FACTOR: u32 = 32;
/// The longest time that a GPU is kept although nothing leaves, whatever its tasks are known to take.
const MAX_GATHER_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Of so many GPUs one may be kept.
const GPUS_PER_GATHER: usize = 4;
/// Less than this part of what is asked for does not count as leaving: else bytes could keep a GPU closed.
const LEAST_PART: u64 = 32;

impl Broker {
    /// Decides where room gathers. Called in whole rounds, before tasks begin.
    pub(super) fn gather(&mut self, covered: &[Option<u64>], stalled: GpuSet, now: Duration) {
        if self.ledger.blind() || self.rules.queue == Queue::InOrder {
            return;
        }
        self.watch_growths(covered, stalled, now);
        self.expect_nothing_beside_growth(now);
        self.end_gathers(covered, now);
        self.begin_gathers(covered, now);
    }

    fn gather_timeout(&self) -> Duration {
        self.rules.patience.saturating_mul(GATHER_TIMEOUT_FACTOR)
    }

    /// Ends what was served or does not wait any more, and gives up where nothing leaves.
    fn end_gathers(&mut self, covered: &[Option<u64>], now: Duration) {
        let old = |given_up: &GivenUp| now > given_up.not_before + MAX_PAUSE_TIMEOUT;
        self.gathers.given_up.retain(|_, given_up| !old(given_up));
        for (gpu, gather) in self.gathers.on.clone() {
            let waits = self.queue.position(gather.key).filter(|&at| {
                let waiter = &self.queue.waiters()[at];
                waiter.gathers == Some(gpu) && waiter.gpus.contains(gpu)
            });
            let Some(at) = waits else {
                self.gathers.on.remove(&gpu);
                if let Some(at) = self.queue.position(gather.key) {
                    self.queue.gather_on(at, None);
                }
                if self.ledger.task(gather.key).is_some() {
                    self.gathers.given_up.remove(&(gather.uid, gpu));
                }
                continue;
            };
            let waiter = self.queue.waiters()[at];
            let there = self.there(&waiter, gpu, covered);
            let least = if waiter.alone {
                1
            } else {
                (waiter.bytes / LEAST_PART).max(1)
            };
            if there >= gather.progress.most.saturating_add(least) {
                let progress = self.progress(&waiter, gpu, covered, now);
                self.gathers.on.insert(gpu, Gather { progress, ..gather });
            } else if now >= gather.progress.until {
                tracing::info!(
                    client = gather.key.client,
                    task = gather.key.task,
                    gpu,
                    "nothing leaves the GPU: no more room gathers for the task there"
                );
                self.gathers.on.remove(&gpu);
                self.queue.gather_on(at, None);
                let first = self.gather_timeout();
                self.gathers.give_up(gather.uid, gpu, first, now);
                self.give_up_need(at, now);
            }
        }
    }

    /// A static task's need is advice, and may be too high: where it has waited for very long and nothing
    /// leaves, it is refused, and its program asks for what it really allocates.
    fn give_up_need(&mut self, at: usize, now: Duration) {
        let waiting = self.queue.beginner(at);
        let is_long = waiting.waits(now) >= self.rules.patience.saturating_mul(NEED_TIMEOUT_FACTOR);
        if waiting.request.site == 0 || !is_long {
            return;
        }
        let (client, cell) = (waiting.client, waiting.cell);
        tracing::info!(
            client,
            "nothing leaves for its static task: it is to ask for what it allocates"
        );
        self.counts.refused += 1;
        self.queue.remove(client, cell);
        let reply = Reply::Deadlock;
        self.overdue.push(Answer { client, cell, reply });
    }

    /// Has room gather for the first requests that have waited for long and fit nowhere, in the order in
    /// which users are served.
    fn begin_gathers(&mut self, covered: &[Option<u64>], now: Duration) {
        let gpus = self.ledger.gpus().len();
        let most = (gpus / GPUS_PER_GATHER).max(1);
        let Some(aged) = now.checked_sub(self.rules.patience) else {
            return;
        };
        let is_aged = |waiter: &Waiter| waiter.since <= aged;
        if self.gathers.on.len() >= most || !self.queue.waiters().first().is_some_and(is_aged) {
            return;
        }
        let rooms = self.rooms_to_begin(covered);
        let mut done: BTreeSet<u32> = self.gathers.on.values().map(|gather| gather.uid).collect();
        let order = self.in_order(now).map(|order| order.places);
        for at in order.unwrap_or_else(|| (0..self.queue.waiters().len()).collect()) {
            if self.gathers.on.len() >= most {
                return;
            }
            let waiter = self.queue.waiters()[at];
            if !is_aged(&waiter) {
                continue;
            }
            let uid = self.user(waiter.client);
            if done.contains(&uid) || !waiter.alone && self.can_begin(&waiter, &rooms) {
                continue;
            }
            let kept: GpuSet = self.gathers.on.keys().copied().collect();
            let among = waiter.gpus & !kept & !self.gathers.paused(uid, now);
            let Some(gpu) = self.first_to_have_room(&waiter, uid, among, covered, now) else {
                continue;
            };
            done.insert(uid);
            let key = self.queue.beginner(at).key();
            let progress = self.progress(&waiter, gpu, covered, now);
            tracing::info!(
                client = key.client,
                task = key.task,
                gpu,
                "room gathers for the task"
            );
            self.gathers.on.insert(gpu, Gather { key, uid, progress });
            self.queue.gather_on(at, Some(gpu));
        }
    }

    /// What is there of what the task waits for, more being better.
    fn there(&self, waiter: &Waiter, gpu: usize, covered: &[Option<u64>]) -> u64 {
        if waiter.alone {
            u64::MAX - 1 - u64::from(Colocation::of(&self.ledger).on(gpu).count)
        } else {
            self.room_to_begin(covered, gpu)
        }
    }

    fn progress(&self, waiter: &Waiter, gpu: usize, covered: &[Option<u64>], now: Duration) -> Progress {
        let known = self.wait_on(waiter, gpu, covered, now).known.unwrap_or_default();
        let wait = known.saturating_mul(2).min(MAX_GATHER_TIMEOUT);
        Progress {
            most: self.there(waiter, gpu, covered),
            until: now + wait.max(self.gather_timeout()),
        }
    }

    /// The one of these GPUs where the task needs to wait least, of those where it was in vain least often.
    fn first_to_have_room(
        &self,
        waiter: &Waiter,
        uid: u32,
        among: GpuSet,
        covered: &[Option<u64>],
        now: Duration,
    ) -> Option<usize> {
        let mut best = None;
        for gpu in (0..self.ledger.gpus().len()).filter(|gpu| among.contains(gpu)) {
            let in_vain = self
                .gathers
                .given_up
                .get(&(uid, gpu))
                .map(|given_up| given_up.pause);
            let wait = self.wait_on(waiter, gpu, covered, now).length;
            let lack = u64::MAX - self.there(waiter, gpu, covered);
            let turn = (in_vain, wait, lack, gpu);
            best = Some(best.map_or(turn, |best| turn.min(best)));
        }
        best.map(|(.., gpu)| gpu)
    }

    /// How long it takes until a task has room on a GPU, as far as one can say.
    fn wait_on(&self, waiter: &Waiter, gpu: usize, covered: &[Option<u64>], now: Duration) -> Wait {
        let mut lacks = self
            .cost(waiter, waiter.bytes, gpu)
            .saturating_sub(self.room_to_begin(covered, gpu))
            .saturating_sub(self.ledger.charges(gpu).reclaiming);
        // By process: when it leaves, whether that is known, and what it leaves.
        let mut leave: BTreeMap<ClientId, (Duration, bool, u64)> = BTreeMap::new();
        for (client, at, bytes) in self.ledger.contexts().filter(|(_, at, _)| *at == gpu) {
            let taken = self.ledger.taken_by(client, at);
            // One without a task may stay for ever.
            leave.insert(client, (Duration::MAX, false, bytes.saturating_add(taken)));
        }
        for (key, held) in self.ledger.tasks().filter(|(_, held)| held.gpu == gpu) {
            let (length, is_known) = remaining(held, self.past.lasts(key), now);
            let entry = leave.entry(key.client).or_insert((Duration::ZERO, true, 0));
            let before = if entry.0 == Duration::MAX {
                (Duration::ZERO, true)
            } else {
                (entry.0, entry.1)
            };
            *entry = (
                before.0.max(length),
                before.1 && is_known,
                entry.2.saturating_add(held.charged()),
            );
        }
        leave.remove(&waiter.client);
        let mut order: Vec<(Duration, bool, u64)> = leave.into_values().collect();
        order.sort_unstable();
        let mut wait = Wait {
            length: Duration::ZERO,
            known: Some(Duration::ZERO),
        };
        for (length, is_known, bytes) in order {
            let is_there = lacks == 0 && (!waiter.alone || length == Duration::MAX);
            if is_there {
                return wait;
            }
            lacks = lacks.saturating_sub(bytes);
            wait.length = length;
            wait.known = wait.known.filter(|_| is_known).map(|_| length);
        }
        if lacks > 0 {
            wait = Wait {
                length: Duration::MAX,
                known: None,
            };
        }
        wait
    }

    /// Where tasks wait to grow, requests for no memory that have waited for long begin without what is
    /// expected of them.
    fn expect_nothing_beside_growth(&mut self, now: Duration) {
        if self.queue.grows().is_empty() || !self.queue.expects() {
            return;
        }
        for at in 0..self.queue.waiters().len() {
            let waiting = self.queue.beginner(at);
            if waiting.waits(now) < self.rules.patience {
                return;
            }
            if waiting.bytes == 0 && waiting.expects() {
                self.queue.expect(at, 0);
            }
        }
    }

    /// Opens GPUs to newcomers where nothing leaves for tasks that wait to grow, and closes them again.
    fn watch_growths(&mut self, covered: &[Option<u64>], stalled: GpuSet, now: Duration) {
        let growing = self.queue.growing_on();
        let patience = self.rules.patience;
        let first = patience.saturating_mul(HOLDER_PATIENCE);
        self.gathers.growths.retain(|gpu, growths| {
            let is_there = growing.contains(gpu);
            growths.none_since = (!is_there).then(|| growths.none_since.unwrap_or(now));
            growths
                .none_since
                .is_none_or(|since| now.saturating_sub(since) < patience)
        });
        for gpu in (0..self.ledger.gpus().len()).filter(|gpu| growing.contains(gpu)) {
            let there = self.grantable(covered, gpu);
            let least = (self.ledger.gpus()[gpu].usable_bytes / LEAST_PART).max(1);
            let fresh = Progress {
                most: there,
                until: now + first,
            };
            let growths = self.gathers.growths.entry(gpu).or_insert(Growths {
                progress: fresh,
                open_until: Duration::ZERO,
                pause: first,
                none_since: None,
            });
            if now < growths.open_until {
                growths.progress = fresh;
            } else if there >= growths.progress.most.saturating_add(least) || stalled.contains(gpu) {
                growths.progress = Progress {
                    most: there.max(growths.progress.most),
                    ..fresh
                };
            } else if now >= growths.progress.until {
                tracing::info!(
                    gpu,
                    "nothing leaves the GPU for those who wait to grow there: others may begin"
                );
                growths.open_until = now + growths.pause;
                growths.pause = (growths.pause * 2).min(MAX_PAUSE_TIMEOUT.max(first));
            }
        }
    }
}

/// How long a task waits for room.
struct Wait {
    /// As far as one can guess.
    length: Duration,
    /// The same, where it comes of what tasks are known to take.
    known: Option<Duration>,
}

/// How long a task goes on, and whether that is known of its kind. Of others the best guess is as long again
/// as it has gone on already.
fn remaining(held: &Holding, lasts: Option<Duration>, now: Duration) -> (Duration, bool) {
    let age = now.saturating_sub(held.granted);
    match lasts.filter(|lasts| held.running && *lasts > age) {
        Some(lasts) => (lasts - age, true),
        None => (age, false),
    }
}
