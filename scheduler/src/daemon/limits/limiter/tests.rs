//! The limiter by hand, and against what it promises for any calls.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const EACH: Duration = Duration::from_millis(100);

fn each(capacity: u32, max_keys: usize) -> Limiter<u32> {
    Limiter::new(Limit {
        capacity,
        refill: Refill::Each(EACH),
        max_keys,
    })
}

fn window(capacity: u32, max_keys: usize) -> Limiter<u32> {
    Limiter::new(Limit {
        capacity,
        refill: Refill::Window(EACH),
        max_keys,
    })
}

#[test]
fn many_at_once_and_then_one_after_the_other() {
    let start = Duration::from_secs(9);
    let mut limiter = each(32, 1);
    let mut taken = |now| (0..1000).filter(|_| limiter.take(1, now).is_some()).count();
    assert_eq!(taken(start), 32);
    assert_eq!(taken(start + EACH / 2), 0);
    assert_eq!(taken(start + EACH * 10), 10);
    assert_eq!(taken(start + EACH * 11 + EACH / 2), 1);
    assert_eq!(taken(start + Duration::from_secs(1 << 40)), 32);
}

#[test]
fn a_window_refills_at_once_and_counts_what_it_left_out() {
    let at = |part: u32| Duration::from_secs(100) + EACH * part / 10;
    let mut lines = window(20, 1);
    assert!((0..20).all(|_| lines.take(1, at(0)) == Some(0)));
    assert!((0..5).all(|_| lines.take(1, at(9)).is_none()));
    assert_eq!(lines.take(1, at(10)), Some(5));
    assert_eq!(lines.take(1, at(10)), Some(0));
}

#[test]
fn tokens_that_are_given_back_count_by_key() {
    let mut waiting = Limiter::new(Limit {
        capacity: 1024,
        refill: Refill::Returned,
        max_keys: usize::MAX,
    });
    let now = Duration::ZERO;
    waiting.charge(1, 1024, now);
    assert!(!waiting.is_exceeded(1));
    waiting.charge(1, 1, now);
    waiting.charge(2, 7, now);
    assert!(waiting.is_exceeded(1) && !waiting.is_exceeded(2));
    waiting.give_back(1, 1);
    waiting.give_back(2, 9);
    waiting.give_back(3, 1);
    assert!(!waiting.is_exceeded(1));
    assert_eq!(waiting.keys(), 1);
}

#[test]
fn who_comes_under_many_keys_gets_no_more_than_one_and_takes_nothing_from_others() {
    let mut limiter = each(4, 8);
    let start = Duration::from_secs(9);
    let honest = 1;
    assert!(limiter.take(honest, start).is_some());
    // Each key takes all of its bucket; those beyond the eighth have one bucket together.
    let taken = (2..1000).flat_map(|key| [key; 9]);
    let taken = taken.filter(|key| limiter.take(*key, start).is_some()).count();
    assert_eq!(taken, 7 * 4 + 4);
    assert_eq!(limiter.keys(), 8);
    assert!((0..3).all(|_| limiter.take(honest, start).is_some()));
    // Full buckets make way for new keys.
    let later = start + EACH * 8;
    assert!((0..4).all(|_| limiter.take(5000, later).is_some()));
    assert_eq!(limiter.keys(), 1);
}

#[test]
fn lines_left_out_of_a_users_last_window_are_counted_though_others_come() {
    let mut lines = window(1, 2);
    let start = Duration::from_secs(9);
    assert_eq!([lines.take(1, start), lines.take(1, start)], [Some(0), None]);
    assert_eq!(lines.take(2, start), Some(0));
    // The bucket of the second makes way, not that of the first.
    assert_eq!(lines.take(3, start + EACH), Some(0));
    assert_eq!(lines.take(1, start + EACH), Some(1));
}

/// Calls of a few keys, each some milliseconds after the one before it.
fn calls() -> impl Strategy<Value = Vec<(u32, Duration)>> {
    proptest::collection::vec((0_u32..12, 0_u64..120), 1..400).prop_map(|steps| {
        let mut now = Duration::from_secs(9);
        let call = |(key, after)| {
            now += Duration::from_millis(after);
            (key, now)
        };
        steps.into_iter().map(call).collect()
    })
}

/// When each key got its tokens.
fn granted(limiter: &mut Limiter<u32>, calls: &[(u32, Duration)]) -> BTreeMap<u32, Vec<Duration>> {
    let mut granted: BTreeMap<u32, Vec<Duration>> = BTreeMap::new();
    for (key, now) in calls {
        if limiter.take(*key, *now).is_some() {
            granted.entry(*key).or_default().push(*now);
        }
    }
    granted
}

proptest! {
    /// In any stretch of time a key gets what a full bucket has, and what comes back meanwhile.
    #[test]
    fn no_key_gets_more_than_its_limit(calls in calls(), capacity in 1_u32..6) {
        for (_, times) in granted(&mut each(capacity, 12), &calls) {
            for (at, first) in times.iter().enumerate() {
                for (more, last) in times[at..].iter().enumerate() {
                    let back = (*last - *first).as_nanos() / EACH.as_nanos() + 1;
                    prop_assert!((more as u128) < u128::from(capacity) + back);
                }
            }
        }
    }

    /// A stretch of time lies in so many windows, and the one before them.
    #[test]
    fn no_key_gets_more_than_its_windows_have(calls in calls(), capacity in 1_u32..6) {
        for (_, times) in granted(&mut window(capacity, 12), &calls) {
            for (at, first) in times.iter().enumerate() {
                for (more, last) in times[at..].iter().enumerate() {
                    let windows = (*last - *first).as_nanos() / EACH.as_nanos() + 2;
                    prop_assert!((more as u128) < u128::from(capacity) * windows);
                }
            }
        }
    }

    /// What other keys do changes nothing for a key that has a bucket.
    #[test]
    fn keys_do_not_touch_each_other(calls in calls(), key in 0_u32..12) {
        let own: Vec<_> = calls.iter().filter(|(of, _)| *of == key).copied().collect();
        let among = granted(&mut each(3, 12), &calls).remove(&key);
        prop_assert_eq!(among, granted(&mut each(3, 12), &own).remove(&key));
    }

    /// However many keys come, so many have buckets, and together they get what one more would.
    #[test]
    fn keys_are_bounded(calls in calls(), max_keys in 1_usize..4) {
        let (mut limiter, mut bounded) = (each(2, max_keys), Vec::new());
        for (key, now) in &calls {
            let had = limiter.buckets.contains_key(key);
            let got = limiter.take(*key, *now).is_some();
            prop_assert!(limiter.keys() <= max_keys);
            if got && !had && !limiter.buckets.contains_key(key) {
                bounded.push(*now);
            }
        }
        for (at, first) in bounded.iter().enumerate() {
            for (more, last) in bounded[at..].iter().enumerate() {
                let back = (*last - *first).as_nanos() / EACH.as_nanos() + 1;
                prop_assert!((more as u128) < 2 + back);
            }
        }
    }

    /// Left out and granted are all there were.
    #[test]
    fn what_was_refused_is_told_once(calls in calls()) {
        let mut lines = window(2, 12);
        let mut refused: BTreeMap<u32, u32> = BTreeMap::new();
        for (key, now) in calls {
            let since = refused.entry(key).or_default();
            match lines.take(key, now) {
                Some(left_out) => prop_assert_eq!(left_out, std::mem::take(since)),
                None => *since += 1,
            }
        }
    }
}
