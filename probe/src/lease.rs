//! Leases: a task that is over and holds no memory keeps its grant for the next
//! run of its site on the same thread, so that a task inside a loop does not ask
//! anew each time.
//!
//! The grant is offered in a word of the channel ([`offer`]): no process ever waits
//! for a lease, and neither side asks the other. While anybody waits
//! ([`Channel::wanted`]) nothing is kept at all.
//!
//! Which leases there are is each thread's own affair: taking one up costs no
//! lock.
//!
//! [`Channel::wanted`]: crate::wire::Channel::wanted

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use crate::binder::binder;
use crate::client::{Client, FORKS};
use crate::need::Need;
use crate::process;
use crate::task::TaskId;
use crate::wire::{LEASES, offer};

/// Tasks of a thread that run at once and may keep their grants.
const RUNNING: usize = 8;
/// Grants that a thread keeps.
const RESTING: usize = 4;

/// A task of this thread.
#[derive(Clone, Copy)]
struct ThreadTask {
    task: TaskId,
    site: usize,
    need: Need,
    /// Of the channel, where it is offered.
    slot: usize,
    /// When it was made: entries of a parent process mean nothing.
    forks: u32,
}

struct ThreadTasks {
    running: [Option<ThreadTask>; RUNNING],
    resting: [Option<ThreadTask>; RESTING],
    /// Which of those goes next if there is no place.
    oldest: usize,
}

thread_local! {
    static OWN: RefCell<ThreadTasks> = const {
        RefCell::new(ThreadTasks { running: [None; RUNNING], resting: [None; RESTING], oldest: 0 })
    };
    static END: End = const { End };
}

/// Gives up what a thread keeps, as it ends.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        let Some(client) = process::client() else { return };
        let entries = OWN.with(|own| std::mem::take(&mut own.borrow_mut().resting));
        for entry in entries.into_iter().flatten().filter(is_of_this_process) {
            let taken = take_back(client, &entry);
            let kept = binder().map_or(0, |binder| binder.ending(entry.task));
            if taken {
                client.end(entry.task, kept);
            }
        }
    }
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseOutcome {
    /// None is concerned.
    Nothing,
    /// This task has its grant.
    Granted(TaskId),
    /// This task has lost its grant: `mgbd` took it as ended.
    Lost(TaskId),
}

fn is_of_this_process(entry: &ThreadTask) -> bool {
    entry.forks == FORKS.load(Ordering::Relaxed)
}

/// Withdraws the offer. False: `mgbd` has taken it.
fn take_back(client: &Client, entry: &ThreadTask) -> bool {
    let word = &client.channel().leases[entry.slot];
    let mine = offer::withdraw(word, entry.task.raw());
    client
        .lease_slots()
        .fetch_and(!(1 << entry.slot), Ordering::Release);
    mine
}

/// A place in the channel that nobody uses.
fn slot(client: &Client) -> Option<usize> {
    const ALL: u32 = (1 << LEASES) - 1;
    let taken = client
        .lease_slots()
        .fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
            (taken != ALL).then(|| taken | (taken + 1))
        })
        .ok()?;
    Some(taken.trailing_ones() as usize)
}

/// A task was granted, and runs.
pub(crate) fn began(_client: &Client, task: TaskId, site: usize, need: &Need) {
    OWN.with(|own| {
        let running = &mut own.borrow_mut().running;
        // A task that ends elsewhere, or never, leaves its place in the end.
        let at = running.iter().position(Option::is_none).unwrap_or_else(|| {
            running.rotate_left(1);
            RUNNING - 1
        });
        running[at] = Some(ThreadTask {
            task,
            site,
            need: *need,
            slot: 0,
            forks: FORKS.load(Ordering::Relaxed),
        });
    });
}

/// The grant of the last run of the site on this thread, if its need was the same.
pub(crate) fn take(client: &Client, site: usize, need: &Need) -> LeaseOutcome {
    OWN.with(|own| {
        let mut own = own.borrow_mut();
        let fits = |entry: &ThreadTask| entry.site == site && entry.need == *need;
        let Some(at) = own
            .resting
            .iter()
            .position(|entry| entry.as_ref().is_some_and(fits))
        else {
            return LeaseOutcome::Nothing;
        };
        let Some(entry) = own.resting[at].take().filter(is_of_this_process) else {
            return LeaseOutcome::Nothing;
        };
        if !take_back(client, &entry) {
            return LeaseOutcome::Lost(entry.task);
        }
        if let Some(place) = own.running.iter().position(Option::is_none) {
            own.running[place] = Some(entry);
        }
        LeaseOutcome::Granted(entry.task)
    })
}

/// A task is over; keeps its grant if that is possible, and `rests` says so of the
/// task. The task that is to be ended in the ordinary way: this one, or an older
/// one that makes place.
pub(crate) fn keep(client: &Client, task: TaskId, rests: impl FnOnce() -> bool) -> LeaseOutcome {
    OWN.with(|own| {
        let mut own = own.borrow_mut();
        let is_it = |entry: &Option<ThreadTask>| entry.as_ref().is_some_and(|entry| entry.task == task);
        let Some(at) = own.running.iter().position(is_it) else {
            return LeaseOutcome::Granted(task);
        };
        let Some(mut entry) = own.running[at].take().filter(is_of_this_process) else {
            return LeaseOutcome::Granted(task);
        };
        if client.channel().wanted.load(Ordering::Relaxed) != 0 || !rests() {
            return LeaseOutcome::Granted(task);
        }
        let Some(slot) = slot(client) else {
            return LeaseOutcome::Granted(task);
        };
        entry.slot = slot;
        let channel = client.channel();
        let offered = offer::offer(&channel.leases[slot], &channel.wanted, task.raw());
        // Registers the destructor. A thread that is ending keeps nothing.
        if !offered || END.try_with(|_| ()).is_err() {
            return if take_back(client, &entry) {
                LeaseOutcome::Granted(task)
            } else {
                LeaseOutcome::Lost(task)
            };
        }
        let free = own.resting.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            own.oldest = (own.oldest + 1) % RESTING;
            own.oldest
        });
        match own.resting[at].replace(entry).filter(is_of_this_process) {
            Some(old) if take_back(client, &old) => LeaseOutcome::Granted(old.task),
            Some(old) => LeaseOutcome::Lost(old.task),
            None => LeaseOutcome::Nothing,
        }
    })
}
