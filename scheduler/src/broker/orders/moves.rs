//! Tasks that have moved, or are to: what people want to move, and between which GPUs there is work to be evened out.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::balance::{self, GpuLoad, Move, Mover, SETTLED};
use crate::client::ClientId;
use crate::ledger::TaskKey;

/// For how long a person's wish is tried.
const WISH_TIMEOUT: Duration = Duration::from_secs(5);

/// A person wants a task to move to another GPU.
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct Wish {
    /// The task that is to move.
    pub(in crate::broker) key: TaskKey,
    /// The GPU that it is to move to.
    pub(in crate::broker) to: usize,
    since: Duration,
}

impl Wish {
    /// Whether it is not tried any more.
    pub(in crate::broker) fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) > WISH_TIMEOUT
    }
}

/// How often a task has moved, and when last.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::broker) struct Moved {
    /// How often the task has moved.
    pub(in crate::broker) times: u32,
    /// When the task moved last.
    pub(in crate::broker) last: Duration,
}

/// Tasks that have moved, or are to.
#[derive(Debug, Default)]
pub(in crate::broker) struct Moves {
    moved: BTreeMap<TaskKey, Moved>,
    /// What people want to move, and was not ordered yet.
    wishes: Vec<Wish>,
    /// What people want to move, and was ordered.
    ordered: Vec<Wish>,
    /// Between which GPUs there is work to be evened out, and since when.
    uneven: Option<(usize, usize, Duration)>,
    /// When a task is moved at random next.
    shuffle_at: Duration,
}

impl Moves {
    /// How often the task has moved, and when last.
    pub(in crate::broker) fn of(&self, key: TaskKey) -> Moved {
        self.moved.get(&key).copied().unwrap_or_default()
    }

    /// A task has moved.
    pub(in crate::broker) fn count(&mut self, key: TaskKey, now: Duration) {
        self.ordered.retain(|wish| wish.key != key);
        let moved = self.moved.entry(key).or_default();
        moved.times += 1;
        moved.last = now;
    }

    /// The task is over: it moves no more.
    pub(in crate::broker) fn forget(&mut self, key: TaskKey) {
        self.moved.remove(&key);
        self.ordered.retain(|wish| wish.key != key);
    }

    /// Forgets the tasks that do not stay.
    pub(in crate::broker) fn retain(&mut self, stays: impl Fn(&TaskKey) -> bool) {
        self.moved.retain(|key, _| stays(key));
    }

    /// A person wants these tasks of a client to move, and none of its others.
    pub(in crate::broker) fn wish(&mut self, client: ClientId, keys: Vec<TaskKey>, to: usize, now: Duration) {
        for wishes in [&mut self.wishes, &mut self.ordered] {
            wishes.retain(|wish| wish.key.client != client);
        }
        let wishes = keys.into_iter().map(|key| Wish { key, to, since: now });
        self.wishes.extend(wishes);
    }

    /// Whether a person wants anything to move that was not ordered yet.
    pub(in crate::broker) fn has_wishes(&self) -> bool {
        !self.wishes.is_empty()
    }

    /// What people want to move, to be ordered now.
    pub(in crate::broker) fn take_wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// A wish cannot be ordered yet.
    pub(in crate::broker) fn keep_wish(&mut self, wish: Wish) {
        self.wishes.push(wish);
    }

    /// A wish was ordered.
    pub(in crate::broker) fn ordered(&mut self, wish: Wish) {
        self.ordered.push(wish);
    }

    /// The task has not moved as it was ordered to. What a person wants is tried again, as soon as its client may be
    /// given another order.
    pub(in crate::broker) fn failed(&mut self, key: TaskKey) {
        let failed = self.ordered.extract_if(.., |wish| wish.key == key);
        self.wishes.extend(failed);
    }

    /// Any move that is possible, if it is time for one.
    pub(in crate::broker) fn shuffled(
        &mut self,
        movers: &[Mover],
        places: &[GpuLoad],
        every: Duration,
        now: Duration,
    ) -> Option<Move> {
        if now < self.shuffle_at {
            return None;
        }
        self.shuffle_at = now + every;
        // The time is as good as a random number.
        let (first, rest) = movers.split_at(now.subsec_nanos() as usize / 1000 % movers.len());
        let goal = |mover: &Mover| Some(mover.goes(balance::goals(mover, places).last()?, true));
        rest.iter().chain(first).find_map(goal)
    }

    /// Whether the move that was chosen is to be ordered: some request waits for it, or it has been the one to even
    /// the work out for long enough.
    pub(in crate::broker) fn has_settled(&mut self, chosen: Option<&Move>, now: Duration) -> bool {
        let uneven = self.uneven.take();
        let Some(chosen) = chosen else {
            return false;
        };
        let since = uneven.filter(|uneven| (uneven.0, uneven.1) == (chosen.from, chosen.to));
        let since = since.map_or(now, |(_, _, since)| since);
        let has_settled = chosen.is_wanted || now.saturating_sub(since) >= SETTLED;
        if !has_settled {
            self.uneven = Some((chosen.from, chosen.to, since));
        }
        has_settled
    }
}
