//! What programs take of the GPUs, kept by day for people: `mgb history` shows it.
//!
//! Taken each time that `mgbd` wakes, before it hears what happened, so that who ends has had its time. The
//! files are written whole and renamed, by a thread, since a disk may be slow; at the end by `mgbd` itself.
//! Nothing is decided by it, and what cannot be written is named in the log.

mod files;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use mgb_interface::usage::{self, Usage, UsageDay};
use mgb_probe::wire::Text;

use crate::client::ClientId;
use files::{forget_old, read_day, write_or_warn};

/// Between two samples, however often `mgbd` wakes,
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);
/// and longer by this for each process: it has other things to do.
const PROCESS_INTERVAL: Duration = Duration::from_micros(20);
/// The most time that a sample counts for: `mgbd` looks more often while there are tasks, if it runs.
const MAX_GAP: Duration = Duration::from_secs(10);
/// Between two writes: what a killed `mgbd` has counted in this time is lost.
const SAVE_INTERVAL: Duration = Duration::from_secs(30);
/// From when nobody has a task any more to a write: whoever ran something may look.
const LAST_INTERVAL: Duration = Duration::from_secs(1);

/// A process with tasks on a GPU, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) client: ClientId,
    pub(crate) gpu: usize,
    pub(crate) uid: u32,
    /// What people know its first task there by.
    pub(crate) label: Text,
    /// When its first task there was granted, on the broker's clock.
    pub(crate) granted: Duration,
    /// Bytes that its tasks have there.
    pub(crate) bytes: u64,
    /// Bytes of its tasks there that are in host memory.
    pub(crate) evicted: u64,
    /// Its part of the time in which the GPU had work, in nanoseconds since it came there.
    pub(crate) gpu_ns: u64,
}

impl Holder {
    /// It has more on the GPU than a context: not all of its memory is in the host.
    fn is_there(&self) -> bool {
        self.bytes > 0 || self.evicted == 0
    }
}

/// What was counted of a process on a GPU already.
#[derive(Clone, Copy, Debug)]
struct Counted {
    evicted: u64,
    gpu_ns: u64,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What programs have taken today, and the thread that writes it.
#[derive(Debug)]
pub(crate) struct UsageBook {
    folder: PathBuf,
    /// Files are for the users to read whom they are about.
    several: bool,
    today: String,
    users: BTreeMap<u32, UsageDay>,
    /// The users whose files are not up to date.
    changed: BTreeSet<u32>,
    /// What is to be written of days that are over.
    over: Vec<UsageDay>,
    /// By client and GPU, for as long as the client is there: its tasks come and go.
    counted: BTreeMap<(ClientId, usize), Counted>,
    /// The last sample had somebody with tasks.
    has_holders: bool,
    /// The `mgbd` before has counted what was granted until then.
    opened: Duration,
    sampled: Duration,
    /// When something may be written next.
    due: Duration,
    /// Returns what it could not write.
    writes: Option<JoinHandle<Vec<UsageDay>>>,
}

impl UsageBook {
    /// Goes on with what was written of today.
    pub(crate) fn open(folder: PathBuf, several: bool, now: Duration) -> UsageBook {
        let today = usage::day_of(SystemTime::now(), 0);
        let users = read_day(&folder, &today);
        forget_old(&folder);
        UsageBook {
            folder,
            several,
            today,
            users,
            changed: BTreeSet::new(),
            over: Vec::new(),
            counted: BTreeMap::new(),
            has_holders: false,
            opened: now,
            sampled: now,
            due: now + SAVE_INTERVAL,
            writes: None,
        }
    }

    /// Whether it is time for a sample: many at once would say no more.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        let processes = u32::try_from(self.counted.len()).unwrap_or(u32::MAX);
        let interval = SAMPLE_INTERVAL + PROCESS_INTERVAL.saturating_mul(processes);
        now.saturating_sub(self.sampled) >= interval
    }

    /// Counts for all who have tasks the time since the last sample, or since they were granted the first.
    /// `holders` are in the order of their clients and GPUs. `is_here`: the clients that are there, with tasks
    /// or without.
    pub(crate) fn sample(
        &mut self,
        holders: &[Holder],
        is_here: impl Fn(ClientId) -> bool,
        now: Duration,
        clock: SystemTime,
    ) {
        self.begin_day(usage::day_of(clock, 0));
        let passed = nanoseconds(now.saturating_sub(self.sampled).min(MAX_GAP));
        self.sampled = now;
        let mut on_gpu: BTreeMap<usize, u64> = BTreeMap::new();
        for holder in holders.iter().filter(|holder| holder.is_there()) {
            *on_gpu.entry(holder.gpu).or_default() += 1;
        }
        for holder in holders {
            let all = on_gpu.get(&holder.gpu).copied().unwrap_or(1);
            let more = self.count(holder, passed, all, now);
            if more != Usage::default() {
                self.add(holder, more, now);
            }
        }
        if holders.is_empty() && self.has_holders {
            self.due = self.due.min(now + LAST_INTERVAL);
        }
        self.has_holders = !holders.is_empty();
        self.counted.retain(|place, counted| {
            let has_tasks = holders
                .binary_search_by_key(place, |holder| (holder.client, holder.gpu))
                .is_ok();
            if !has_tasks {
                counted.evicted = 0;
            }
            is_here(place.0)
        });
    }

    /// What a process has taken since it was counted last, beside so many in all.
    fn count(&mut self, holder: &Holder, passed: u64, all: u64, now: Duration) -> Usage {
        let client = holder.client;
        let is_known = self
            .counted
            .range((client, 0)..=(client, usize::MAX))
            .next()
            .is_some();
        let is_new = !is_known && holder.granted >= self.opened;
        let since = passed.min(nanoseconds(now.saturating_sub(holder.granted)));
        let seen = Counted {
            evicted: holder.evicted,
            gpu_ns: holder.gpu_ns,
        };
        let none = Counted {
            // What was evicted before this mgbd came is counted.
            evicted: if holder.granted < self.opened {
                holder.evicted
            } else {
                0
            },
            gpu_ns: 0,
        };
        let last = self.counted.insert((client, holder.gpu), seen).unwrap_or(none);
        let held = if holder.is_there() { since } else { 0 };
        Usage {
            processes: u64::from(is_new),
            held_ns: held,
            // One that has left the GPU and come back begins anew.
            gpu_ns: holder.gpu_ns.checked_sub(last.gpu_ns).unwrap_or(holder.gpu_ns),
            shared_ns: held / all * (all - 1),
            byte_seconds: (u128::from(holder.bytes) * u128::from(since) / 1_000_000_000) as u64,
            evicted_bytes: holder.evicted.saturating_sub(last.evicted),
        }
    }

    fn add(&mut self, holder: &Holder, more: Usage, now: Duration) {
        if self.due_in(now).is_none() {
            self.due = now + SAVE_INTERVAL;
        }
        let today = &self.today;
        let user = self.users.entry(holder.uid);
        let day = user.or_insert_with(|| UsageDay::new(today, holder.uid));
        *day.of(&holder.label.to_text()) += more;
        self.changed.insert(holder.uid);
    }

    /// What is counted from here on is of this day. A clock that is set back changes nothing: that day has a
    /// file.
    fn begin_day(&mut self, today: String) {
        if today > self.today {
            let days = self.take_changed();
            (self.today, self.users, self.over) = (today, BTreeMap::new(), days);
        }
    }

    /// How long until there is something to write.
    pub(crate) fn due_in(&self, now: Duration) -> Option<Duration> {
        let is_any = !self.changed.is_empty() || !self.over.is_empty();
        is_any.then(|| self.due.saturating_sub(now))
    }

    /// Writes what is new, if it is time.
    pub(crate) fn check(&mut self, now: Duration) {
        if self.due_in(now).is_none_or(|wait| !wait.is_zero()) {
            return;
        }
        self.due = now + SAVE_INTERVAL;
        if self.writes.as_ref().is_some_and(|writes| !writes.is_finished()) {
            return;
        }
        self.take_back();
        let is_over = !self.over.is_empty();
        let (folder, several, days) = (self.folder.clone(), self.several, self.take_changed());
        let write = move || {
            let left = write_or_warn(&folder, several, days);
            if is_over {
                forget_old(&folder);
            }
            left
        };
        let thread = std::thread::Builder::new().name("usage".to_owned());
        match thread.spawn(write) {
            Ok(writes) => self.writes = Some(writes),
            Err(error) => tracing::warn!(%error, "cannot start a thread to write what programs take"),
        }
    }

    /// Writes what is new as `mgbd` ends.
    pub(crate) fn finish(mut self) {
        self.take_back();
        let days = self.take_changed();
        write_or_warn(&self.folder, self.several, days);
    }

    /// What could not be written is to be written again, as it is by then.
    fn take_back(&mut self) {
        let left = self.writes.take().map(JoinHandle::join);
        for day in left.and_then(Result::ok).unwrap_or_default() {
            if day.day == self.today {
                self.changed.insert(day.uid);
            } else if !self
                .over
                .iter()
                .any(|over| (over.uid, &over.day) == (day.uid, &day.day))
            {
                self.over.push(day);
            }
        }
    }

    fn take_changed(&mut self) -> Vec<UsageDay> {
        let mut days = std::mem::take(&mut self.over);
        let changed = std::mem::take(&mut self.changed);
        days.extend(changed.iter().filter_map(|uid| self.users.get(uid).cloned()));
        days
    }
}
