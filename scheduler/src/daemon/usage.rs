//! What programs take of the GPUs, kept by day for people: `mgb history` shows it.
//!
//! Taken each time that `mgbd` wakes, before it hears what happened, so that who ends has had its time. The
//! files are written whole and renamed, by a thread, since a disk may be slow; at the end by `mgbd` itself.
//! Nothing is decided by it, and what cannot be written is named in the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use mgb_interface::usage::{self, Usage, UsageDay};
use mgb_probe::wire::Text;

use crate::client::ClientId;
use crate::daemon::access_list;

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
/// Days of a user that are kept, the latest that he had something on. By their count: a clock may be wrong.
const KEPT_DAYS: usize = 400;

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

/// The folders of users in a folder.
fn users_in(folder: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn read_day(folder: &Path, day: &str) -> BTreeMap<u32, UsageDay> {
    let mut users = BTreeMap::new();
    for uid in users_in(folder) {
        let file = usage::file_of(folder, uid, day);
        match UsageDay::read(&file) {
            Ok(found) if (found.version, found.uid, found.day.as_str()) == (usage::VERSION, uid, day) => {
                users.insert(uid, found);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) => warn_of(&file, &"it is not of this version, user and day"),
            Err(error) => warn_of(&file, &error),
        }
    }
    users
}

fn warn_of(file: &Path, why: &dyn std::fmt::Display) {
    tracing::warn!(
        file = %file.display(),
        %why,
        "cannot read what programs took today: it is counted anew, and the file is replaced"
    );
}

/// Removes the files of days that are not kept.
fn forget_old(folder: &Path) {
    for uid in users_in(folder) {
        let of_user = folder.join(uid.to_string());
        let files = fs::read_dir(&of_user).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        let mut days: Vec<String> = names.filter(|name| usage::day_of_file(name).is_some()).collect();
        days.sort_unstable();
        for day in days.iter().rev().skip(KEPT_DAYS) {
            let _ = fs::remove_file(of_user.join(day));
        }
    }
}

/// Returns what could not be written.
fn write_or_warn(folder: &Path, several: bool, mut days: Vec<UsageDay>) -> Vec<UsageDay> {
    while let Some(day) = days.pop() {
        if let Err(error) = write(folder, several, &day) {
            tracing::warn!(
                folder = %folder.display(),
                uid = day.uid,
                %error,
                "cannot write down what programs take: mgb history lacks it until that is possible"
            );
            days.push(day);
            return days;
        }
    }
    Vec::new()
}

fn write(folder: &Path, several: bool, day: &UsageDay) -> io::Result<()> {
    let file = usage::file_of(folder, day.uid, &day.day);
    let new = file.with_extension("json.new");
    let of_user = file.parent().unwrap_or(folder);
    let mode = if several { 0o755 } else { 0o700 };
    fs::DirBuilder::new().recursive(true).mode(mode).create(of_user)?;
    let written = write_whole(&new, several, day).and_then(|()| fs::rename(&new, &file));
    if written.is_err() {
        // On a full disk what was written of it is in the way of others.
        let _ = fs::remove_file(&new);
    }
    written
}

fn write_whole(new: &Path, several: bool, day: &UsageDay) -> io::Result<()> {
    let options = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .clone();
    let mut file = options.open(new)?;
    let own = rustix::process::geteuid().as_raw();
    if several && day.uid != own {
        // Where the file system has no access lists, only who runs mgbd reads it.
        let _ = access_list::let_read(&file, day.uid);
    }
    file.write_all(&serde_json::to_vec(day)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn holder(client: ClientId, uid: u32, label: &str) -> Holder {
        Holder {
            client,
            gpu: 0,
            uid,
            label: Text::new(label),
            granted: at(0),
            bytes: 2 * GIB,
            evicted: 0,
            gpu_ns: 0,
        }
    }

    #[test]
    fn each_has_its_part_of_what_two_hold() {
        let folder = tempfile::tempdir().unwrap();
        let mut book = UsageBook::open(folder.path().to_owned(), false, at(0));
        let [one, two] = [(1, 100), (2, 1100)].map(|(client, granted)| Holder {
            granted: at(granted),
            ..holder(client, 7, "train")
        });
        // The second comes as half of the time is over.
        book.sample(&[one.clone(), two.clone()], |_| true, at(1100), SystemTime::now());
        let one = Holder {
            gpu_ns: 600,
            evicted: GIB,
            ..one
        };
        book.sample(&[one, two], |_| true, at(2100), SystemTime::now());
        assert_eq!(
            *book.users.get_mut(&7).unwrap().of("train"),
            Usage {
                processes: 2,
                held_ns: 3_000_000_000,
                gpu_ns: 600,
                // Half a second when the other had come, and half a second each.
                shared_ns: 1_500_000_000,
                byte_seconds: 6 * GIB,
                evicted_bytes: GIB,
            }
        );
        // Who is away with all of its memory holds nothing.
        let away = Holder {
            bytes: 0,
            evicted: 2 * GIB,
            ..holder(1, 7, "train")
        };
        book.sample(
            &[away, holder(2, 7, "train")],
            |_| true,
            at(3100),
            SystemTime::now(),
        );
        let sums = *book.users.get_mut(&7).unwrap().of("train");
        assert_eq!((sums.held_ns, sums.shared_ns), (4_000_000_000, 1_500_000_000));
        // A machine that slept.
        book.sample(
            &[holder(2, 7, "train")],
            |_| true,
            at(1_000_000),
            SystemTime::now(),
        );
        assert_eq!(
            book.users.get_mut(&7).unwrap().of("train").held_ns,
            14_000_000_000
        );
    }

    #[test]
    fn a_process_whose_tasks_come_and_go_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut book = UsageBook::open(folder.path().to_owned(), false, at(0));
        for round in 0..3 {
            let task = Holder {
                granted: at(1000 * round),
                evicted: GIB,
                gpu_ns: 100 * (round + 1),
                ..holder(1, 7, "train")
            };
            let clock = SystemTime::now();
            book.sample(&[task], |_| true, at(1000 * round + 400), clock);
            book.sample(&[], |_| true, at(1000 * round + 500), clock);
        }
        let sums = *book.users.get_mut(&7).unwrap().of("train");
        assert_eq!((sums.processes, sums.gpu_ns), (1, 300));
        assert_eq!((sums.held_ns, sums.evicted_bytes), (1_200_000_000, 3 * GIB));
        book.sample(&[], |_| false, at(3000), SystemTime::now());
        assert!(book.counted.is_empty());
    }

    #[test]
    fn the_next_one_goes_on_with_the_day() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new/usage");
        let count = |now: u64| {
            let mut book = UsageBook::open(place.clone(), true, at(0));
            assert_eq!(book.due_in(at(0)), None);
            book.sample(
                &[holder(1, 7, "train"), holder(2, 8, "serve")],
                |_| true,
                at(now),
                SystemTime::now(),
            );
            assert_eq!(book.due_in(at(now)), Some(SAVE_INTERVAL));
            book.sample(&[], |_| true, at(now), SystemTime::now());
            assert_eq!(book.due_in(at(now)), Some(LAST_INTERVAL));
            book
        };
        count(1000).finish();
        let mut book = count(2000);
        book.check(SAVE_INTERVAL);
        book.finish();
        let today = usage::day_of(SystemTime::now(), 0);
        for (uid, name) in [(7, "train"), (8, "serve")] {
            let mut day = UsageDay::read(&usage::file_of(&place, uid, &today)).unwrap();
            assert_eq!((day.of(name).held_ns, day.of(name).processes), (3_000_000_000, 2));
            assert_eq!(day.programs.len(), 1);
        }
    }

    #[test]
    fn a_file_that_is_none_is_replaced_and_old_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let today = usage::day_of(SystemTime::now(), 0);
        let file = usage::file_of(folder.path(), 7, &today);
        fs::create_dir(folder.path().join("7")).unwrap();
        let of_day = |before: usize| {
            let day = usage::day_of(SystemTime::now(), before as u32);
            usage::file_of(folder.path(), 7, &day)
        };
        for before in 0..=KEPT_DAYS {
            fs::write(of_day(before), "{").unwrap();
        }
        let (old, kept) = (of_day(KEPT_DAYS), of_day(KEPT_DAYS - 1));
        let mut book = UsageBook::open(folder.path().to_owned(), false, at(0));
        assert!(!old.exists() && kept.exists());
        book.sample(&[holder(1, 7, "train")], |_| true, at(0), SystemTime::now());
        book.sample(&[holder(1, 7, "train")], |_| true, at(1000), SystemTime::now());
        book.finish();
        assert_eq!(UsageDay::read(&file).unwrap().of("train").held_ns, 1_000_000_000);
    }

    #[test]
    fn a_day_ends_also_where_nobody_works() {
        let folder = tempfile::tempdir().unwrap();
        let mut book = UsageBook::open(folder.path().to_owned(), false, at(0));
        let days = [0, 1, 0].map(|day| SystemTime::now() + Duration::from_secs(day * 86400));
        book.sample(&[holder(1, 7, "train")], |_| true, at(1000), days[0]);
        book.sample(&[holder(1, 7, "train")], |_| true, at(3000), days[1]);
        // The clock is set back.
        book.sample(&[holder(1, 7, "train")], |_| true, at(6000), days[2]);
        book.finish();
        let held = |clock| {
            let file = usage::file_of(folder.path(), 7, &usage::day_of(clock, 0));
            UsageDay::read(&file).unwrap().of("train").held_ns / 1_000_000_000
        };
        assert_eq!(days[..2].iter().map(|day| held(*day)).collect::<Vec<_>>(), [1, 5]);
    }

    #[test]
    fn what_could_not_be_written_is_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("usage");
        fs::write(&place, "in the way").unwrap();
        let mut book = UsageBook::open(place.clone(), false, at(0));
        book.sample(&[holder(1, 7, "train")], |_| true, at(1000), SystemTime::now());
        book.check(at(1000) + SAVE_INTERVAL);
        while book.writes.as_ref().is_some_and(|writes| !writes.is_finished()) {
            std::thread::yield_now();
        }
        fs::remove_file(&place).unwrap();
        book.finish();
        let today = usage::day_of(SystemTime::now(), 0);
        assert_eq!(
            UsageDay::read(&usage::file_of(&place, 7, &today))
                .unwrap()
                .programs
                .len(),
            1
        );
    }

    #[test]
    fn a_folder_that_cannot_be_made_costs_nothing_but_the_files() {
        let mut book = UsageBook::open("/proc/none".into(), false, at(0));
        book.sample(&[holder(1, 7, "train")], |_| true, at(0), SystemTime::now());
        book.check(SAVE_INTERVAL);
        book.finish();
    }
}
