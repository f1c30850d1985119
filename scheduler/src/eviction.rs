//! Whose idle memory makes room for who waits: a pure function of both, beside [`crate::policies`].
//!
//! A process in a long host phase holds memory that it does not use. Where a request waits for it, the memory
//! is *evicted*: it goes to the host, and comes back when the process goes on. That costs two copies, so:
//!
//! - Evicted is who has been idle for at least as long as both copies take ([`Speed::both_ways`]): if the idle
//!   phase goes on as long again, the copies have paid for themselves, and if it ends at once the loss is no more
//!   than what was idle before. Where earlier phases of the process are known, who is expected to stay idle for
//!   twice that long is evicted early, and who is not, late.
//! - Who has come back stays for twice as long as both copies take, so copies take a third of any process's
//!   time at most, however many wait. Who is evicted early need not, once it has worked: the idle phase
//!   itself is expected to last that long.
//! - Who has waited for [`FAIR`] beyond [`longest_wait`] is not put off by what is known of phases, but by a
//!   time that each keeps what came back.
//! - A GPU that others keep at work ([`AT_WORK`]) does no more if one is let in for another, so memory stays
//!   where it is, but for a request that has waited for [`FAIR`] beyond [`longest_wait`]. Others that are
//!   known to pause do not keep it at work for longer than until then, so they count as in the long run.
//! - An eviction is made only if all of those chosen together make the request fit on one GPU.
//! - Of several choices the one that moves fewest bytes is taken, then the one whose processes were evicted
//!   less often.
//!
//! Nobody is evicted twice for one request: a GPU has one eviction under way at a time.
//!
//! [`EvictionRule`] says which rule mgbd follows: this one, or for comparison [`flexgpu`]'s.

pub mod flexgpu;
pub mod latency;
mod rule;

use std::time::Duration;

pub use rule::EvictionRule;

use crate::client::ClientId;
use crate::gpu_set::GpuSet;

/// How long a process is idle at least before its memory is evicted.
pub const LEAST_IDLE: Duration = Duration::from_millis(100);
/// How long it keeps its memory at least once it has come back.
pub const LEAST_STAY: Duration = Duration::from_millis(500);
/// How long a request waits at least before others are evicted for it.
pub const LEAST_WAIT: Duration = Duration::from_millis(100);

/// Work that keeps a GPU busy, in thousandths of what fills it.
pub const AT_WORK: u32 = 700;
/// How much longer a request waits where others keep the GPU at work, or are known to go on too soon. So long
/// they keep their memory then. With evictions for all who waited, mixes of jobs that together had more work
/// than two GPUs lost 6 and 21 % of their time to them.
pub const FAIR: Duration = Duration::from_secs(10);

/// A process that has no work under way on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleProcess {
    /// The process's number as a client.
    pub client: ClientId,
    /// It is a latency program: see [`latency`].
    pub is_latency: bool,
    /// Index of the GPU.
    pub gpu: usize,
    /// Bytes that leave the GPU with it.
    pub bytes: u64,
    /// For how long it has been idle.
    pub idle: Duration,
    /// How long its idle phases on that GPU last; `None`: it had none yet.
    pub phase: Option<Duration>,
    /// For how long its memory has been there.
    pub stays: Duration,
    /// How often it was evicted.
    pub times: u32,
    /// How often it has had work there.
    pub uses: u64,
}

/// A request that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The client that asked: its own memory is no help.
    pub client: ClientId,
    /// It is a latency program: see [`latency`].
    pub is_latency: bool,
    /// How long it has waited.
    pub waited: Duration,
    /// Warps of the largest launch that it is asked for.
    pub warps: u64,
    /// GPUs where it could go, and the bytes that it lacks on each.
    pub gpus: Vec<(usize, u64)>,
}

/// How fast memory goes to the host and comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// Bytes a second, one way.
    pub bytes_per_s: u64,
}

impl Speed {
    /// How long so many bytes take to the host.
    pub fn one_way(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_s.max(1) as f64)
    }

    /// How long so many bytes take out and back.
    pub fn both_ways(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(2.0 * bytes as f64 / self.bytes_per_s.max(1) as f64)
    }

    /// What is expected before any copy was seen, on a host with so many cores: copies have a thread for
    /// three of four cores, twelve at most, each of which copies some 5 GiB/s, and together no more than a
    /// link does (PCIe 4, 16 lanes).
    pub fn expected(cores: usize) -> Speed {
        let threads = (cores * 3 / 4).clamp(1, 12) as u64;
        Speed {
            bytes_per_s: (threads * (5 << 30)).min(20 << 30),
        }
    }

    /// How fast so many bytes left in that time; `None`: so few say nothing.
    pub fn of(bytes: u64, took: Duration) -> Option<Speed> {
        const TELLING: u64 = 256 << 20;
        let telling = bytes >= TELLING && !took.is_zero();
        telling.then(|| Speed {
            bytes_per_s: (bytes as f64 / took.as_secs_f64()) as u64,
        })
    }

    /// What is expected after this one was seen, which counts for so much (1: nothing else does). One that is
    /// very far off counts as four times as much or a quarter: somebody was stopped, or says what is not so.
    #[must_use]
    pub fn after(self, seen: Speed, counts: f64) -> Speed {
        let before = self.bytes_per_s.max(1);
        let seen = seen.bytes_per_s.clamp(before / 4, before.saturating_mul(4));
        Speed {
            bytes_per_s: (before as f64 * (1.0 - counts) + seen as f64 * counts) as u64,
        }
    }
}

/// The GPUs and the host, as far as evictions concern them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// GPUs with an eviction under way.
    pub closed: GpuSet,
    /// By GPU: how much work its processes have and go on to have, in thousandths of what fills it. None
    /// where it is missing.
    pub work: Vec<u32>,
    /// Bytes that the host has left for evicted memory.
    pub host: u64,
}

/// Whom to evict from which GPU.
pub fn choose(lacks: &[Lack], idle: &[IdleProcess], places: &Places, speed: Speed) -> Vec<IdleProcess> {
    let (mut closed, mut host) = (places.closed, places.host);
    let at_work = |gpu: usize| places.work.get(gpu).is_some_and(|work| *work >= AT_WORK);
    let mut chosen: Vec<IdleProcess> = Vec::new();
    for lack in lacks.iter().filter(|lack| lack.waited >= LEAST_WAIT) {
        let ways = lack.gpus.iter().filter(|(gpu, _)| !closed.contains(gpu));
        let ways = ways.filter_map(|&(gpu, bytes)| {
            let there = |own: &&IdleProcess| {
                let wait = longest_wait(own.bytes, speed) + FAIR;
                let may = !at_work(gpu) || lack.waited >= wait;
                own.gpu == gpu && own.client != lack.client && may && pays(own, lack.waited, speed)
            };
            fewest(idle.iter().filter(there).copied().collect(), bytes)
        });
        let cost = |way: &Vec<IdleProcess>| -> (u64, u32) {
            let bytes = way.iter().map(|own| own.bytes).sum();
            (bytes, way.iter().map(|own| own.times).sum())
        };
        let Some(way) = ways.filter(|way| cost(way).0 <= host).min_by_key(cost) else {
            continue;
        };
        host -= cost(&way).0;
        closed |= way.iter().map(|own| own.gpu).collect();
        chosen.extend(way);
    }
    chosen
}

/// How long a request waits at most until idle memory is evicted for it, by [`choose`]: where processes with
/// at most so many bytes each stay idle from the request on, hold enough together on a GPU without an
/// eviction under way, and the host has room. [`FAIR`] longer where others keep that GPU at work, or those
/// are known to pause for less.
pub fn longest_wait(bytes: u64, speed: Speed) -> Duration {
    LEAST_WAIT.max(LEAST_STAY + 2 * speed.both_ways(bytes))
}

/// Whether evicting it is worth its copies, for a request that has waited for so long.
fn pays(own: &IdleProcess, waited: Duration, speed: Speed) -> bool {
    let copies = speed.both_ways(own.bytes);
    // What it came back for is done.
    let has_worked = own.idle < own.stays;
    let (due, stay) = match own.phase {
        Some(phase) if phase >= own.idle + 2 * copies && has_worked => (LEAST_IDLE, LEAST_STAY),
        // Whoever has been idle for far longer than ever says nothing of when it goes on.
        Some(phase) if waited < longest_wait(own.bytes, speed) + FAIR => {
            ((2 * phase).max(copies), 2 * copies)
        }
        // It is about to go on, so it has had some time at least.
        Some(_) => (copies, FAIR.max(2 * copies)),
        None => (copies, 2 * copies),
    };
    own.idle >= due.max(LEAST_IDLE) && own.stays >= LEAST_STAY.max(stay)
}

/// Those whose memory together gives so many bytes: one process if one has enough, the smallest such; else
/// the largest first. `None`: all together have too little.
fn fewest(mut there: Vec<IdleProcess>, bytes: u64) -> Option<Vec<IdleProcess>> {
    there.sort_by_key(|own| (own.bytes, own.times));
    if let Some(one) = there.iter().find(|own| own.bytes >= bytes) {
        return Some(vec![*one]);
    }
    let mut left = bytes;
    let mut way = Vec::new();
    for own in there.into_iter().rev() {
        if left == 0 {
            break;
        }
        left = left.saturating_sub(own.bytes);
        way.push(own);
    }
    (left == 0 && bytes > 0).then_some(way)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;
    const NOBODY: [ClientId; 0] = [];
    /// Ten gibibytes take a second each way.
    const SPEED: Speed = Speed {
        bytes_per_s: 10 * GIB,
    };

    fn places(closed: u64, host: u64) -> Places {
        Places {
            closed: GpuSet::from_bits(closed),
            work: Vec::new(),
            host,
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn idle(client: ClientId, gpu: usize, gib: u64, idle_ms: u64) -> IdleProcess {
        IdleProcess {
            client,
            is_latency: false,
            gpu,
            bytes: gib * GIB,
            idle: ms(idle_ms),
            phase: None,
            stays: ms(60_000),
            times: 0,
            uses: 0,
        }
    }

    fn lack(gpus: &[(usize, u64)]) -> Lack {
        Lack {
            client: 99,
            is_latency: false,
            waited: ms(1000),
            warps: 0,
            gpus: gpus.iter().map(|&(gpu, gib)| (gpu, gib * GIB)).collect(),
        }
    }

    fn clients(lacks: &[Lack], idle: &[IdleProcess]) -> Vec<ClientId> {
        let chosen = choose(lacks, idle, &places(0, u64::MAX), SPEED);
        chosen.iter().map(|own| own.client).collect()
    }

    #[test]
    fn who_has_been_idle_as_long_as_the_copies_take_makes_room() {
        assert_eq!(clients(&[lack(&[(0, 8)])], &[idle(1, 0, 10, 1999)]), NOBODY);
        assert_eq!(clients(&[lack(&[(0, 8)])], &[idle(1, 0, 10, 2000)]), [1]);
    }

    #[test]
    fn what_is_known_of_phases_makes_it_earlier_or_later() {
        let known = |phase, idle_ms| IdleProcess {
            phase: Some(ms(phase)),
            ..idle(1, 0, 10, idle_ms)
        };
        assert_eq!(clients(&[lack(&[(0, 8)])], &[known(5000, 100)]), [1]);
        assert_eq!(clients(&[lack(&[(0, 8)])], &[known(3000, 5999)]), NOBODY);
        assert_eq!(clients(&[lack(&[(0, 8)])], &[known(3000, 6000)]), [1]);
    }

    #[test]
    fn who_has_just_come_back_stays() {
        let mut back = idle(1, 0, 10, 5000);
        back.stays = ms(3999);
        assert_eq!(clients(&[lack(&[(0, 8)])], &[back]), NOBODY);
        back.stays = ms(4000);
        assert_eq!(clients(&[lack(&[(0, 8)])], &[back]), [1]);
        // The idle phase that begins is long enough for both copies.
        (back.stays, back.idle) = (ms(600), ms(100));
        assert_eq!(clients(&[lack(&[(0, 8)])], &[back]), NOBODY);
        back.phase = Some(ms(4700));
        assert_eq!(clients(&[lack(&[(0, 8)])], &[back]), [1]);
        // It has not worked since.
        back.idle = ms(700);
        assert_eq!(clients(&[lack(&[(0, 8)])], &[back]), NOBODY);
        back.idle = ms(100);
        back.stays = ms(400);
        assert_eq!(clients(&[lack(&[(0, 8)])], &[back]), NOBODY);
    }

    /// Idle processes as a request finds them: bytes, idle phase, what is known of such phases, all in
    /// milliseconds or MiB, and how much longer their memory has been there.
    fn found() -> impl Strategy<Value = Vec<(u64, u64, Option<u64>, u64)>> {
        let one = (
            1..40_000u64,
            0..20_000u64,
            proptest::option::of(0..60_000u64),
            0..20_000u64,
        );
        proptest::collection::vec(one, 1..6)
    }

    proptest! {
        #[test]
        fn nobody_waits_longer_for_idle_memory_than_the_bound(found in found(), busy in any::<bool>()) {
            let largest = found.iter().map(|own| own.0 << 20).max().unwrap_or(0);
            let puts_off = busy || found.iter().any(|own| own.2.is_some());
            let wait = longest_wait(largest, SPEED) + if puts_off { FAIR } else { Duration::ZERO };
            let places = Places { work: vec![if busy { 2 * AT_WORK } else { 0 }], ..places(0, u64::MAX) };
            let there: Vec<IdleProcess> = found.iter().enumerate().map(|(client, &(mib, idle_ms, phase, stays))| IdleProcess {
                client: client as ClientId,
                is_latency: false,
                gpu: 0,
                bytes: mib << 20,
                idle: ms(idle_ms) + wait,
                phase: phase.map(ms),
                stays: ms(idle_ms + stays) + wait,
                times: 0,
                uses: 0,
            }).collect();
            let lack = Lack {
                waited: wait,
                gpus: vec![(0, there.iter().map(|own| own.bytes).sum())],
                ..lack(&[])
            };
            let chosen = choose(&[lack], &there, &places, SPEED);
            prop_assert_eq!(chosen.len(), there.len());
        }
    }

    #[test]
    fn nobody_leaves_a_gpu_that_others_keep_at_work_but_in_the_end() {
        let there = [idle(1, 0, 10, 60_000)];
        let after = |waited, work| {
            let mut lack = lack(&[(0, 8)]);
            lack.waited = waited;
            let places = Places {
                work: vec![work],
                ..places(0, u64::MAX)
            };
            choose(&[lack], &there, &places, SPEED).len()
        };
        let bound = longest_wait(10 * GIB, SPEED);
        assert_eq!((after(bound, AT_WORK - 1), after(bound, AT_WORK)), (1, 0));
        assert_eq!(
            (after(bound + FAIR - ms(1), AT_WORK), after(bound + FAIR, AT_WORK)),
            (0, 1)
        );
    }

    #[test]
    fn nobody_leaves_in_vain() {
        let there = [
            idle(1, 0, 2, 60_000),
            idle(2, 0, 3, 60_000),
            idle(3, 1, 9, 60_000),
        ];
        assert_eq!(clients(&[lack(&[(0, 6)])], &there), NOBODY);
        assert_eq!(clients(&[lack(&[(0, 5)])], &there), [2, 1]);
        assert_eq!(clients(&[lack(&[(0, 2)])], &there), [1]);
        // The one that moves fewer bytes.
        assert_eq!(clients(&[lack(&[(1, 1), (0, 5)])], &there), [2, 1]);
        assert_eq!(clients(&[lack(&[(1, 1), (0, 6)])], &there), [3]);
        let mut own = lack(&[(0, 2)]);
        own.client = 1;
        assert_eq!(clients(&[own], &there), [2]);
    }

    #[test]
    fn a_gpu_has_one_eviction_at_a_time() {
        let there = [
            idle(1, 0, 2, 60_000),
            idle(2, 0, 2, 60_000),
            idle(3, 1, 2, 60_000),
        ];
        let two = [lack(&[(0, 1)]), lack(&[(0, 1), (1, 1)])];
        assert_eq!(clients(&two, &there), [1, 3]);
        assert!(choose(&two, &there, &places(0b11, u64::MAX), SPEED).is_empty());
    }

    #[test]
    fn the_host_has_room_for_it() {
        let there = [idle(1, 0, 2, 60_000)];
        assert!(choose(&[lack(&[(0, 1)])], &there, &places(0, 2 * GIB - 1), SPEED).is_empty());
        assert_eq!(
            choose(&[lack(&[(0, 1)])], &there, &places(0, 2 * GIB), SPEED).len(),
            1
        );
        let mut soon = lack(&[(0, 1)]);
        soon.waited = ms(50);
        assert_eq!(clients(&[soon], &there), NOBODY);
    }

    #[test]
    fn the_speed_follows_what_is_seen() {
        let seen = Speed::of(20 * GIB, ms(1000)).expect("it is telling");
        assert_eq!(SPEED.after(seen, 0.5).bytes_per_s, 15 * GIB);
        assert_eq!(SPEED.after(seen, 1.0), seen);
        assert_eq!(Speed::of(1, ms(1)), None);
        assert_eq!(Speed::of(20 * GIB, Duration::ZERO), None);
        let stopped = Speed::of(GIB, ms(60_000)).expect("it is telling");
        assert_eq!(SPEED.after(stopped, 1.0).bytes_per_s, 10 * GIB / 4);
        assert_eq!(Speed::expected(1).bytes_per_s, 5 * GIB);
        assert_eq!(Speed::expected(128).bytes_per_s, 20 * GIB);
        assert_eq!(Speed { bytes_per_s: 0 }.both_ways(0), Duration::ZERO);
    }
}
