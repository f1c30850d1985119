//! The files of what programs take: one for each user and day.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use mgb_interface::usage::{self, UsageDay};

use crate::daemon::{access_list, whole_file};

/// Days of a user that are kept, the latest that he had something on. By their count: a clock may be wrong.
pub(super) const KEPT_DAYS: usize = 400;

/// The folders of users in a folder.
fn users_in(folder: &Path) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What was written of a day, by user.
pub(super) fn read_day(folder: &Path, day: &str) -> BTreeMap<u32, UsageDay> {
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
pub(super) fn forget_old(folder: &Path) {
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
pub(super) fn write_or_warn(folder: &Path, several: bool, mut days: Vec<UsageDay>) -> Vec<UsageDay> {
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
    let mode = if several { 0o755 } else { 0o700 };
    whole_file::replace(&file, mode, |new| {
        let own = rustix::process::geteuid().as_raw();
        if several && day.uid != own {
            // Where the file system has no access lists, only who runs mgbd reads it.
            let _ = access_list::let_read(&*new, day.uid);
        }
        new.write_all(&serde_json::to_vec(day)?)
    })
}
