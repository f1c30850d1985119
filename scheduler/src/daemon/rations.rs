//! Lines of the log that users cause: so many of each, so that nobody fills a disk, or hides another's lines.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ration::Ration;

/// Users whose lines are counted at once.
const MAX_USERS: usize = 1 << 12;

/// How many lines each user has caused.
#[derive(Debug, Default)]
pub(super) struct Rations(BTreeMap<u32, Ration>);

impl Rations {
    /// Whether one more line may be written; with it, how many of the user's were not.
    pub(super) fn take(&mut self, uid: u32, now: Duration) -> Option<u32> {
        if self.0.len() >= MAX_USERS && !self.0.contains_key(&uid) {
            self.0.pop_first();
        }
        self.0.entry(uid).or_default().take(now)
    }
}
