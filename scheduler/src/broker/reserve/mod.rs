//! What is reserved for requests that wait: room that others make for a process, GPUs where room gathers, and the first
//! request that only expectations keep from beginning.

mod claims;
mod gathers;

use std::time::Duration;

use crate::ledger::TaskKey;

pub(super) use claims::Claims;
#[cfg(test)]
use gathers::MAX_PAUSE_TIMEOUT;
pub(super) use gathers::{Gather, Gathers, Progress};

/// What is reserved for requests that wait.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    pub(super) claims: Claims,
    pub(super) gathers: Gathers,
    /// The first task that only expectations keep from beginning, and since when it is that.
    kept_out: Option<(TaskKey, Duration)>,
}

impl Reserve {
    /// Since when this task is the first that only expectations keep from beginning.
    pub(super) fn kept_out_since(&mut self, key: TaskKey, now: Duration) -> Duration {
        let since = match self.kept_out {
            Some((first, since)) if first == key => since,
            _ => now,
        };
        self.kept_out = Some((key, since));
        since
    }

    /// No task is kept from beginning by expectations alone.
    pub(super) fn none_is_kept_out(&mut self) {
        self.kept_out = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu_set::GpuSet;

    const AT: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_task_is_kept_out_since_it_became_the_first() {
        let key = |task| TaskKey { client: 1, task };
        let mut reserve = Reserve::default();
        assert_eq!(reserve.kept_out_since(key(1), AT(1)), AT(1));
        assert_eq!(reserve.kept_out_since(key(1), AT(3)), AT(1));
        assert_eq!(reserve.kept_out_since(key(2), AT(4)), AT(4));
        reserve.none_is_kept_out();
        assert_eq!(reserve.kept_out_since(key(2), AT(5)), AT(5));
    }

    #[test]
    fn a_claim_keeps_out_those_that_make_room() {
        let mut claims = Claims::default();
        claims.add(0, 2, 3);
        assert!(!claims.keep_out(2, 0) && claims.keep_out(3, 0) && !claims.keep_out(3, 1));
        assert!(!claims.on(0).unwrap().over_elders);
        claims.add(0, 2, 1);
        assert!(claims.on(0).unwrap().over_elders, "an elder makes room too");
        claims.retain(|_, claim| claim.client != 2);
        assert!(claims.is_empty());
    }

    #[test]
    fn a_gpu_that_is_given_up_again_and_again_is_paused_for_longer_each_time() {
        let mut gathers = Gathers::default();
        gathers.give_up(7, 1, AT(10), AT(0));
        assert!(
            gathers.are_given_up(7, GpuSet::of(1), AT(9)) && !gathers.are_given_up(8, GpuSet::of(1), AT(9))
        );
        assert!(
            !gathers.are_given_up(7, GpuSet::first_of(2), AT(9)),
            "not all of them"
        );
        assert!(!gathers.are_given_up(7, GpuSet::of(1), AT(10)));
        gathers.give_up(7, 1, AT(10), AT(10));
        assert_eq!(gathers.last_pause(7, 1), Some(AT(20)));
        gathers.forget_old(AT(30) + MAX_PAUSE_TIMEOUT + AT(1));
        assert_eq!(gathers.last_pause(7, 1), None);
    }

    #[test]
    fn newcomers_may_begin_where_nothing_leaves_for_those_that_grow() {
        let mut gathers = Gathers::default();
        let watch = |gathers: &mut Gathers, there, now| {
            gathers.watch_growths(0, there, 10, false, AT(60), AT(now));
            gathers.is_open(0, AT(now))
        };
        assert!(!watch(&mut gathers, 100, 0));
        assert!(!watch(&mut gathers, 110, 50), "something left");
        assert!(!watch(&mut gathers, 110, 109));
        assert!(watch(&mut gathers, 110, 110), "nothing has left for a minute");
        assert!(watch(&mut gathers, 110, 169) && !watch(&mut gathers, 110, 170));
        gathers.forget_growths(GpuSet::EMPTY, AT(5), AT(171));
        gathers.forget_growths(GpuSet::EMPTY, AT(5), AT(176));
        assert!(!watch(&mut gathers, 0, 1000), "that is another wait");
    }
}
