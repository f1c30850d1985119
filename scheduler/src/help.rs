//! Help for one program on a GPU: the others are held for a part of the time.

use std::time::Duration;

use crate::client::ClientId;

/// The time in which others are held once for who is helped: what they have in flight takes the first
/// milliseconds of each hold, and no hold is to last longer than clients let it.
const PERIOD: Duration = Duration::from_millis(60);
/// The part of the time for which others may be held: as much as clients let themselves be held for (rate of
/// `core::pace`'s budget).
pub const MAX_PART: f64 = 0.4;

/// Who is helped, and how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Help {
    /// The client that the others are held for.
    pub whom: ClientId,
    /// The part of the time for which they are.
    part: f64,
    began: Duration,
}

impl Help {
    /// Others are held for this part of the time from now on, of [`MAX_PART`] at most.
    pub fn new(whom: ClientId, part: f64, now: Duration) -> Help {
        Help {
            whom,
            part: part.min(MAX_PART),
            began: now,
        }
    }

    /// Whether a program's launches are held now.
    pub fn holds(&self, client: ClientId, now: Duration) -> bool {
        client != self.whom && self.phase(now) < PERIOD.mul_f64(self.part)
    }

    /// How long until it changes whether others are held.
    pub fn until_turn(&self, now: Duration) -> Duration {
        let phase = self.phase(now);
        let end = PERIOD.mul_f64(self.part);
        let next = if phase < end { end } else { PERIOD };
        next - phase + Duration::from_micros(10)
    }

    /// Where in a period the moment lies.
    fn phase(&self, now: Duration) -> Duration {
        let nanoseconds = now.saturating_sub(self.began).as_nanos() % PERIOD.as_nanos();
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_held_for_their_part_of_each_period() {
        let help = Help::new(1, 0.9, Duration::from_secs(3));
        let (mut now, mut held) = (Duration::from_secs(3), Duration::ZERO);
        while now < Duration::from_secs(13) {
            let next = help.until_turn(now);
            assert!(!help.holds(1, now));
            held += if help.holds(2, now) { next } else { Duration::ZERO };
            now += next;
        }
        let part = held.as_secs_f64() / 10.0;
        assert!((MAX_PART - 0.01..MAX_PART + 0.01).contains(&part), "{part}");
    }
}
