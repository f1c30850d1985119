//! The limiter: a bucket of tokens for each key, and a bound on the keys.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

/// How the tokens of a bucket come back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refill {
    /// One after each of these intervals.
    Each(Duration),
    /// All of them, with the first call after a window of this length, which begins the next window.
    Window(Duration),
    /// Those that [`Limiter::give_back`] returns: it is bounded how many are out at once.
    Returned,
}

/// What a limiter allows to each key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// Tokens of a full bucket.
    pub(crate) capacity: u32,
    /// How the tokens of a bucket come back.
    pub(crate) refill: Refill,
    /// Keys that have buckets of their own at once. Those beyond share one bucket: who comes under many keys
    /// takes nothing from others' buckets, and gets no more than one key would. With [`Refill::Returned`] the
    /// tokens that are out bound the keys.
    pub(crate) max_keys: usize,
}

/// The tokens of one key.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Tokens that are out. More than all of them where they were charged.
    used: u32,
    /// The last refill, or the begin of the window.
    since: Duration,
    /// How often it was found empty since a token was taken.
    refused: u32,
}

impl Bucket {
    fn new(now: Duration) -> Bucket {
        Bucket {
            used: 0,
            since: now,
            refused: 0,
        }
    }

    /// Puts in what came back until now.
    fn refill(&mut self, refill: Refill, now: Duration) {
        let passed = now.saturating_sub(self.since);
        let back = match refill {
            Refill::Each(interval) => {
                u32::try_from(passed.as_nanos() / interval.as_nanos()).unwrap_or(u32::MAX)
            }
            Refill::Window(length) if passed >= length => u32::MAX,
            Refill::Window(_) | Refill::Returned => 0,
        };
        if back > 0 {
            self.used = self.used.saturating_sub(back);
            self.since = now;
        }
    }

    /// Whether it says the same as a new one would.
    fn is_as_new(&self) -> bool {
        self.used == 0 && self.refused == 0
    }
}

/// A bucket of tokens for each key.
#[derive(Debug)]
pub(crate) struct Limiter<K> {
    limit: Limit,
    buckets: BTreeMap<K, Bucket>,
    /// The bucket of the keys that have none of their own.
    shared: Bucket,
    /// When buckets that are full again were last dropped.
    swept: Duration,
}

impl<K: Ord + Copy> Limiter<K> {
    /// A limiter whose buckets are full.
    pub(crate) fn new(limit: Limit) -> Limiter<K> {
        Limiter {
            limit,
            buckets: BTreeMap::new(),
            shared: Bucket::new(Duration::ZERO),
            swept: Duration::ZERO,
        }
    }

    /// Takes a token of the key, and says how often there was none since the last one. `None`: there is none.
    pub(crate) fn take(&mut self, key: K, now: Duration) -> Option<u32> {
        let Limit { capacity, refill, .. } = self.limit;
        let bucket = self.bucket(key, now);
        bucket.refill(refill, now);
        if bucket.used >= capacity {
            bucket.refused = bucket.refused.saturating_add(1);
            return None;
        }
        bucket.used += 1;
        Some(std::mem::take(&mut bucket.refused))
    }

    /// Takes so many tokens of the key, also where there are fewer.
    pub(crate) fn charge(&mut self, key: K, count: u32, now: Duration) {
        if count > 0 {
            let bucket = self.bucket(key, now);
            bucket.used = bucket.used.saturating_add(count);
        }
    }

    /// Gives tokens of the key back. Those of a key without a bucket were given back before.
    pub(crate) fn give_back(&mut self, key: K, count: u32) {
        if let Entry::Occupied(mut bucket) = self.buckets.entry(key) {
            let used = bucket.get().used.saturating_sub(count);
            bucket.get_mut().used = used;
            if used == 0 {
                bucket.remove();
            }
        }
    }

    /// Whether more tokens of the key are out than it has.
    pub(crate) fn is_exceeded(&self, key: K) -> bool {
        self.buckets
            .get(&key)
            .is_some_and(|bucket| bucket.used > self.limit.capacity)
    }

    /// How many keys have buckets.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.buckets.len()
    }

    fn bucket(&mut self, key: K, now: Duration) -> &mut Bucket {
        let is_bounded = !matches!(self.limit.refill, Refill::Returned);
        if is_bounded && self.buckets.len() >= self.limit.max_keys && !self.buckets.contains_key(&key) {
            self.sweep(now);
            if self.buckets.len() >= self.limit.max_keys {
                return &mut self.shared;
            }
        }
        self.buckets.entry(key).or_insert_with(|| Bucket::new(now))
    }

    /// Drops the buckets that are full again. All of them are looked at, so that this is done once in the time
    /// in which an empty one fills.
    fn sweep(&mut self, now: Duration) {
        let Limit { capacity, refill, .. } = self.limit;
        let fills_in = match refill {
            Refill::Each(interval) => interval * capacity,
            Refill::Window(length) => length,
            Refill::Returned => return,
        };
        if now.saturating_sub(self.swept) < fills_in {
            return;
        }
        self.swept = now;
        self.buckets.retain(|_, bucket| {
            let mut full = *bucket;
            full.refill(refill, now);
            // What was left out is to be said still, where it was in the last window.
            let is_old = now.saturating_sub(bucket.since) >= 2 * fills_in;
            !(full.is_as_new() || full.used == 0 && is_old)
        });
    }
}

#[cfg(test)]
mod tests;
