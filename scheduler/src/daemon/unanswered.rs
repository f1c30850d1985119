//! How many requests wait of each user: one with many clients must not make those of others slow.

use std::collections::BTreeMap;

/// Most requests of a user that may wait at once, though each client could post
/// [`mgb_probe::wire::CELLS`]: each round of decisions goes through all of them.
const MOST: u32 = 1 << 10;
/// Requests that each client may have beside: a program with a thread or two must not fail because of others.
const FEW: u32 = 2;

/// Requests that are taken and not answered, by user.
#[derive(Debug, Default)]
pub(super) struct Unanswered(BTreeMap<u32, u32>);

impl Unanswered {
    /// So many were taken.
    pub(super) fn taken(&mut self, uid: u32, count: u32) {
        if count > 0 {
            *self.0.entry(uid).or_default() += count;
        }
    }

    /// So many are answered, or void.
    pub(super) fn over(&mut self, uid: u32, count: u32) {
        if let Some(waiting) = self.0.get_mut(&uid) {
            *waiting = waiting.saturating_sub(count);
            if *waiting == 0 {
                self.0.remove(&uid);
            }
        }
    }

    /// Whether the user has more than may wait, and a client with so many of them more than a few.
    pub(super) fn are_too_many(&self, uid: u32, of_client: u32) -> bool {
        of_client > FEW && self.0.get(&uid).is_some_and(|waiting| *waiting > MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_is_counted_alone() {
        let mut unanswered = Unanswered::default();
        unanswered.taken(1, MOST);
        assert!(!unanswered.are_too_many(1, 9));
        unanswered.taken(1, 1);
        unanswered.taken(2, 7);
        assert!(unanswered.are_too_many(1, 9) && !unanswered.are_too_many(2, 9));
        assert!(!unanswered.are_too_many(1, FEW));
        unanswered.over(1, 1);
        unanswered.over(2, 9);
        assert!(!unanswered.are_too_many(1, 9));
        assert_eq!(unanswered.0.len(), 1);
    }
}
