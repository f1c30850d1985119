//! Turns between programs that use a whole GPU in long phases, with phases on the host between: of those
//! that have their phase at the same time the one that is over first goes first. A pure function of who has
//! work when.
//!
//! Where two such programs run in step, both want the GPU at the same time and leave it at the same time,
//! and nothing ever changes that. Held for the one that is over sooner, the other one ends its phase when
//! it would have ended it beside it, and the first one sooner, so that one's time on the host comes to lie
//! under the other's kernels. Once they are half a period apart each has the GPU for itself, and nobody
//! needs to be held any more. Of three the longest would lose what the others gain: turns are for pairs.
//! Programs whose kernels leave half of a GPU to others run beside each other, and where nobody has phases
//! on the host nothing is gained by turns.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::ClientId;

/// A program that may have work on a GPU, the only one on which it has a context.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    /// The client whose process it is.
    pub client: ClientId,
    /// The GPU, by index.
    pub gpu: u32,
    /// Whether work of its may be under way there now.
    pub has_work: bool,
    /// Whether its kernels fill half of the GPU or more.
    pub is_wide: bool,
}

/// How often it is looked who has work, where turns may be of use.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// A program that had no work for so long has ended its phase: before that it may be between two kernels.
const GAP: Duration = Duration::from_millis(10);
/// Shorter phases are over before anybody could be held for them.
const MIN_PHASE: Duration = Duration::from_millis(40);
/// Who is on the host for less than this part of the time leaves the others nothing to gain.
const MIN_HOST_PART: f64 = 0.1;
/// So many phases of a program are seen before it takes part.
const MIN_SEEN: u32 = 3;
/// The turn changes for one whose phase is over sooner by this part.
const MIN_GAIN: f64 = 0.25;
/// For so long a program is held at most in one phase: as long as clients let themselves be held at once.
const MAX_HELD: Duration = Duration::from_millis(90);

/// Where a program is in its phases.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// On the host, since then.
    Host { since: Duration },
    /// On the GPU. `done`: the time that it would have needed alone so far. `idle`: since when it has had no
    /// work, if it has none. `held`: for how long it was held in this phase.
    Gpu {
        done: Duration,
        idle: Option<Duration>,
        held: Duration,
    },
}

/// The phases of one program.
#[derive(Clone, Copy, Debug)]
struct Phases {
    stage: Stage,
    /// How long its phases last, on the GPU alone; the later weigh more.
    on_gpu: Duration,
    on_host: Duration,
    seen: u32,
    is_wide: bool,
    is_held: bool,
}

impl Phases {
    fn new(now: Duration) -> Phases {
        Phases {
            stage: Stage::Host { since: now },
            on_gpu: Duration::ZERO,
            on_host: Duration::ZERO,
            seen: 0,
            is_wide: false,
            is_held: false,
        }
    }

    /// Whether turns with others of the kind may gain something.
    fn takes_part(&self) -> bool {
        let period = (self.on_host + self.on_gpu).as_secs_f64().max(1e-9);
        self.is_wide
            && self.seen >= MIN_SEEN
            && self.on_gpu >= MIN_PHASE
            && self.on_host.as_secs_f64() / period >= MIN_HOST_PART
    }

    /// How much longer its phase takes if it has the GPU for itself; `None`: it has none, or takes no part.
    fn remaining(&self) -> Option<Duration> {
        match self.stage {
            Stage::Gpu { done, .. } if self.takes_part() => Some(self.on_gpu.saturating_sub(done)),
            _ => None,
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Gpu { .. }) && !self.is_held
    }

    /// So much time has gone by, in which it had such a part of the GPU if it was not held.
    fn pass(&mut self, time: Duration, part: f64) {
        if let Stage::Gpu { done, held, .. } = &mut self.stage {
            if self.is_held {
                *held += time;
            } else {
                *done += time.mul_f64(part);
            }
        }
    }

    /// Whether it has work now.
    fn note(&mut self, works: bool, now: Duration) {
        let seen = self.seen;
        let mean = |before: Duration, length| if seen < 2 { length } else { (before + length) / 2 };
        self.stage = match self.stage {
            Stage::Host { since } if works => {
                self.on_host = mean(self.on_host, now.saturating_sub(since));
                Stage::Gpu {
                    done: Duration::ZERO,
                    idle: None,
                    held: Duration::ZERO,
                }
            }
            host @ Stage::Host { .. } => host,
            // What is held has no work because of that.
            Stage::Gpu { done, held, .. } if works || self.is_held => Stage::Gpu {
                done,
                idle: None,
                held,
            },
            Stage::Gpu { done, idle, held } => {
                let idle = idle.unwrap_or(now);
                if now.saturating_sub(idle) < GAP {
                    Stage::Gpu {
                        done,
                        idle: Some(idle),
                        held,
                    }
                } else {
                    self.on_gpu = mean(self.on_gpu, done);
                    self.seen = self.seen.saturating_add(1);
                    Stage::Host { since: idle }
                }
            }
        };
    }

    /// Whether it may be held any longer in its phase.
    fn may_be_held(&self) -> bool {
        matches!(self.stage, Stage::Gpu { held, .. } if held < MAX_HELD)
    }
}

/// The programs on one GPU.
#[derive(Debug, Default)]
struct GpuTurns {
    programs: BTreeMap<ClientId, Phases>,
    looked: Duration,
    /// Whose turn it is.
    turn: Option<ClientId>,
}

impl GpuTurns {
    fn step(&mut self, workers: &[Worker], now: Duration) {
        self.programs
            .retain(|client, _| workers.iter().any(|one| one.client == *client));
        let running = self.programs.values().filter(|one| one.is_running()).count();
        let time = now.saturating_sub(self.looked).min(MAX_HELD);
        self.looked = now;
        for one in workers {
            let own = self.programs.entry(one.client);
            let own = own.or_insert_with(|| Phases::new(now));
            own.is_wide = one.is_wide;
            own.pass(time, 1.0 / running.max(1) as f64);
            own.note(one.has_work, now);
        }
        let remaining = |client: &ClientId| self.programs.get(client)?.remaining();
        let phases = self
            .programs
            .keys()
            .filter_map(|client| Some((remaining(client)?, *client)));
        let first = phases.min().filter(|_| self.programs.len() == 2);
        // To change whose turn it is takes time: what is under way is not called back.
        let stays = self.turn.zip(first).filter(|(turn, (least, _))| {
            remaining(turn).is_some_and(|own| own <= least.mul_f64(1.0 + MIN_GAIN))
        });
        self.turn = stays.map(|(turn, _)| turn).or(first.map(|(_, client)| client));
        for (client, own) in &mut self.programs {
            let waits = self.turn.is_some_and(|turn| turn != *client) && own.remaining().is_some();
            own.is_held = waits && own.may_be_held();
        }
    }
}

/// The turns on all GPUs.
#[derive(Debug, Default)]
pub struct Turns(BTreeMap<u32, GpuTurns>);

impl Turns {
    /// Looks at who has work; in how long to look again, where there is reason to.
    pub fn step(&mut self, workers: &[Worker], now: Duration) -> Option<Duration> {
        let mut by_gpu: BTreeMap<u32, Vec<Worker>> = BTreeMap::new();
        for one in workers {
            by_gpu.entry(one.gpu).or_default().push(*one);
        }
        by_gpu.retain(|_, workers| workers.iter().filter(|one| one.is_wide).count() > 1);
        self.0.retain(|gpu, _| by_gpu.contains_key(gpu));
        for (gpu, workers) in by_gpu {
            self.0.entry(gpu).or_default().step(&workers, now);
        }
        (!self.0.is_empty()).then_some(LOOK_INTERVAL)
    }

    /// Whether there is a GPU on which turns may be of use.
    pub fn are_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a program's launches are held.
    pub fn holds(&self, gpu: u32, client: ClientId) -> bool {
        let turns = self.0.get(&gpu).and_then(|turns| turns.programs.get(&client));
        turns.is_some_and(|own| own.is_held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with phases of so many milliseconds on the GPU and on the host.
    #[derive(Clone, Copy)]
    struct Player {
        on_gpu: f64,
        on_host: f64,
        /// What is left of its phase, and whether that is on the GPU.
        left: f64,
        is_on_gpu: bool,
        rounds: u32,
        held: f64,
    }

    fn player(on_gpu: f64, on_host: f64) -> Player {
        Player {
            on_gpu,
            on_host,
            left: on_host,
            is_on_gpu: false,
            rounds: 0,
            held: 0.0,
        }
    }

    /// Plays a minute; those on the GPU have even parts of it.
    fn play(players: &mut [Player], alternates: bool, is_wide: bool) {
        let mut turns = Turns::default();
        for ms in 0..60_000u64 {
            let now = Duration::from_millis(ms);
            if alternates && ms % 5 == 0 {
                let worker = |(client, one): (usize, &Player)| Worker {
                    client: client as u64,
                    gpu: 0,
                    has_work: one.is_on_gpu && !turns.holds(0, client as u64),
                    is_wide,
                };
                let workers: Vec<Worker> = players.iter().enumerate().map(worker).collect();
                turns.step(&workers, now);
            }
            let is_held = |client: usize| turns.holds(0, client as u64);
            let running = (0..players.len()).filter(|&at| players[at].is_on_gpu && !is_held(at));
            let part = 1.0 / (running.count() as f64).max(1.0);
            for (at, one) in players.iter_mut().enumerate() {
                match (one.is_on_gpu, is_held(at)) {
                    (true, true) => one.held += 1.0,
                    (true, false) => one.left -= part,
                    (false, _) => one.left -= 1.0,
                }
                if one.left <= 0.0 {
                    one.rounds += u32::from(one.is_on_gpu);
                    one.is_on_gpu = !one.is_on_gpu;
                    one.left += if one.is_on_gpu { one.on_gpu } else { one.on_host };
                }
            }
        }
    }

    /// Rounds of each with turns and without, and the part of the time for which they were held.
    fn both(players: &[Player], is_wide: bool) -> Vec<(u32, u32, f64)> {
        let (mut with, mut without) = (players.to_vec(), players.to_vec());
        play(&mut with, true, is_wide);
        play(&mut without, false, is_wide);
        let pairs = with.iter().zip(&without);
        pairs
            .map(|(with, without)| (with.rounds, without.rounds, with.held / 60_000.0))
            .collect()
    }

    #[test]
    fn programs_in_step_come_out_of_step_and_need_no_holds_then() {
        for (on_gpu, on_host) in [(200.0, 200.0), (100.0, 150.0), (500.0, 400.0)] {
            for (with, without, held) in both(&[player(on_gpu, on_host); 2], true) {
                assert!(
                    f64::from(with) > f64::from(without) * 1.2,
                    "{on_gpu}: {with} {without}"
                );
                assert!(held < 0.1, "{on_gpu}: {held}");
            }
        }
    }

    #[test]
    fn where_nothing_is_gained_nobody_is_held() {
        // Without phases on the host, with short ones, with narrow kernels, and alone.
        let nobody = |players: &[Player], is_wide| {
            for (with, without, held) in both(players, is_wide) {
                assert!(held == 0.0 && with == without, "{with} {without} {held}");
            }
        };
        nobody(&[player(500.0, 5.0); 2], true);
        nobody(&[player(15.0, 15.0); 2], true);
        nobody(&[player(200.0, 200.0); 2], false);
        nobody(&[player(200.0, 200.0)], true);
    }

    /// In a pair of different kinds one may lose a little, to one that gains more.
    #[test]
    fn no_program_loses_much_beside_another_kind() {
        let kinds = [player(300.0, 100.0), player(60.0, 400.0), player(150.0, 150.0)];
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let ratio = |(with, without, _): &(u32, u32, f64)| f64::from(*with) / f64::from(*without);
            let came = both(&[kinds[one], kinds[other]], true);
            let ratios: Vec<f64> = came.iter().map(ratio).collect();
            assert!(ratios.iter().all(|&ratio| ratio > 0.95), "{came:?}");
            assert!(ratios.iter().sum::<f64>() > 1.99, "{came:?}");
        }
        for (with, without, held) in both(&kinds, true) {
            assert!(with == without && held == 0.0, "three are left alone");
        }
    }
}
