//! How busy processes have been lately, from the words in which they say whether
//! work of theirs may be under way.
//!
//! A look is a sample. Each sample counts for the time since the one before it,
//! and what lies further back counts less and less ([`MEMORY`]), so that a
//! program that launches in bursts keeps a steady load. A process that has just
//! come to a GPU counts as busy: it copies first, and others must not take its
//! place meanwhile for a free one. A process that says how large its launches are
//! counts for as much of the GPU as the largest of them fills.
//!
//! From the same samples: for how long a process has had no work on a GPU, how long such phases of its last,
//! how much of the GPU it fills in the long run, and how often and for how long at a time it has had work. An
//! idle phase ends where the process asks for memory that has left: that it waits then for room is not of its
//! own making. Where nobody waits, samples are rare, and what happens between two of them counts for
//! [`MAX_GAP`] at most.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Ledger;
use crate::broker::{Activity, Broker, WHOLE};
use crate::client::ClientId;
use crate::daemon::client::Client;
use crate::ledger::Holding;

/// The time in which what was seen comes to count a third.
const MEMORY: Duration = Duration::from_millis(500);

/// Shorter idle phases are none: the process was between two launches.
const SHORTEST_PHASE: Duration = Duration::from_millis(50);

/// Idle phases of a process that are remembered: of one that works in steps of some seconds, a few of those
/// between its kernels and two of its long ones.
const KNOWN_PHASES: usize = 12;

/// Of the time between two samples without work no more counts as idle: there may have been some between.
const MAX_GAP: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug)]
struct Lately {
    part: f64,
    seen: Duration,
    /// For how long it has had no work.
    idle: Option<Duration>,
    /// That idle phase has ended: it waits for memory that has left.
    asks: bool,
    /// How long its last idle phases were, the last one first.
    phases: [Option<Duration>; KNOWN_PHASES],
    /// When the last of them ended: since then it is at work, but for phases too short to count.
    resumed: Duration,
    /// How long such spells of work last: the mean of the last one and the mean before.
    spell: Option<Duration>,
    /// Since when it has had work.
    work: Option<Duration>,
    /// How long its times of work last: the mean of the last one and the mean before.
    lasted: Option<Duration>,
    /// How many there were.
    uses: u64,
}

/// What one sees of a process on a GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenWork {
    /// Work of its may be under way.
    pub(crate) is_busy: bool,
    /// Warps of the largest kernel that it says it has launched; 0: it does not say.
    pub(crate) warps: u64,
}

/// How busy each process has been on each GPU lately.
#[derive(Debug, Default)]
pub(crate) struct Activities {
    lately: BTreeMap<(ClientId, usize), Lately>,
}

impl Activities {
    /// Samples all processes with a running task or memory; returns how busy they have been.
    pub(crate) fn sample(
        &mut self,
        broker: &Broker,
        clients: &BTreeMap<ClientId, Client>,
        now: Duration,
    ) -> Vec<Activity> {
        let gpus = broker.ledger().gpus().len();
        let see = |id, gpu| {
            let client = clients.get(&id);
            SeenWork {
                is_busy: client.is_none_or(|client| !client.publishes(gpu) || client.is_busy(gpu)),
                warps: client.map_or(0, |client| launched(client, gpu, gpus)),
            }
        };
        self.sample_by(broker, see, now)
    }

    /// The same by what this sees of a client on a GPU.
    pub(crate) fn sample_by(
        &mut self,
        broker: &Broker,
        see: impl Fn(ClientId, usize) -> SeenWork,
        now: Duration,
    ) -> Vec<Activity> {
        let ledger = broker.ledger();
        let (places, growing) = (places(ledger), broker.growing_at());
        let there =
            |place: &(ClientId, usize)| places.binary_search_by_key(place, |(place, _)| *place).is_ok();
        // What is known of a process that has moved goes with it.
        for (place, _) in &places {
            if self.lately.contains_key(place) {
                continue;
            }
            let own = self.lately.range((place.0, 0)..=(place.0, usize::MAX));
            let left = own.map(|(place, _)| *place).find(|place| !there(place));
            if let Some(lately) = left.and_then(|left| self.lately.remove(&left)) {
                self.lately.insert(*place, lately);
            }
        }
        self.lately.retain(|place, _| there(place));
        let sample = |((client, gpu), held): ((ClientId, usize), HeldPlace)| {
            let mut seen = see(client, gpu);
            seen.is_busy &= !held.has_left;
            let granted = held.granted;
            let lately = self
                .lately
                .entry((client, gpu))
                .or_insert_with(|| Lately::new(now));
            lately.note_phase(seen.is_busy, growing.contains(&(client, gpu)), now);
            lately.take(seen.is_busy, granted, now);
            lately.note_work(seen.is_busy, now);
            let fills = if now < granted + MEMORY {
                1.0
            } else {
                fills(seen.warps, warps(ledger, gpu))
            };
            Activity {
                client,
                gpu,
                part: (lately.part * fills * f64::from(WHOLE)) as u32,
                busy: (lately.part * f64::from(WHOLE)) as u32,
                average: (lately.average().unwrap_or(lately.part) * fills * f64::from(WHOLE)) as u32,
                idle: lately.idle,
                phase: lately.this_phase(),
                lasts: lately.lasts(now),
                uses: lately.uses,
                warps: seen.warps,
            }
        };
        places.into_iter().map(sample).collect()
    }
}

/// What a process has on a GPU.
#[derive(Clone, Copy, Debug)]
struct HeldPlace {
    /// Its last grant there.
    granted: Duration,
    /// All its memory is in the host. So its work there is done, whatever it says: who made room for others
    /// and waits to come back may not have looked since.
    has_left: bool,
}

/// Where processes have a running task or memory, or had memory that is in the host, in order.
fn places(ledger: &Ledger) -> Vec<((ClientId, usize), HeldPlace)> {
    let mut places: Vec<((ClientId, usize), HeldPlace)> = Vec::new();
    let running = ledger
        .tasks()
        .filter(|(_, held)| held.warps > 0 || held.reserved > 0 || held.evicted > 0);
    let has_left = |held: &Holding| held.reserved == 0 && held.evicted > 0;
    // A client's tasks follow each other, and are on a few GPUs, however many there are.
    let mut own = 0;
    for (key, held) in running {
        if places
            .last()
            .is_some_and(|((client, _), _)| *client != key.client)
        {
            own = places.len();
        }
        match places[own..].iter_mut().find(|((_, gpu), _)| *gpu == held.gpu) {
            Some((_, place)) => {
                place.granted = held.granted.max(place.granted);
                place.has_left &= has_left(held);
            }
            None => {
                let place = HeldPlace {
                    granted: held.granted,
                    has_left: has_left(held),
                };
                places.push(((key.client, held.gpu), place));
            }
        }
    }
    places.sort_unstable_by_key(|(place, _)| *place);
    places
}

/// Warps of the largest launch of a process on the GPU; on any, where there was none on this one yet.
fn launched(client: &Client, gpu: usize, gpus: usize) -> u64 {
    match client.launched_warps(gpu) {
        0 => (0..gpus).map(|gpu| client.launched_warps(gpu)).max().unwrap_or(0),
        warps => warps,
    }
}

/// Warps that a GPU has room for.
fn warps(ledger: &Ledger, gpu: usize) -> u64 {
    ledger.gpus().get(gpu).map_or(0, |info| info.max_warps)
}

/// How much of a GPU with room for so many warps the largest launch of a process fills; all of it where the
/// process does not say.
fn fills(launched: u64, most: u64) -> f64 {
    if launched == 0 || launched >= most {
        1.0
    } else {
        launched as f64 / most as f64
    }
}

impl Lately {
    fn new(now: Duration) -> Lately {
        Lately {
            part: 1.0,
            seen: now,
            idle: None,
            asks: false,
            phases: [None; KNOWN_PHASES],
            resumed: now,
            spell: None,
            work: None,
            lasted: None,
            uses: 0,
        }
    }

    /// Before [`Lately::take`]. `asks`: it waits for more memory, or for what has left.
    fn note_phase(&mut self, busy: bool, asks: bool, now: Duration) {
        if !busy {
            let gap = now.saturating_sub(self.seen).min(MAX_GAP);
            let length = self.idle.map_or(Duration::ZERO, |before| before + gap);
            self.idle = Some(length);
            if asks && !self.asks {
                self.end_phase(length, now);
                self.asks = true;
            }
            return;
        }
        let Some(length) = self.idle.take() else { return };
        if !self.asks {
            self.end_phase(length, now);
        } else {
            // It has waited for room until now.
            self.resumed = now;
        }
        self.asks = false;
    }

    fn end_phase(&mut self, length: Duration, now: Duration) {
        if length < SHORTEST_PHASE {
            return;
        }
        self.phases.rotate_right(1);
        self.phases[0] = Some(length);
        let spell = now.saturating_sub(length).saturating_sub(self.resumed);
        self.spell = Some(self.spell.map_or(spell, |before| (before + spell) / 2));
        self.resumed = now;
    }

    /// How long its idle phases last: the shorter one of the last two, so that a long one among short ones
    /// misleads once, and not for long.
    fn phase(&self) -> Option<Duration> {
        shorter_of_two(self.phases.iter().flatten())
    }

    /// How long the idle phase that it is in lasts: as those before which were longer than it is now, such as
    /// the long ones between epochs of a program that also pauses between its steps. `None`: it has had none
    /// yet.
    fn this_phase(&self) -> Option<Duration> {
        let idle = self.idle.unwrap_or_default();
        let longer = self.phases.iter().flatten().filter(|phase| **phase > idle);
        shorter_of_two(longer).or_else(|| self.phase())
    }

    /// The part of the time in which it is at work in the long run; `None`: that is not known.
    fn average(&self) -> Option<f64> {
        let (spell, phase) = (self.spell?.as_secs_f64(), self.phase()?.as_secs_f64());
        Some(spell / (spell + phase))
    }

    fn note_work(&mut self, busy: bool, now: Duration) {
        if busy {
            if self.work.is_none() {
                self.work = Some(now);
                self.uses += 1;
            }
        } else if let Some(since) = self.work.take() {
            let length = now.saturating_sub(since);
            self.lasted = Some(self.lasted.map_or(length, |before| (before + length) / 2));
        }
    }

    /// How long its times of work last: as those before, or as long as the one under way if that is more.
    fn lasts(&self, now: Duration) -> Duration {
        let under_way = self
            .work
            .map_or(Duration::ZERO, |since| now.saturating_sub(since));
        self.lasted.unwrap_or_default().max(under_way)
    }

    fn take(&mut self, busy: bool, granted: Duration, now: Duration) {
        let since = now.saturating_sub(self.seen);
        self.seen = now;
        if granted + MEMORY > now {
            self.part = 1.0;
            return;
        }
        let old = (-since.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.part = self.part * old + if busy { 1.0 - old } else { 0.0 };
    }
}

fn shorter_of_two<'a>(mut phases: impl Iterator<Item = &'a Duration>) -> Option<Duration> {
    let last = *phases.next()?;
    Some(phases.next().map_or(last, |before| last.min(*before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn who_launches_little_counts_little() {
        assert_eq!(fills(0, 8448), 1.0, "it does not say");
        assert_eq!(fills(2112, 8448), 0.25);
        assert_eq!(fills(u64::MAX, 8448), 1.0);
        assert_eq!(fills(1, 0), 1.0);
    }

    #[test]
    fn idle_phases_are_measured() {
        let mut lately = Lately::new(at(0));
        let see = |lately: &mut Lately, busy, asks, ms| {
            lately.note_phase(busy, asks, at(ms));
            lately.seen = at(ms);
        };
        see(&mut lately, true, false, 0);
        assert_eq!((lately.idle, lately.phase()), (None, None));
        see(&mut lately, false, false, 1000);
        (1100..=1400)
            .step_by(100)
            .for_each(|ms| see(&mut lately, false, false, ms));
        assert_eq!(lately.idle, Some(at(400)));
        see(&mut lately, true, false, 1410);
        assert_eq!((lately.idle, lately.phase()), (None, Some(at(400))));
        // Between two launches.
        see(&mut lately, false, false, 1420);
        see(&mut lately, false, false, 1460);
        see(&mut lately, true, false, 1470);
        assert_eq!(lately.phase(), Some(at(400)));
        // The shorter one of two counts, and what came before them no more.
        for (begin, phase) in [(2000, 200), (3000, 200), (4000, 200)] {
            see(&mut lately, false, false, begin);
            see(&mut lately, false, false, begin + phase);
            see(&mut lately, true, false, begin + phase);
            assert_eq!(lately.phase(), Some(at(200)));
        }
        // Of what nobody has looked at, little counts.
        see(&mut lately, false, false, 10_000);
        see(&mut lately, false, false, 20_000);
        assert_eq!(lately.idle, Some(MAX_GAP));
    }

    #[test]
    fn an_idle_phase_ends_as_the_process_asks_for_what_has_left() {
        let mut lately = Lately::new(at(0));
        let see = |lately: &mut Lately, busy, asks, ms| {
            lately.note_phase(busy, asks, at(ms));
            lately.seen = at(ms);
        };
        see(&mut lately, true, false, 0);
        see(&mut lately, false, false, 600);
        see(&mut lately, false, false, 800);
        // It waits for room for ten seconds, and then works for 600 ms again.
        (800..=10_800)
            .step_by(50)
            .for_each(|ms| see(&mut lately, false, true, ms));
        assert_eq!(lately.phase(), Some(at(200)));
        see(&mut lately, false, false, 10_900);
        see(&mut lately, true, false, 11_000);
        see(&mut lately, false, false, 11_600);
        see(&mut lately, false, false, 11_800);
        see(&mut lately, true, false, 11_800);
        assert_eq!(lately.phase(), Some(at(200)));
        assert!((lately.average().unwrap() - 0.75).abs() < 0.01, "{lately:?}");
    }

    #[test]
    fn times_of_work_are_measured_and_counted() {
        let mut lately = Lately::new(at(0));
        assert_eq!((lately.lasts(at(0)), lately.uses), (at(0), 0));
        lately.note_work(true, at(100));
        lately.note_work(true, at(200));
        assert_eq!((lately.lasts(at(300)), lately.uses), (at(200), 1));
        lately.note_work(false, at(500));
        lately.note_work(false, at(900));
        assert_eq!((lately.lasts(at(900)), lately.uses), (at(400), 1));
        lately.note_work(true, at(1000));
        assert_eq!((lately.lasts(at(1100)), lately.uses), (at(400), 2));
        lately.note_work(false, at(1200));
        assert_eq!(lately.lasts(at(1200)), at(300));
    }

    #[test]
    fn it_fades_in_a_host_phase_and_comes_back_with_work() {
        let mut lately = Lately::new(at(0));
        lately.take(false, at(0), at(400));
        assert_eq!(lately.part, 1.0, "just granted");
        for ms in [600, 800, 1000, 1200, 1400] {
            lately.take(false, at(0), at(ms));
        }
        assert!((0.12..0.15).contains(&lately.part), "{}", lately.part);
        // However often one looks.
        let mut once = Lately::new(at(400));
        once.take(false, at(0), at(1400));
        assert!((once.part - lately.part).abs() < 1e-9);
        lately.take(true, at(0), at(1900));
        assert!((0.65..0.70).contains(&lately.part), "{}", lately.part);
        lately.take(false, at(1950), at(1960));
        assert_eq!(lately.part, 1.0, "a new task");
    }
}
