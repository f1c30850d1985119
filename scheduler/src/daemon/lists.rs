//! How often users' clients may send lists of files to be kept: each is looked at, passed on to the holder
//! and its predecessor closed. One of 64 files costs as much as several grants.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bucket::Bucket;

/// Lists that a user's clients may send at once: a client sends one for each context and library that its
/// program loads as it starts.
const BURST: u32 = 128;
/// From one to the next when there are more.
pub(super) const EVERY: Duration = Duration::from_millis(10);
/// Users that are remembered.
const MAX_USERS: usize = 256;

/// Who sends lists.
#[derive(Debug, Default)]
pub(super) struct Lists(BTreeMap<u32, Bucket>);

impl Lists {
    /// Whether a client of the user may send one more.
    pub(super) fn take(&mut self, uid: u32, now: Duration) -> bool {
        if self.0.len() > MAX_USERS {
            self.0.clear();
        }
        let full = || Bucket::new(BURST, EVERY, now);
        self.0.entry(uid).or_insert_with(full).take(now)
    }
}
