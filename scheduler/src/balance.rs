//! Which task goes on, on another GPU: a pure function of what runs where, beside [`crate::eviction`].
//!
//! A placement that was right when a task began may be wrong later: one GPU is idle while tasks share
//! another, or room is left on every GPU that together would do for a task that waits. Tasks that the pass
//! has proven to be movable can go on elsewhere. A move costs a copy from GPU to GPU, so:
//!
//! - For a request that waits a task moves if that makes the request fit, and the task fits elsewhere. The
//!   one with the fewest bytes is taken, an idle one first.
//! - Else a task moves from a GPU that is shared to one with less work, if the busier of both has less work
//!   by [`GAIN`] then, and the copy is a small part ([`SHARE`]) of the time that the task has been where it
//!   is: who has run for long is expected to run for as long again.
//! - Who has moved stays for [`LEAST_STAY`] at least, and longer each time.

use std::time::Duration;

use crate::client::ClientId;
use crate::eviction::{LEAST_WAIT, Lack};
use crate::ledger::TaskKey;

/// How long a task has been on its GPU at least before it moves.
pub const LEAST_STAY: Duration = Duration::from_millis(500);
/// For how long there is work to be evened out between two GPUs before a task moves: who has just begun
/// counts as busy, and a GPU may be without work for a moment.
pub const SETTLED: Duration = Duration::from_millis(500);
/// By how much less work the busier GPU has after a move, in thousandths of what fills a GPU.
pub const GAIN: u32 = 400;
/// Of the time that a task has been on its GPU the copy takes one part in so many.
pub const SHARE: u32 = 10;
/// What a move is expected to take beside its copy: until the GPU has come to rest, and a context is made.
const BASE: Duration = Duration::from_millis(50);
/// Bytes that go from one GPU to another in a second, at least.
const BYTES_PER_S: u64 = 16 << 30;

/// A task that can go on elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mover {
    /// The task that can go on elsewhere.
    pub key: TaskKey,
    /// Its GPU; index.
    pub gpu: usize,
    /// Bytes that it leaves there.
    pub bytes: u64,
    /// How much work it has lately, in thousandths of what fills a GPU.
    pub work: u32,
    /// For how long it has been there.
    pub stays: Duration,
    /// How often it has moved.
    pub times: u32,
    /// By GPU: the bytes that it takes there.
    pub costs: Vec<u64>,
}

/// The room and the work of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuLoad {
    /// Bytes that are left.
    pub room: u64,
    /// How much work its processes have lately, in thousandths of what fills a GPU.
    pub work: u32,
    /// Nobody is to come.
    pub closed: bool,
}

/// A task and the GPU where it is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The task that moves.
    pub key: TaskKey,
    /// Index of the GPU that it leaves.
    pub from: usize,
    /// Index of the GPU where it is to go.
    pub to: usize,
    /// A request waits for it. Else it evens out the work, if that is not done by itself ([`SETTLED`]).
    pub is_wanted: bool,
}

/// The next move, if there is one that pays. `lacks`: the requests that do not fit.
pub fn choose(movers: &[Mover], places: &[GpuLoad], lacks: &[Lack]) -> Option<Move> {
    let for_request = lacks.iter().find_map(|lack| make_room(movers, places, lack));
    for_request.or_else(|| even_out(movers, places))
}

/// The other GPUs where the task fits, the one with least work first.
pub fn goals<'a>(mover: &'a Mover, places: &'a [GpuLoad]) -> impl Iterator<Item = usize> {
    let is_open = |(to, place): &(usize, &GpuLoad)| {
        *to != mover.gpu && !place.closed && mover.costs.get(*to).is_some_and(|cost| *cost <= place.room)
    };
    let mut open: Vec<_> = places.iter().enumerate().filter(is_open).collect();
    open.sort_by_key(|(_, place)| place.work);
    open.into_iter().map(|(to, _)| to)
}

fn make_room(movers: &[Mover], places: &[GpuLoad], lack: &Lack) -> Option<Move> {
    if lack.waited < LEAST_WAIT {
        return None;
    }
    let client: ClientId = lack.client;
    let ways = lack.gpus.iter().flat_map(|&(gpu, lacking)| {
        let helps = move |mover: &&Mover| {
            mover.gpu == gpu && mover.key.client != client && mover.bytes >= lacking && has_stayed(mover)
        };
        movers.iter().filter(helps)
    });
    let ways = ways.filter_map(|mover| Some((mover, goals(mover, places).next()?)));
    let (mover, to) = ways.min_by_key(|(mover, _)| (mover.work > 0, mover.bytes))?;
    Some(mover.goes(to, true))
}

fn even_out(movers: &[Mover], places: &[GpuLoad]) -> Option<Move> {
    let gains = movers.iter().filter(|mover| has_stayed(mover) && is_cheap(mover));
    let gains = gains.filter_map(|mover| {
        let to = goals(mover, places).next()?;
        let (from, there) = (places[mover.gpu].work, places[to].work);
        let after = from
            .saturating_sub(mover.work)
            .max(there.saturating_add(mover.work));
        let gain = from.saturating_sub(after);
        (gain >= GAIN).then_some((gain, mover, to))
    });
    let (_, mover, to) = gains.max_by_key(|(gain, mover, _)| (*gain, std::cmp::Reverse(mover.bytes)))?;
    Some(mover.goes(to, false))
}

impl Mover {
    /// Its move to that GPU.
    pub fn goes(&self, to: usize, is_wanted: bool) -> Move {
        Move {
            key: self.key,
            from: self.gpu,
            to,
            is_wanted,
        }
    }
}

fn has_stayed(mover: &Mover) -> bool {
    mover.stays >= LEAST_STAY * (1 << mover.times.min(8))
}

fn is_cheap(mover: &Mover) -> bool {
    let copy = BASE + Duration::from_secs_f64(mover.bytes as f64 / BYTES_PER_S as f64);
    mover.stays >= copy * SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn mover(client: ClientId, gpu: usize, gib: u64, work: u32) -> Mover {
        Mover {
            key: TaskKey { client, task: 1 },
            gpu,
            bytes: gib * GIB,
            work,
            stays: Duration::from_secs(60),
            times: 0,
            costs: vec![gib * GIB; 2],
        }
    }

    fn place(gib: u64, work: u32) -> GpuLoad {
        GpuLoad {
            room: gib * GIB,
            work,
            closed: false,
        }
    }

    fn lack(gpus: &[(usize, u64)]) -> Lack {
        Lack {
            client: 99,
            is_latency: false,
            waited: Duration::from_secs(1),
            warps: 0,
            gpus: gpus.iter().map(|&(gpu, gib)| (gpu, gib * GIB)).collect(),
        }
    }

    fn moved(movers: &[Mover], places: &[GpuLoad], lacks: &[Lack]) -> Option<(ClientId, usize)> {
        choose(movers, places, lacks).map(|one| (one.key.client, one.to))
    }

    #[test]
    fn an_idle_gpu_gets_one_of_two_that_share_another() {
        let two = [mover(1, 0, 4, 1000), mover(2, 0, 2, 1000)];
        assert_eq!(moved(&two, &[place(8, 2000), place(16, 0)], &[]), Some((2, 1)));
        assert_eq!(moved(&two, &[place(8, 2000), place(1, 0)], &[]), None);
        let mut closed = place(16, 0);
        closed.closed = true;
        assert_eq!(moved(&two, &[place(8, 2000), closed], &[]), None);
    }

    #[test]
    fn loads_that_a_move_would_only_exchange_stay() {
        let one = [mover(1, 0, 4, 1000)];
        assert_eq!(moved(&one, &[place(8, 1000), place(16, 0)], &[]), None);
        let two = [mover(1, 0, 4, 1000), mover(2, 0, 4, 1000)];
        assert_eq!(moved(&two, &[place(8, 2000), place(16, 1000)], &[]), None);
        let three = [mover(1, 0, 4, 1000), mover(2, 0, 4, 1000), mover(3, 0, 4, 1000)];
        assert!(moved(&three, &[place(8, 3000), place(16, 1000)], &[]).is_some());
        // Two that together do not fill the GPU.
        let small = [mover(1, 0, 4, 300), mover(2, 0, 4, 300)];
        assert_eq!(moved(&small, &[place(8, 600), place(16, 0)], &[]), None);
    }

    #[test]
    fn who_has_just_come_stays() {
        let mut two = [mover(1, 0, 16, 1000), mover(2, 0, 16, 1000)];
        let places = [place(8, 2000), place(64, 0)];
        for stays in [400, 5000] {
            for one in &mut two {
                one.stays = Duration::from_millis(stays);
            }
            assert_eq!(moved(&two, &places, &[]), None, "{stays}");
        }
        for one in &mut two {
            one.stays = Duration::from_secs(11);
        }
        assert!(moved(&two, &places, &[]).is_some());
        for one in &mut two {
            one.times = 5;
        }
        assert_eq!(moved(&two, &places, &[]), None);
    }

    #[test]
    fn a_task_makes_room_for_one_that_waits() {
        let there = [mover(1, 0, 4, 1000), mover(2, 0, 6, 0), mover(3, 1, 4, 0)];
        let places = [place(2, 1000), place(6, 0)];
        assert_eq!(moved(&there, &places, &[lack(&[(0, 5), (1, 1)])]), Some((2, 1)));
        assert_eq!(moved(&there, &places, &[lack(&[(0, 7)])]), None);
        let mut soon = lack(&[(0, 5)]);
        soon.waited = Duration::from_millis(50);
        assert_eq!(moved(&there, &places, &[soon]), None);
        let mut own = lack(&[(0, 5)]);
        own.client = 2;
        assert_eq!(moved(&there, &places, &[own]), None);
    }
}
