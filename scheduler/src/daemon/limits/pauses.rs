//! What is not heard until later.

use std::collections::BTreeMap;
use std::time::Duration;

/// The keys that are paused, each with the end of its pause.
#[derive(Debug)]
pub(crate) struct Pauses<K>(BTreeMap<K, Duration>);

impl<K> Default for Pauses<K> {
    fn default() -> Pauses<K> {
        Pauses(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Pauses<K> {
    /// How long until the next pause ends.
    pub(crate) fn end_in(&self, now: Duration) -> Option<Duration> {
        Some(self.0.values().min()?.saturating_sub(now))
    }

    /// Pauses the key until then.
    pub(crate) fn begin(&mut self, key: K, until: Duration) {
        self.0.insert(key, until);
    }

    /// Ends the pauses that are over: their keys.
    pub(crate) fn end(&mut self, now: Duration) -> Vec<K> {
        let over: Vec<K> = self
            .0
            .iter()
            .filter(|(_, until)| now >= **until)
            .map(|(key, _)| *key)
            .collect();
        for key in &over {
            self.0.remove(key);
        }
        over
    }

    /// Forgets a key that is gone.
    pub(crate) fn forget(&mut self, key: K) {
        self.0.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_once_and_what_is_gone_is_forgotten() {
        let at = Duration::from_millis;
        let mut pauses = Pauses::default();
        assert_eq!(pauses.end_in(at(0)), None);
        for key in 1..=3 {
            pauses.begin(key, at(10 * key));
        }
        pauses.forget(2);
        assert_eq!(pauses.end_in(at(4)), Some(at(6)));
        assert!(pauses.end(at(9)).is_empty());
        assert_eq!(pauses.end(at(10)), [1]);
        assert_eq!(pauses.end(at(99)), [3]);
        assert_eq!(pauses.end_in(at(99)), None);
    }
}
