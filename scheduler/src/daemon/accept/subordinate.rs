//! Whose subordinate users are: the users that a user has by making user namespaces, as `/etc/subuid` says.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The names of users: no name service is asked, which may take its time.
const NAMES: &str = "/etc/passwd";
/// The first number of accounts that are control groups. No system hands out users' numbers above 2^31.
pub(crate) const FIRST_GROUP: u32 = 0xe000_0000;
/// Numbers of accounts of owners whose own number is not known, below [`FIRST_GROUP`].
const FIRST_NAME: u32 = 0xd000_0000;

/// What the file says, as of when it was last changed.
#[derive(Debug)]
pub(crate) struct Subordinates {
    file: PathBuf,
    read: Option<SystemTime>,
    /// By the first number of a range: the last one, and the owner.
    ranges: BTreeMap<u32, (u32, u32)>,
}

impl Subordinates {
    pub(crate) fn new(file: PathBuf) -> Subordinates {
        Subordinates {
            file,
            read: None,
            ranges: BTreeMap::new(),
        }
    }

    /// The user that a user belongs to: itself, unless it is a subordinate one. Reads the file where it has
    /// changed.
    pub(crate) fn owner(&mut self, uid: u32) -> u32 {
        let changed = std::fs::metadata(&self.file)
            .and_then(|file| file.modified())
            .ok();
        if changed != self.read {
            self.read = changed;
            let names = std::fs::read_to_string(NAMES).unwrap_or_default();
            self.ranges = ranges(&read(&self.file), &names);
        }
        let mut owner = uid;
        if let Some((_, (last, of))) = self.ranges.range(..=uid).next_back()
            && uid <= *last
        {
            owner = *of;
        }
        owner
    }
}

fn read(file: &Path) -> String {
    match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                tracing::warn!(%error, file = %file.display(), "subordinate users have accounts of their own");
            }
            String::new()
        }
    }
}

/// The ranges of a file as subuid(5) has it. Of two that overlap the first one counts, as for newuidmap(1).
/// That no two ranges of a file have a user in common, and none has root or a user of the system.
#[cfg(fuzzing)]
pub(crate) fn check(text: &str) {
    let mut before = 999;
    for (first, (last, _)) in ranges(text, "me:x:1000:") {
        assert!(
            before < first && first <= last,
            "{first} to {last} after {before}"
        );
        before = last;
    }
}

fn ranges(text: &str, names: &str) -> BTreeMap<u32, (u32, u32)> {
    let mut ranges: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for line in text.lines() {
        let parts: Vec<&str> = line.split(':').collect();
        let [owner, first, count] = parts.as_slice() else {
            continue;
        };
        let (Ok(first), Ok(count)) = (first.parse::<u32>(), count.trim().parse::<u32>()) else {
            continue;
        };
        let Some(last) = count.checked_sub(1).and_then(|more| first.checked_add(more)) else {
            continue;
        };
        let is_free = ranges
            .range(..=last)
            .next_back()
            .is_none_or(|(_, (end, _))| *end < first);
        // Not root, nor users of the system: who may use their numbers is root already.
        if is_free && first >= 1000 {
            ranges.insert(first, (last, number(owner, names)));
        }
    }
    ranges
}

/// The number of a user by name, or as it is.
fn number(owner: &str, names: &str) -> u32 {
    if let Ok(uid) = owner.parse() {
        return uid;
    }
    let line = names
        .lines()
        .find_map(|line| line.strip_prefix(owner)?.strip_prefix(':'));
    let known = line.and_then(|rest| rest.split(':').nth(1)?.parse().ok());
    known.unwrap_or_else(|| {
        let mut hasher = DefaultHasher::new();
        owner.hash(&mut hasher);
        FIRST_NAME + (hasher.finish() % u64::from(FIRST_GROUP - FIRST_NAME)) as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nalice:x:1001:1001::/home/alice:/bin/sh\n";

    #[test]
    fn subordinate_users_are_their_owner_s() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("subuid");
        let mut subordinates = Subordinates::new(file.clone());
        assert_eq!(subordinates.owner(100_005), 100_005);
        std::fs::write(&file, "1002:100000:65536\n").unwrap();
        for (uid, owner) in [
            (99_999, 99_999),
            (100_000, 1002),
            (165_535, 1002),
            (165_536, 165_536),
            (0, 0),
            (u32::MAX, u32::MAX),
        ] {
            assert_eq!(subordinates.owner(uid), owner);
        }
        // A change counts at once.
        std::fs::write(&file, "1003:100000:65536\n").unwrap();
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        std::fs::File::options()
            .append(true)
            .open(&file)
            .unwrap()
            .set_modified(later)
            .unwrap();
        assert_eq!(subordinates.owner(100_000), 1003);
    }

    #[test]
    fn whatever_the_file_says_is_read() {
        let text = "alice:100000:10\nunknown:200000:10\n\n#\nx:y:z\nalice:300000:0\nalice:4294967290:10\n\
                    eve:100005:10\neve:0:2000\nalice:100010:5\n";
        let ranges = ranges(text, PASSWD);
        assert_eq!(
            ranges.keys().copied().collect::<Vec<_>>(),
            [100_000, 100_010, 200_000]
        );
        assert_eq!(ranges[&100_000], (100_009, 1001));
        let unknown = ranges[&200_000].1;
        assert!((FIRST_NAME..FIRST_GROUP).contains(&unknown));
        assert_eq!(number("unknown", PASSWD), unknown);
        assert_eq!(number("ali", PASSWD) & 0xf000_0000, FIRST_NAME & 0xf000_0000);
    }
}
