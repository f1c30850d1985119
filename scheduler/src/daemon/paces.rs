//! The latency programs there are, and what batch programs were told because of them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use crate::client::ClientId;
use crate::fair::{Member, Shares};
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
    /// Shares among batch programs; `None`: they are left to MPS.
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
    /// None yet. `fair`: batch programs are helped to their shares. `shakes`: for tests, batch programs are
    /// held on GPUs that change at random so often.
    pub(crate) fn new(fair: bool, shakes: Option<Duration>) -> Paces {
        Paces {
            shares: fair.then(Shares::default),
            shakes,
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

    /// Whether there is a latency program.
    pub(crate) fn has_latency(&self) -> bool {
        !self.latency.is_empty()
    }

    /// The latency programs that there were when somebody last looked.
    pub(crate) fn latency_clients(&self) -> impl Iterator<Item = ClientId> {
        self.latency.iter().copied()
    }

    /// Whether there is none, nobody was told otherwise, and it is too early to look at shares.
    pub(crate) fn are_none(&self, now: Duration) -> bool {
        let looks = self.shares.is_some() && now >= self.look_at;
        self.latency.is_empty() && self.told == Paced::default() && self.shakes.is_none() && !looks
    }

    /// Looks at the shares of batch programs: each one's GPU, whether it has work there, and its launches.
    pub(crate) fn share(&mut self, batch: impl Iterator<Item = (ClientId, u32, bool, u64)>, now: Duration) {
        let Some(shares) = self.shares.as_mut().filter(|_| now >= self.look_at) else {
            return;
        };
        let mut members = Vec::new();
        let mut busy = BTreeMap::new();
        for (client, gpu, has_work, launched) in batch {
            let before = self.busy.get(&client).copied();
            let seen = has_work.then_some((gpu, now)).or(before);
            if let Some((gpu, at)) = seen.filter(|(_, at)| now.saturating_sub(*at) < BUSY_TIME) {
                busy.insert(client, (gpu, at));
                members.push(Member {
                    client,
                    gpu,
                    launched,
                });
            }
        }
        self.busy = busy;
        let due = shares.step(&members, now);
        self.look_at = now + due.unwrap_or(LOOK_INTERVAL);
    }

    /// What a batch program on this GPU is told: what all are, and what its share asks for.
    pub(crate) fn of(&self, client: ClientId, paced: Paced, now: Duration) -> Paced {
        let Some((shares, (gpu, _))) = self.shares.as_ref().zip(self.busy.get(&client)) else {
            return paced;
        };
        let own = shares.pace(*gpu, client, now);
        let bit = 1u64.checked_shl(*gpu).unwrap_or(0);
        Paced {
            holds: paced.holds | if own.held { bit } else { 0 },
            bounds: paced.bounds | if own.bounded { bit } else { 0 },
        }
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
