//! How long requests wait until a GPU has room for them, as far as one can say: by what tasks there took before.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Round;
use crate::broker::books::Books;
use crate::broker::history::History;
use crate::client::ClientId;
use crate::ledger::{Colocation, Holding};
use crate::policies::Waiter;

impl Round<'_> {
    /// What is there of what the task waits for, more being better.
    pub(in crate::broker) fn there(&self, books: &Books, waiter: &Waiter, gpu: usize) -> u64 {
        let ledger = &books.ledger;
        if waiter.alone {
            u64::MAX - 1 - u64::from(Colocation::of(ledger).on(gpu).count)
        } else {
            ledger.room_to_begin(&self.covered, gpu)
        }
    }

    /// How long it takes until a task has room on a GPU, as far as one can say.
    pub(in crate::broker) fn wait_on(
        &self,
        books: &Books,
        history: &History,
        waiter: &Waiter,
        gpu: usize,
    ) -> GpuWait {
        let ledger = &books.ledger;
        let lacks = books
            .cost(waiter, waiter.bytes, gpu)
            .saturating_sub(ledger.room_to_begin(&self.covered, gpu))
            .saturating_sub(ledger.charges(gpu).reclaiming);
        let mut leave = self.leaves(books, history, gpu);
        leave.remove(&waiter.client);
        GpuWait::until(lacks, waiter.alone, leave.into_values().collect())
    }

    /// By process on a GPU: when it leaves, and what it leaves.
    fn leaves(&self, books: &Books, history: &History, gpu: usize) -> BTreeMap<ClientId, Leave> {
        let ledger = &books.ledger;
        let mut leaves: BTreeMap<ClientId, Leave> = BTreeMap::new();
        for (client, at, bytes) in ledger.contexts().filter(|(_, at, _)| *at == gpu) {
            let bytes = bytes.saturating_add(ledger.taken_by(client, at));
            // One without a task may stay for ever.
            let stays = Leave {
                length: Duration::MAX,
                is_known: false,
                bytes,
            };
            leaves.insert(client, stays);
        }
        for (key, holding) in ledger.tasks().filter(|(_, holding)| holding.gpu == gpu) {
            let (length, is_known) = remaining(holding, history.lasts(key), self.now);
            let entry = leaves.entry(key.client).or_insert(Leave {
                length: Duration::ZERO,
                is_known: true,
                bytes: 0,
            });
            if entry.length == Duration::MAX {
                (entry.length, entry.is_known) = (Duration::ZERO, true);
            }
            entry.length = entry.length.max(length);
            entry.is_known &= is_known;
            entry.bytes = entry.bytes.saturating_add(holding.charged());
        }
        leaves
    }
}

/// When a process leaves a GPU, and what it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Leave {
    length: Duration,
    /// Whether its tasks are known to take so long.
    is_known: bool,
    bytes: u64,
}

/// How long a task waits for room.
pub(in crate::broker) struct GpuWait {
    /// The time, as far as one can guess.
    pub(in crate::broker) length: Duration,
    /// The same, where it comes of what tasks are known to take.
    pub(in crate::broker) known: Option<Duration>,
}

impl GpuWait {
    /// Until so many bytes more are there, and for a task that is to be `alone` until all tasks have left.
    fn until(mut lacks: u64, alone: bool, mut leaves: Vec<Leave>) -> GpuWait {
        leaves.sort_unstable();
        let mut wait = GpuWait {
            length: Duration::ZERO,
            known: Some(Duration::ZERO),
        };
        for leave in leaves {
            let is_there = lacks == 0 && (!alone || leave.length == Duration::MAX);
            if is_there {
                return wait;
            }
            lacks = lacks.saturating_sub(leave.bytes);
            wait.length = leave.length;
            wait.known = wait.known.filter(|_| leave.is_known).map(|_| leave.length);
        }
        if lacks > 0 {
            wait = GpuWait {
                length: Duration::MAX,
                known: None,
            };
        }
        wait
    }
}

/// How long a task goes on, and whether that is known of its kind. Of others the best guess is as long again
/// as it has gone on already.
fn remaining(holding: &Holding, lasts: Option<Duration>, now: Duration) -> (Duration, bool) {
    let age = now.saturating_sub(holding.granted);
    match lasts.filter(|lasts| holding.running && *lasts > age) {
        Some(lasts) => (lasts - age, true),
        None => (age, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Duration = Duration::from_secs;

    fn leave(seconds: u64, is_known: bool, bytes: u64) -> Leave {
        Leave {
            length: AT(seconds),
            is_known,
            bytes,
        }
    }

    #[test]
    fn a_task_waits_until_enough_has_left() {
        let leaves = || vec![leave(9, true, 5), leave(2, true, 4), leave(5, false, 6)];
        let wait = |lacks| {
            let wait = GpuWait::until(lacks, false, leaves());
            (wait.length, wait.known)
        };
        assert_eq!(wait(0), (AT(0), Some(AT(0))));
        assert_eq!(wait(4), (AT(2), Some(AT(2))));
        assert_eq!(
            wait(5),
            (AT(5), None),
            "of one that leaves before it nothing is known"
        );
        assert_eq!(wait(15), (AT(9), None));
        assert_eq!(wait(16), (Duration::MAX, None), "there is not so much");
    }

    #[test]
    fn a_task_that_is_to_be_alone_waits_for_all_tasks() {
        let mut leaves = vec![leave(2, true, 1), leave(5, true, 1)];
        assert_eq!(GpuWait::until(0, true, leaves.clone()).length, AT(5));
        leaves.push(Leave {
            length: Duration::MAX,
            ..leave(0, false, 1)
        });
        assert_eq!(
            GpuWait::until(0, true, leaves).length,
            AT(5),
            "not for a context without a task"
        );
    }
}
