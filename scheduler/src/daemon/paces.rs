//! The latency programs there are, and what batch programs were told because of them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use mgb_interface::Queue;

use crate::client::ClientId;
use crate::daemon::config::Config;
use crate::fair::{FairPace, Member, Shares};
use crate::pace::{LatencyProgram, Paced, Pacing, RENEWAL_INTERVAL};

/// How often it is looked whether batch programs have work side by side.
const LOOK_INTERVAL: Duration = Duration::from_millis(150);
/// A program that had work so lately has work: it may be between two kernels as it is looked at.
const BUSY_TIME: Duration = Duration::from_millis(500);

/// What batch programs are told, and by whom it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    pacing: Pacing,
    /// Clients that say that they are latency programs.
    latency: BTreeSet<ClientId>,
    told: Paced,
    /// When it was told anew.
    renewed: Duration,
    /// When to look again.
    due: Option<Duration>,
    /// Whom of the batch programs others are held for; `None`: they are left to MPS.
    shares: Option<Shares>,
    /// When batch programs were seen to have work last, and on which GPU.
    busy: BTreeMap<ClientId, (u32, Duration)>,
    /// When that is looked at next.
    look_at: Duration,
    /// For tests: how often holds change at random, what they are, and since when.
    shakes: Option<Duration>,
    shaken: (u64, Duration),
}

impl Paces {
    /// Nobody is told anything yet.
    pub(crate) fn new(config: &Config) -> Paces {
        let by_laxity = config.queue == Queue::Laxity;
        Paces {
            shares: (config.fair || by_laxity).then(|| Shares::new(config.fair)),
            shakes: config.shakes,
            ..Paces::default()
        }
    }

    /// What is told beside what latency programs ask for, and in how long that changes.
    fn shake(&mut self, every: Duration, now: Duration) -> (Paced, Duration) {
        if now.saturating_sub(self.shaken.1) >= every {
            self.shaken = (RandomState::new().build_hasher().finish(), now);
        }
        let paced = Paced {
            holds: self.shaken.0,
            bounds: u64::MAX,
        };
        (paced, every.min(RENEWAL_INTERVAL))
    }

    /// A client has come that says that it is a latency program.
    pub(crate) fn arrive(&mut self, client: ClientId) {
        self.latency.insert(client);
    }

    /// Clients that say, or have said while they were there, that they are latency programs.
    pub(crate) fn say_latency(&self) -> impl Iterator<Item = ClientId> {
        self.latency.iter().copied()
    }

    /// Whether there is none, nobody was told otherwise, and it is too early to look at shares.
    pub(crate) fn are_none(&self, now: Duration) -> bool {
        let looks = self.shares.is_some() && now >= self.look_at;
        self.latency.is_empty() && self.told == Paced::default() && self.shakes.is_none() && !looks
    }

    /// Looks at batch programs on their GPUs, each with whether it has work there now.
    pub(crate) fn share(&mut self, batch: impl Iterator<Item = (Member, bool)>, now: Duration) {
        let Some(shares) = self.shares.as_mut().filter(|_| now >= self.look_at) else {
            return;
        };
        let mut members = Vec::new();
        let mut busy = BTreeMap::new();
        for (one, has_work) in batch {
            let before = self.busy.get(&one.client).copied();
            let seen = has_work.then_some((one.gpu, now)).or(before);
            if let Some((gpu, at)) = seen.filter(|(_, at)| now.saturating_sub(*at) < BUSY_TIME) {
                busy.insert(one.client, (gpu, at));
                members.push(Member { gpu, ..one });
            }
        }
        self.busy = busy;
        let due = shares.step(&members, now);
        // Who is held is told so anew before its own bound on what it was told last.
        self.look_at = now + due.map_or(LOOK_INTERVAL, |due| due.min(RENEWAL_INTERVAL));
    }

    /// What a batch program with a context on this GPU alone is told: what all are, and what its share asks
    /// for.
    pub(crate) fn of(&self, client: ClientId, gpu: u32, paced: Paced, now: Duration) -> Paced {
        let shares = self.shares.as_ref().filter(|_| self.busy.contains_key(&client));
        let own = shares.map_or_else(FairPace::default, |shares| shares.pace(gpu, client, now));
        let bit = 1u64.checked_shl(gpu).unwrap_or(0);
        Paced {
            holds: paced.holds | if own.held { bit } else { 0 },
            bounds: paced.bounds | if own.bounded { bit } else { 0 },
        }
    }

    /// Whether launches on the GPU are held because a latency program has work there.
    pub(crate) fn is_held_for_latency(&self, gpu: u32) -> bool {
        self.told.holds & 1u64.checked_shl(gpu).unwrap_or(0) != 0
    }

    /// The part of what it does alone that a program was seen to do beside others.
    pub(crate) fn speed_of(&self, client: ClientId) -> Option<f64> {
        let (gpu, _) = self.busy.get(&client)?;
        self.shares.as_ref()?.speed(*gpu, client)
    }

    /// Those of the latency programs that are there still.
    pub(crate) fn latency(&mut self, is_there: impl Fn(ClientId) -> bool) -> impl Iterator<Item = ClientId> {
        self.latency.retain(|client| is_there(*client));
        self.latency.iter().copied()
    }

    /// What batch programs are to be told now, and whether they are to be told anew what stays as it was.
    pub(crate) fn step(&mut self, programs: &[LatencyProgram], now: Duration) -> (Paced, bool) {
        let (mut paced, mut next) = self.pacing.step(programs, now);
        if let Some(every) = self.shakes {
            let (shaken, due) = self.shake(every, now);
            (paced, next) = (shaken, Some(due));
        }
        self.due = next.map(|next| now + next);
        self.told = paced;
        let anew = now.saturating_sub(self.renewed) >= RENEWAL_INTERVAL;
        if anew {
            self.renewed = now;
        }
        (paced, anew)
    }

    /// How long until the next look; `None`: until something happens.
    pub(crate) fn due_in(&self, now: Duration) -> Option<Duration> {
        let shares = self.shares.as_ref().filter(|shares| shares.are_any());
        let looks = shares.map(|_| self.look_at);
        let due = [self.due, looks].into_iter().flatten().min();
        due.map(|due| due.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_left::TimeLeft;

    /// A client goes on by itself after `core::pace::HOLD_TIMEOUT`, 20 ms, if it is told nothing anew;
    /// holds for a deadline are longer.
    #[test]
    fn holds_for_a_deadline_are_told_anew_until_they_end() {
        let (ms, gpu) = (Duration::from_millis, 0);
        let config = Config {
            queue: Queue::Laxity,
            ..Config::new("/nowhere".into())
        };
        let mut paces = Paces::new(&config);
        let member = |client, time_left| Member {
            client,
            gpu,
            launched: 0,
            time_left,
        };
        let late = TimeLeft {
            until_deadline: ms(1000),
            remaining: ms(1000),
        };
        let (mut now, mut told, mut longest) = (ms(1000), None, Duration::ZERO);
        while now < ms(1060) {
            let batch = [(member(1, Some(late)), true), (member(2, None), true)];
            let (paced, anew) = paces.step(&[], now);
            paces.share(batch.into_iter(), now);
            let is_held = paces.of(2, gpu, paced, now).holds != 0;
            told = match told {
                Some(at) if is_held && !anew => Some(at),
                _ => is_held.then_some(now),
            };
            now += paces.due_in(now).expect("somebody is held");
            longest = longest.max(told.map_or(Duration::ZERO, |at| now - at));
        }
        assert!(!longest.is_zero() && longest < ms(20), "{longest:?}");
    }
}
