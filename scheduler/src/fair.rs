//! Fair shares among batch programs on one GPU: a pure function of what they have launched.
//!
//! A program that waits for each of its kernels loses against those that launch ahead: its kernels stand
//! behind all of theirs. That it has work all the time says nothing about it, so how fast it goes is
//! *probed*: for some milliseconds beside the others, and for some more alone. Where that shows that a
//! program gets less than half of its share, the others are held for a part of the time, until it has most of
//! its share. Before that comes who would miss its deadline otherwise ([`crate::time_left`]).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::ClientId;
use crate::help::{Help, MAX_PART};
use crate::time_left::{self, TimeLeft};

/// A program that has work on a GPU.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The client whose launches are counted.
    pub client: ClientId,
    /// The GPU where it has work, the only one on which it has a context.
    pub gpu: u32,
    /// Launches so far, counted as long as what is in flight is bounded.
    pub launched: u64,
    /// The time it has until its deadline, where deadlines count and it has one.
    pub time_left: Option<TimeLeft>,
}

/// For so long programs have work side by side before they are probed, at first.
const FIRST_INTERVAL: Duration = Duration::from_secs(2);
/// Where all get their share they are probed after twice as long each time, up to this.
const MAX_INTERVAL: Duration = Duration::from_secs(64);
/// For so long somebody is helped before they are probed anew.
const HELP_TIME: Duration = Duration::from_secs(5);
/// What was in flight before is over then.
const SETTLE_TIME: Duration = Duration::from_millis(10);
/// How long programs are looked at beside each other, and each alone.
const TOGETHER_TIME: Duration = Duration::from_millis(60);
const ALONE_TIME: Duration = Duration::from_millis(16);
/// Programs that are looked at alone in one probe: the others are held meanwhile, each for a bounded time.
const MAX_PROBED: usize = 3;
/// Fewer launches alone than that tell nothing.
const MIN_LAUNCHES: u64 = 3;
/// Whoever gets less than that part of its share is helped to its share.
const STARVES: f64 = 0.5;

/// What a program on a GPU is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FairPace {
    /// Its launches are held.
    pub held: bool,
    /// What it has in flight is bounded.
    pub bounded: bool,
}

/// What is known of one program in a probe.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    together: f64,
    alone: Option<f64>,
}

#[derive(Debug)]
enum Phase {
    /// Nothing is asked of anybody.
    Rest { probe_at: Duration },
    /// All run, and what is in flight is bounded.
    Together {
        counts_from: Option<LaunchCounts>,
        until: Duration,
    },
    /// One runs, and the others are held.
    Alone {
        at: usize,
        counts_from: Option<LaunchCounts>,
        until: Duration,
    },
    /// One that starves is helped.
    Helps { help: Help, until: Duration },
    /// One is helped that would miss its deadline.
    Rescues { help: Help },
}

/// Launches at a moment.
#[derive(Clone, Debug)]
struct LaunchCounts {
    at: Duration,
    launched: BTreeMap<ClientId, u64>,
}

impl LaunchCounts {
    fn of(members: &[Member], at: Duration) -> LaunchCounts {
        LaunchCounts {
            at,
            launched: members.iter().map(|one| (one.client, one.launched)).collect(),
        }
    }

    /// Launches of a program since then, and for each second.
    fn since(&self, one: &Member, now: Duration) -> (u64, f64) {
        let before = self.launched.get(&one.client).copied().unwrap_or(one.launched);
        let launches = one.launched.saturating_sub(before);
        let seconds = now.saturating_sub(self.at).as_secs_f64().max(1e-6);
        (launches, launches as f64 / seconds)
    }
}

/// The programs on one GPU.
#[derive(Debug)]
struct GpuShares {
    members: Vec<ClientId>,
    phase: Phase,
    interval: Duration,
    rates: BTreeMap<ClientId, Rates>,
    /// The share of each, as the last probe has shown it, in parts of all of the GPU.
    shares: BTreeMap<ClientId, f64>,
}

impl GpuShares {
    fn new(members: Vec<ClientId>, now: Duration) -> GpuShares {
        GpuShares {
            members,
            phase: Phase::Rest {
                probe_at: now + FIRST_INTERVAL,
            },
            interval: FIRST_INTERVAL,
            rates: BTreeMap::new(),
            shares: BTreeMap::new(),
        }
    }

    /// Helps who would miss its deadline, and nobody for that reason where nobody would.
    fn rescue(&mut self, members: &[Member], now: Duration) {
        let programs: Vec<(ClientId, Option<TimeLeft>)> =
            members.iter().map(|one| (one.client, one.time_left)).collect();
        match (time_left::whom(&programs), &self.phase) {
            (Some(whom), Phase::Rescues { help }) if help.whom == whom => {}
            (Some(whom), _) => {
                let help = Help::new(whom, MAX_PART, now);
                self.phase = Phase::Rescues { help };
            }
            (None, Phase::Rescues { .. }) => {
                let probe_at = now + FIRST_INTERVAL;
                self.phase = Phase::Rest { probe_at };
            }
            (None, _) => {}
        }
    }

    /// Goes on; when to look again, at the latest. `probes`: shares are looked at.
    fn step(&mut self, members: &[Member], probes: bool, now: Duration) -> Option<Duration> {
        self.rescue(members, now);
        loop {
            match &mut self.phase {
                Phase::Rest { probe_at } if !probes || now < *probe_at => return None,
                Phase::Rest { .. } => {
                    self.rates.clear();
                    self.phase = Phase::Together {
                        counts_from: None,
                        until: now + SETTLE_TIME,
                    };
                }
                Phase::Together { until, .. } | Phase::Alone { until, .. } if now < *until => {
                    return Some(*until - now);
                }
                Phase::Together {
                    counts_from: counts @ None,
                    until,
                } => {
                    *counts = Some(LaunchCounts::of(members, now));
                    *until = now + TOGETHER_TIME;
                }
                Phase::Together {
                    counts_from: Some(counts),
                    ..
                } => {
                    for one in members {
                        self.rates.entry(one.client).or_default().together = counts.since(one, now).1;
                    }
                    self.phase = Phase::Alone {
                        at: 0,
                        counts_from: None,
                        until: now + SETTLE_TIME,
                    };
                }
                Phase::Alone {
                    counts_from: counts @ None,
                    until,
                    ..
                } => {
                    *counts = Some(LaunchCounts::of(members, now));
                    *until = now + ALONE_TIME;
                }
                Phase::Alone {
                    at,
                    counts_from: Some(counts),
                    ..
                } => {
                    if let Some(one) = members.get(*at) {
                        let (launches, rate) = counts.since(one, now);
                        let rates = self.rates.entry(one.client).or_default();
                        rates.alone = (launches >= MIN_LAUNCHES).then_some(rate);
                    }
                    let next = *at + 1;
                    self.phase = if next < members.len().min(MAX_PROBED) {
                        Phase::Alone {
                            at: next,
                            counts_from: None,
                            until: now + SETTLE_TIME,
                        }
                    } else {
                        self.judge(members.len(), now)
                    };
                }
                Phase::Helps { until, .. } if now >= *until => {
                    self.phase = Phase::Rest { probe_at: now };
                }
                Phase::Helps { help, .. } | Phase::Rescues { help } => return Some(help.until_turn(now)),
            }
        }
    }

    /// What follows from a probe.
    fn judge(&mut self, count: usize, now: Duration) -> Phase {
        let fair = 1.0 / count as f64;
        let share = |rates: &Rates| Some(rates.together / rates.alone?);
        let shares = self
            .rates
            .iter()
            .filter_map(|(id, rates)| Some((*id, share(rates)?)));
        self.shares = shares.collect();
        let least = self.shares.iter().min_by(|one, other| one.1.total_cmp(other.1));
        match least {
            Some((&whom, &share)) if share < STARVES * fair => {
                self.interval = FIRST_INTERVAL;
                Phase::Helps {
                    help: Help::new(whom, (fair - share) / (1.0 - share), now),
                    until: now + HELP_TIME,
                }
            }
            _ => {
                self.interval = (self.interval * 2).min(MAX_INTERVAL);
                Phase::Rest {
                    probe_at: now + self.interval,
                }
            }
        }
    }

    fn pace(&self, client: ClientId, now: Duration) -> FairPace {
        match self.phase {
            Phase::Rest { .. } => FairPace::default(),
            Phase::Together { .. } => FairPace {
                held: false,
                bounded: true,
            },
            Phase::Alone { at, .. } => FairPace {
                held: self.members.get(at) != Some(&client),
                bounded: true,
            },
            Phase::Helps { help, .. } | Phase::Rescues { help } => FairPace {
                held: help.holds(client, now),
                bounded: true,
            },
        }
    }
}

/// The shares on all GPUs.
#[derive(Debug)]
pub struct Shares {
    gpus: BTreeMap<u32, GpuShares>,
    probes: bool,
}

impl Shares {
    /// Nobody is helped yet. `probes`: who gets less than half of its share is, not only who would miss its
    /// deadline.
    pub fn new(probes: bool) -> Shares {
        Shares {
            gpus: BTreeMap::new(),
            probes,
        }
    }

    /// Goes on with those that have work now; in how long to look again at the latest, if anything is asked
    /// of anybody.
    pub fn step(&mut self, members: &[Member], now: Duration) -> Option<Duration> {
        let mut by_gpu: BTreeMap<u32, Vec<Member>> = BTreeMap::new();
        for one in members {
            by_gpu.entry(one.gpu).or_default().push(*one);
        }
        by_gpu.retain(|_, members| members.len() > 1);
        self.gpus.retain(|gpu, _| by_gpu.contains_key(gpu));
        let mut next = None;
        for (gpu, members) in by_gpu {
            let ids: Vec<ClientId> = members.iter().map(|one| one.client).collect();
            let shares = self
                .gpus
                .entry(gpu)
                .or_insert_with(|| GpuShares::new(ids.clone(), now));
            if shares.members != ids {
                *shares = GpuShares::new(ids, now);
            }
            let due = shares.step(&members, self.probes, now);
            next = [next, due].into_iter().flatten().min();
        }
        next
    }

    /// What a program on a GPU is told.
    pub fn pace(&self, gpu: u32, client: ClientId, now: Duration) -> FairPace {
        self.gpus
            .get(&gpu)
            .map_or_else(FairPace::default, |shares| shares.pace(client, now))
    }

    /// The part of what it would do alone that a program was seen to do beside the others.
    pub fn speed(&self, gpu: u32, client: ClientId) -> Option<f64> {
        self.gpus.get(&gpu)?.shares.get(&client).copied()
    }

    /// Whether anything is asked of anybody.
    pub fn are_any(&self) -> bool {
        self.gpus
            .values()
            .any(|shares| !matches!(shares.phase, Phase::Rest { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a minute on a GPU whose programs do so many launches a second, by who is let run; what each did,
    /// and for how long it was held.
    fn play(count: u64, rates: impl Fn(&[ClientId], ClientId) -> f64) -> Vec<(f64, f64)> {
        let (mut shares, mut now) = (Shares::new(true), Duration::ZERO);
        let mut done = vec![(0.0, 0.0); count as usize];
        let end = Duration::from_secs(60);
        while now < end {
            let members: Vec<Member> = (0..count)
                .map(|client| Member {
                    client,
                    gpu: 3,
                    launched: done[client as usize].0 as u64,
                    time_left: None,
                })
                .collect();
            let next = shares.step(&members, now).unwrap_or(Duration::from_millis(200));
            assert!(!next.is_zero());
            let seconds = next.as_secs_f64();
            let is_held = |client: &ClientId| shares.pace(3, *client, now).held;
            let running: Vec<ClientId> = (0..count).filter(|client| !is_held(client)).collect();
            for client in 0..count {
                let one = &mut done[client as usize];
                if running.contains(&client) {
                    one.0 += rates(&running, client) * seconds;
                } else {
                    one.1 += seconds;
                }
            }
            now += next;
        }
        done.iter().map(|(did, held)| (did / 60.0, held / 60.0)).collect()
    }

    /// As measured on an H100: training that waits for each step, products, sweeps.
    fn measured(running: &[ClientId], client: ClientId) -> f64 {
        let alone = [1106.0, 735.0, 855.0];
        let beside = [9.6, 431.0, 428.0];
        if running.len() == 1 {
            alone[client as usize]
        } else {
            beside[client as usize]
        }
    }

    #[test]
    fn who_starves_gets_most_of_its_share_and_the_others_lose_little() {
        let did = play(3, measured);
        assert!(did[0].0 > 0.27 * 1106.0, "{did:?}");
        assert!(did[1].0 > 0.6 * 431.0 && did[2].0 > 0.6 * 428.0, "{did:?}");
        // What a process lets itself be held for.
        assert!(did.iter().all(|(_, held)| *held < 0.4), "{did:?}");
    }

    #[test]
    fn where_all_get_their_share_next_to_nothing_is_held() {
        let did = play(3, |running, _| 900.0 / running.len() as f64);
        assert!(did.iter().all(|(_, held)| *held < 0.01), "{did:?}");
        let did = play(2, |_, _| 500.0);
        assert!(did.iter().all(|(did, _)| *did > 495.0), "{did:?}");
    }

    #[test]
    fn one_alone_and_those_that_launch_nothing_are_left_alone() {
        assert_eq!(play(1, |_, _| 100.0)[0].1, 0.0);
        let did = play(2, |_, client| if client == 0 { 0.0 } else { 100.0 });
        assert!(did.iter().all(|(_, held)| *held < 0.02), "{did:?}");
    }

    #[test]
    fn who_comes_or_goes_begins_anew() {
        let mut shares = Shares::new(true);
        let member = |client| Member {
            client,
            gpu: 0,
            launched: 0,
            time_left: None,
        };
        let at = Duration::from_millis;
        assert_eq!(shares.step(&[member(1), member(2)], at(0)), None);
        assert_eq!(shares.step(&[member(1), member(2)], at(2000)), Some(SETTLE_TIME));
        assert!(shares.are_any() && shares.pace(0, 1, at(2000)).bounded);
        assert_eq!(shares.step(&[member(1), member(3)], at(2001)), None);
        assert!(!shares.are_any());
        assert_eq!(shares.step(&[member(1)], at(9000)), None);
        assert_eq!(shares.pace(0, 1, at(9000)), FairPace::default());
    }
    #[test]
    fn who_would_miss_its_deadline_is_helped_at_once_also_where_nobody_is_probed() {
        let mut shares = Shares::new(false);
        let at = Duration::from_millis;
        let members = |left: u64| {
            let member = |client, time_left| Member {
                client,
                gpu: 0,
                launched: 0,
                time_left,
            };
            let left = TimeLeft {
                until_deadline: at(left),
                remaining: at(1000),
            };
            [member(1, Some(left)), member(2, None)]
        };
        assert_eq!(shares.step(&members(2000), at(0)), None);
        assert_eq!(shares.step(&members(2000), at(5000)), None);
        assert!(shares.step(&members(1100), at(6000)).is_some() && shares.are_any());
        let held = |shares: &Shares, client| shares.pace(0, client, at(6000)).held;
        assert!(held(&shares, 2) && !held(&shares, 1));
        // It goes on as it was: no hold begins anew because somebody looked.
        shares.step(&members(1050), at(6030));
        assert!(!shares.pace(0, 2, at(6030)).held);
        assert_eq!(shares.step(&members(2000), at(6040)), None);
        assert!(!shares.are_any());
    }
}
