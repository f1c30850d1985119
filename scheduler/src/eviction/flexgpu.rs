//! FlexGPU's rule of whom to evict, as a baseline beside [`super::choose`]: also a pure function.
//!
//! FlexGPU answers a launch and the allocations that it needs at once: it approves, holds back, or has
//! memory swapped out first. What it decides by, and what stands for it here, since mgbd sees processes, not
//! kernels:
//!
//! - *A launch is held back if the occupancies of what runs would pass 100 % with it.* Here nothing is
//!   evicted for a request whose warps, with those of the processes that have work on the GPU, are more than
//!   the GPU holds. FlexGPU takes achieved occupancies, from a profile; mgbd knows the warps of a process's
//!   largest launch. FlexGPU also holds back what would run slower beside others than after them; mgbd has
//!   no measure of that.
//! - *A swap is made if its copy hides behind the shortest running kernel.* Nobody tells mgbd how long a
//!   kernel takes. The nearest is how long a process is at work on the GPU without a pause
//!   ([`Busy::lasts`]). So the copy to the host has to take no longer than the shortest such time of those
//!   at work.
//! - *Where nothing runs, neither condition holds anything back*: the system would stand still.
//! - *Any memory that no running kernel uses can leave*, at once. Here that is all memory of a process
//!   without work on the GPU: which allocations a launch uses is known of none for certain, since pointers
//!   are found in memory too, where FlexGPU does not look. For the same reason the requester's own memory
//!   stays; where all only wait for each other, [`crate::deadlock`] has it leave.
//! - *Of several the least frequently used leaves first*: here who had work on the GPU least often.
//!
//! As in FlexGPU, memory comes back for the next launch that needs it, and is used before it leaves again.
//! Nothing weighs what the copy back costs, and nothing bounds how long a request waits: beside a process
//! that has short kernels all the time no large copy ever hides. Both are properties of the rule.

use std::time::Duration;

use super::{IdleProcess, LEAST_STAY, Lack, Speed};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;

/// A process that has work under way on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The process's number as a client.
    pub client: ClientId,
    /// Index of the GPU.
    pub gpu: usize,
    /// Warps of its largest launch there.
    pub warps: u64,
    /// How long it is at work there without a pause.
    pub lasts: Duration,
}

/// The GPUs, and who is there.
#[derive(Clone, Copy, Debug)]
pub struct GpuActivity<'a> {
    /// The processes that have no work.
    pub idle: &'a [IdleProcess],
    /// The processes that have some.
    pub busy: &'a [Busy],
    /// Warps that each GPU holds.
    pub max_warps: &'a [u64],
}

/// Whom to evict from which GPU, in the words of [`super::choose`].
pub fn choose(
    lacks: &[Lack],
    seen: &GpuActivity<'_>,
    mut closed: GpuSet,
    speed: Speed,
    mut host: u64,
) -> Vec<IdleProcess> {
    let mut chosen: Vec<IdleProcess> = Vec::new();
    for lack in lacks {
        let ways = lack.gpus.iter().filter(|(gpu, _)| !closed.contains(gpu));
        let way = ways
            .filter_map(|&(gpu, bytes)| way_on(gpu, bytes, lack, seen, speed))
            .find(|way| bytes_of(way) <= host);
        let Some(way) = way else { continue };
        host -= bytes_of(&way);
        closed |= way.iter().map(|own| own.gpu).collect();
        chosen.extend(way);
    }
    chosen
}

/// The least frequently used memory on a GPU that gives so many bytes, if the request may run there now, and
/// if the copy hides.
fn way_on(
    gpu: usize,
    bytes: u64,
    lack: &Lack,
    seen: &GpuActivity<'_>,
    speed: Speed,
) -> Option<Vec<IdleProcess>> {
    let max_warps = seen.max_warps.get(gpu).copied()?;
    let others = seen
        .busy
        .iter()
        .filter(|busy| busy.gpu == gpu && busy.client != lack.client);
    let (mut warps, mut shortest) = (lack.warps.min(max_warps), None::<Duration>);
    for other in others {
        warps = warps.saturating_add(other.warps.min(max_warps));
        shortest = Some(shortest.map_or(other.lasts, |least| least.min(other.lasts)));
    }
    if shortest.is_some() && warps > max_warps {
        return None;
    }
    let there = |own: &&IdleProcess| own.gpu == gpu && own.client != lack.client && is_used(own);
    let way = least_used(seen.idle.iter().filter(there).copied().collect(), bytes)?;
    let hides = shortest.is_none_or(|kernel| speed.one_way(bytes_of(&way)) <= kernel);
    hides.then_some(way)
}

/// Whether the launch for which memory came back has run: until then launch and memory are one request. A
/// process that launches nothing then keeps its memory for [`LEAST_STAY`] only.
fn is_used(own: &IdleProcess) -> bool {
    own.idle <= own.stays || own.stays >= LEAST_STAY
}

/// The least frequently used of them that together give so many bytes. `None`: all together have too little.
fn least_used(mut there: Vec<IdleProcess>, bytes: u64) -> Option<Vec<IdleProcess>> {
    there.sort_by_key(|own| (own.uses, own.bytes, own.client));
    let mut way = Vec::new();
    let mut given = 0u64;
    for own in there {
        if given >= bytes {
            break;
        }
        given = given.saturating_add(own.bytes);
        way.push(own);
    }
    (given >= bytes && bytes > 0).then_some(way)
}

fn bytes_of(way: &[IdleProcess]) -> u64 {
    way.iter().map(|own| own.bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const NOBODY: [ClientId; 0] = [];
    /// Ten gibibytes take a second each way.
    const SPEED: Speed = Speed {
        bytes_per_s: 10 * GIB,
    };
    /// Warps that a GPU holds.
    const WARPS: u64 = 8400;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn idle(client: ClientId, gib: u64, uses: u64) -> IdleProcess {
        IdleProcess {
            client,
            is_latency: false,
            gpu: 0,
            bytes: gib * GIB,
            idle: ms(1),
            phase: None,
            stays: ms(60_000),
            times: 0,
            uses,
        }
    }

    fn busy(client: ClientId, percent: u64, lasts: u64) -> Busy {
        Busy {
            client,
            gpu: 0,
            warps: WARPS * percent / 100,
            lasts: ms(lasts),
        }
    }

    /// A request that lacks so many bytes, and fills half of the GPU.
    fn lack(gib: u64) -> Lack {
        Lack {
            client: 99,
            is_latency: false,
            waited: ms(0),
            warps: WARPS / 2,
            gpus: vec![(0, gib * GIB)],
        }
    }

    fn clients(lacks: &[Lack], idle: &[IdleProcess], busy: &[Busy]) -> Vec<ClientId> {
        let seen = GpuActivity {
            idle,
            busy,
            max_warps: &[WARPS],
        };
        let chosen = choose(lacks, &seen, GpuSet::EMPTY, SPEED, u64::MAX);
        chosen.iter().map(|own| own.client).collect()
    }

    #[test]
    fn who_is_used_least_leaves_at_once() {
        let there = [idle(1, 4, 9), idle(2, 4, 3), idle(3, 4, 5)];
        assert_eq!(clients(&[lack(4)], &there, &[]), [2]);
        assert_eq!(clients(&[lack(5)], &there, &[]), [2, 3]);
        assert_eq!(clients(&[lack(12)], &there, &[]), [2, 3, 1]);
        assert_eq!(clients(&[lack(13)], &there, &[]), NOBODY);
        let mut own = lack(4);
        own.client = 2;
        assert_eq!(clients(&[own], &there, &[]), [3]);
    }

    #[test]
    fn what_would_fill_the_gpu_beyond_what_it_holds_waits() {
        let there = [idle(1, 4, 1)];
        assert_eq!(clients(&[lack(4)], &there, &[busy(5, 50, 9000)]), [1]);
        assert_eq!(clients(&[lack(4)], &there, &[busy(5, 51, 9000)]), NOBODY);
        let two = [busy(5, 30, 9000), busy(6, 30, 9000)];
        assert_eq!(clients(&[lack(4)], &there, &two), NOBODY);
        // However large the launch is, alone it may run.
        let mut large = lack(4);
        large.warps = 10 * WARPS;
        assert_eq!(clients(&[large], &there, &[]), [1]);
        // What runs elsewhere is no matter, nor is what the requester itself runs.
        let elsewhere = Busy {
            gpu: 1,
            ..busy(5, 100, 1)
        };
        let others = [elsewhere, busy(99, 100, 1)];
        assert_eq!(clients(&[lack(4)], &there, &others), [1]);
    }

    #[test]
    fn a_copy_hides_behind_the_shortest_kernel_that_runs() {
        let there = [idle(1, 4, 1)];
        assert_eq!(clients(&[lack(4)], &there, &[busy(5, 10, 400)]), [1]);
        assert_eq!(clients(&[lack(4)], &there, &[busy(5, 10, 399)]), NOBODY);
        let two = [busy(5, 10, 9000), busy(6, 10, 399)];
        assert_eq!(clients(&[lack(4)], &there, &two), NOBODY);
        // Nothing runs: it would stand still.
        assert_eq!(clients(&[lack(4)], &there, &[]), [1]);
    }

    #[test]
    fn what_came_back_is_used_before_it_leaves_again() {
        let mut back = idle(1, 4, 1);
        (back.idle, back.stays) = (ms(3000), ms(100));
        assert_eq!(clients(&[lack(4)], &[back], &[]), NOBODY);
        // Its kernel ran since.
        back.idle = ms(50);
        assert_eq!(clients(&[lack(4)], &[back], &[]), [1]);
        // It launched nothing.
        (back.idle, back.stays) = (ms(3400), LEAST_STAY);
        assert_eq!(clients(&[lack(4)], &[back], &[]), [1]);
    }

    #[test]
    fn a_gpu_has_one_eviction_at_a_time_and_the_host_room_for_it() {
        let there = [idle(1, 4, 1), idle(2, 4, 2)];
        assert_eq!(clients(&[lack(4), lack(4)], &there, &[]), [1]);
        let seen = GpuActivity {
            idle: &there,
            busy: &[],
            max_warps: &[WARPS],
        };
        assert!(choose(&[lack(4)], &seen, GpuSet::from_bits(1), SPEED, u64::MAX).is_empty());
        assert!(choose(&[lack(4)], &seen, GpuSet::EMPTY, SPEED, 4 * GIB - 1).is_empty());
        assert_eq!(choose(&[lack(4)], &seen, GpuSet::EMPTY, SPEED, 4 * GIB).len(), 1);
        // A GPU that nobody knows of.
        let mut far = lack(4);
        far.gpus = vec![(7, GIB)];
        assert!(choose(&[far], &seen, GpuSet::EMPTY, SPEED, u64::MAX).is_empty());
    }
}
