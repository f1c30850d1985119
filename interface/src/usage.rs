//! What programs have taken of the GPUs, by day and user: the files that `mgbd` writes and `mgb history`
//! reads.
//!
//! A file for each user and day, `FOLDER/UID/YYYY-MM-DD.json`, which holds a [`UsageDay`]. Days are those of
//! UTC.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use time::Date;

use crate::folders::beside;

/// The format of the files.
pub const VERSION: u32 = 1;
/// The most bytes that a file can have: [`MAX_PROGRAMS`] with names of the longest.
pub const MAX_BYTES: u64 = 1 << 20;
/// Most programs of a user that are told apart on a day.
pub const MAX_PROGRAMS: usize = 500;
/// The name of all programs beyond those.
pub const OTHERS: &str = "(others)";

/// What processes have taken of the GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Processes that were granted their first task.
    pub processes: u64,
    /// Nanoseconds for which processes had tasks on GPUs, not all of whose memory was in the host; of one on two
    /// GPUs both count.
    pub held_ns: u64,
    /// Nanoseconds in which GPUs had work of theirs. Where n processes have work at once, each counts 1/n.
    pub gpu_ns: u64,
    /// Of `held_ns`, those in which others had tasks on the same GPU: of n processes each counts (n-1)/n. With
    /// one process a GPU at a time, they would have taken so much longer at most.
    pub shared_ns: u64,
    /// Bytes reserved on GPUs, times seconds.
    pub byte_seconds: u64,
    /// Bytes that went to host memory to make room for others.
    pub evicted_bytes: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        let pairs = [
            (&mut self.processes, other.processes),
            (&mut self.held_ns, other.held_ns),
            (&mut self.gpu_ns, other.gpu_ns),
            (&mut self.shared_ns, other.shared_ns),
            (&mut self.byte_seconds, other.byte_seconds),
            (&mut self.evicted_bytes, other.evicted_bytes),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
    }
}

/// What a user's programs have taken on a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageDay {
    /// The format, which is [`VERSION`].
    pub version: u32,
    /// The day, as [`day_of`] writes it.
    pub day: String,
    /// The user's number.
    pub uid: u32,
    /// By the names that programs have in `mgb status`.
    pub programs: BTreeMap<String, Usage>,
}

impl UsageDay {
    /// A day on which nothing was taken yet.
    pub fn new(day: &str, uid: u32) -> UsageDay {
        UsageDay {
            version: VERSION,
            day: day.to_owned(),
            uid,
            programs: BTreeMap::new(),
        }
    }

    /// The one that a file holds.
    ///
    /// # Errors
    /// The system's, and those of text that is none.
    pub fn read(file: &Path) -> io::Result<UsageDay> {
        let reader = BufReader::new(File::open(file)?.take(MAX_BYTES));
        Ok(serde_json::from_reader(reader)?)
    }

    /// The sums of a program, or of all others where there are too many.
    pub fn of(&mut self, program: &str) -> &mut Usage {
        let is_known = self.programs.contains_key(program) || self.programs.len() < MAX_PROGRAMS;
        let name = if is_known { program } else { OTHERS };
        self.programs.entry(name.to_owned()).or_default()
    }
}

/// The folder of the `mgbd` that `mgbd.service` starts.
pub const SERVICE_FOLDER: &str = "/var/lib/mgb/usage";

/// The folder of an `mgbd` at a socket, where none was named.
pub fn usual_folder(socket: &Path) -> PathBuf {
    beside(socket, ".usage")
}

/// The file of a user's day.
pub fn file_of(folder: &Path, uid: u32, day: &str) -> PathBuf {
    folder.join(uid.to_string()).join(format!("{day}.json"))
}

/// The day of a file, if its name is that of one.
pub fn day_of_file(name: &str) -> Option<&str> {
    let day = name.strip_suffix(".json")?;
    let is_day = |at: usize, byte: u8| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    let is = day.len() == 10 && day.bytes().enumerate().all(|(at, byte)| is_day(at, byte));
    is.then_some(day)
}

/// The day of a time, so many days before it, as `YYYY-MM-DD`.
pub fn day_of(time: SystemTime, before: u32) -> String {
    /// Of the first day of Unix's time.
    const FIRST: i32 = 2_440_588;
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let days = i32::try_from(seconds / 86400).unwrap_or(i32::MAX);
    let julian = FIRST.saturating_add(days).saturating_sub_unsigned(before);
    let date = Date::from_julian_day(julian).unwrap_or(Date::MIN);
    format!(
        "{:04}-{:02}-{:02}",
        date.year(),
        u8::from(date.month()),
        date.day()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn days_are_those_of_utc() {
        let day = |seconds, before| day_of(UNIX_EPOCH + Duration::from_secs(seconds), before);
        assert_eq!(day(0, 0), "1970-01-01");
        assert_eq!(day(1_709_251_199, 0), "2024-02-29");
        assert_eq!(day(1_709_251_200, 0), "2024-03-01");
        assert_eq!(day(1_709_251_200, 1), "2024-02-29");
        assert_eq!(day(1_709_251_200, 366), "2023-03-01");
    }

    #[test]
    fn only_days_are_names_of_files() {
        assert_eq!(day_of_file("2024-02-29.json"), Some("2024-02-29"));
        for name in [
            "2024-02-29.json.new",
            "2024-2-29.json",
            "../2-29.json",
            "2024x02-29.json",
            ".json",
        ] {
            assert_eq!(day_of_file(name), None, "{name}");
        }
    }

    #[test]
    fn too_many_programs_are_counted_as_others() {
        let mut day = UsageDay::new("2024-02-29", 1);
        for program in 0..MAX_PROGRAMS + 10 {
            day.of(&format!("program {program}")).processes += 1;
        }
        assert_eq!(day.programs.len(), MAX_PROGRAMS + 1);
        assert_eq!(day.of(OTHERS).processes, 10);
        day.of("program 3").processes += 1;
        assert_eq!(day.programs["program 3"].processes, 2);
    }
}
