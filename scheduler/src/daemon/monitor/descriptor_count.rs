//! How many more descriptors may be open than clients account for, and when that is said.

use std::time::Duration;

use crate::daemon::deferred_close;

/// So many more than are accounted for are worth a line.
const MAX_EXCESS: usize = 256;
/// The part of all descriptors that may wait to be closed: one in so many.
const UNCLOSED_PART: usize = 4;

/// The count of descriptors.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// As many as there may be.
    pub(crate) limit: usize,
    /// When they are counted next.
    pub(crate) due: Duration,
    /// The excess that was last told of; 0: there is none.
    said: usize,
}

impl Descriptors {
    pub(crate) fn new(limit: usize) -> Descriptors {
        Descriptors {
            limit,
            due: Duration::ZERO,
            said: 0,
        }
    }

    /// Whether so many wait to be closed that none of the user's may come: for those the kernel might find no
    /// number, and close them in the loop. Users who have none there come last.
    pub(crate) fn are_scarce(&self, uid: u32) -> bool {
        let (unclosed, part) = (deferred_close::unclosed(), self.limit / UNCLOSED_PART);
        unclosed >= 2 * part || unclosed >= part && deferred_close::unclosed_of(uid) > 0
    }

    /// What is to be said of an excess: it has doubled (true), or is over.
    pub(crate) fn is_news(&mut self, excess: usize) -> Option<bool> {
        if excess > MAX_EXCESS && excess >= 2 * self.said {
            self.said = excess;
            return Some(true);
        }
        let is_over = self.said > 0 && excess <= MAX_EXCESS / 2;
        is_over.then(|| {
            self.said = 0;
            false
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_doubling_is_said_once_and_the_end_of_it() {
        let mut descriptors = Descriptors::new(1 << 16);
        let said: Vec<Option<bool>> = [0, 200, 257, 300, 513, 514, 1000, 1028, 400, 128, 100, 300]
            .map(|excess| descriptors.is_news(excess))
            .into();
        let (up, down) = (Some(true), Some(false));
        assert_eq!(
            said,
            [None, None, up, None, None, up, None, up, None, down, None, up]
        );
    }
}
