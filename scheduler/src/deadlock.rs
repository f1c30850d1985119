//! Who makes room when everybody waits: the rule that nothing can hang.
//!
//! Growth means hold and wait, so processes on a GPU can come to wait for each
//! other. The way out is that a waiter's own memory can be swapped to host
//! memory (a context cannot). The rule:
//!
//! - A process *waits on a GPU* if one of its requests waits (anywhere) and no
//!   task of it that holds room there can go on by itself. A task cannot go on
//!   if it ended, if its own growth waits, if the thread that last asked for it
//!   waits in some request, or if it has been quiet for a while ([`QUIET`], or
//!   [`BUSY`] with launches in flight). A process with a running task does not
//!   wait.
//! - Processes form a *ring* if each waits, and every GPU that its requests may
//!   go to is *stalled*: nothing is being reclaimed there, and every process
//!   that holds memory there waits on it and is of the ring. A process that has
//!   nothing yet is in no ring: it waits like any newcomer. One that was told to
//!   swap does not wait until it asks again, so one victim at a time is told.
//! - What tasks on stalled GPUs are only expected to need is given up before anything else
//!   ([`crate::broker`]'s expectations), so that bytes here are bytes that somebody has or asks for.
//! - For the request of the most senior process of the ring that swapping could make fit, the most junior
//!   process on its GPU makes room, if it is junior to that one. Seniority is the order of arrival of
//!   processes, and never changes; latency programs are senior to all batch programs.
//! - Until that request is granted, what comes free there is for it (a claim, in [`crate::broker`]): it may
//!   take several to make the room, and what they ask for next may be small.
//! - Where the room is there, and only the rule that no newcomer enters a GPU
//!   where growth waits keeps the process out, it is let in.
//! - A task that wants a GPU for itself is in a ring only if nobody at all on its
//!   GPUs can go on, with memory or without. Nobody is swapped for its being alone:
//!   where only the others' presence is in its way it begins beside what they hold,
//!   and they wait for its end. It begins so too, newcomer or not, after
//!   [`crate::policies::HOLDER_PATIENCE`] times the patience ([`beside`]), since
//!   those who only wait may pass it time and again.
//! - Where a task that has a GPU for itself waits in turn, and nothing else helps,
//!   others are let in beside it.
//! - Where contexts of waiters are what is in the way, juniors must be let
//!   through: then a senior process makes room for a junior.
//! - Where even that helps nobody, and those who only have a context there are
//!   of the ring as well, the most junior process is refused.
//!
//! Why this ends: each step swaps somebody out, grants something or refuses somebody. A process that was
//! swapped holds only its context until the request for which it made room is granted, or cannot be met any
//! more; no newcomer enters a GPU where growth waits, but for a process of the ring, once per GPU. So between
//! two grants there are at most twice as many swaps as processes (a growing task, then all others), and every
//! grant lets a program go on, the most senior one first that can. The most senior process makes room for
//! others only when it cannot go on before they are gone.
//!
//! A call may need two tasks of its process at once, and asks for one after the other. To this module they
//! are two tasks, of which the one that is there can be swapped out for the other's request ([`Remedy::Swap`] of
//! its own process): the grants between those swaps let the call ask again, and no program go on. So the
//! argument needs a bound from the asker: lazyrt makes one task of both after a few attempts, where they can
//! be one (then the request is as large as what the call touches, and is granted, waits or is refused as a
//! whole), and fails the call after a fixed number of them. While it gathers what one call touches, it evicts
//! none of its own idle memory.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::client::ClientId;
use crate::gpu_set::GpuSet;

/// How long a task without a launch in flight may ask for nothing, while its
/// process waits for room, before it counts as unable to go on. Being wrong
/// costs a swap, never a result.
pub const QUIET: Duration = Duration::from_secs(1);
/// The same with launches in flight. Bounded too: programs notice the end of
/// their launches only when they wait for them.
pub const BUSY: Duration = Duration::from_secs(20);

/// A process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// The process's number as a client.
    pub client: ClientId,
    /// It is a batch program, not one that people wait for.
    pub is_batch: bool,
    /// Index of the GPU.
    pub gpu: usize,
    /// Bytes its tasks are charged there; 0: only a context.
    pub reserved: u64,
    /// How much of that could be swapped out; 0 too if it was asked and could
    /// not.
    pub swappable: u64,
    /// It waits on this GPU, as the module says.
    pub waits: bool,
    /// It has room or a running task there.
    pub present: bool,
    /// It waits, and no task of it there, with room or without, can go on.
    pub still: bool,
    /// A task of it has the GPU for itself.
    pub alone: bool,
}

/// A request that does not fit now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The client that asked.
    pub client: ClientId,
    /// It is a batch program, not one that people wait for.
    pub is_batch: bool,
    /// GPUs it may go to.
    pub gpus: GpuSet,
    /// Bytes it asks for.
    pub bytes: u64,
    /// Bytes its own task holds there already (growth): they cannot help it.
    pub own: u64,
    /// It wants a GPU for itself.
    pub alone: bool,
    /// And has waited for one very long.
    pub aged: bool,
}

impl GpuProcess {
    /// Less is senior.
    fn seniority(&self) -> (bool, ClientId) {
        (self.is_batch, self.client)
    }
}

impl Blocked {
    /// The same as of the process.
    fn seniority(&self) -> (bool, ClientId) {
        (self.is_batch, self.client)
    }
}

/// A GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuRoom {
    /// Bytes that can be granted: left in the ledger, and shown free by the driver.
    pub left: u64,
    /// Bytes the ledger has left beyond that: something outside it has them.
    pub hidden: u64,
    /// Bytes of a context.
    pub context: u64,
    /// A dead process's room is about to come back.
    pub reclaiming: bool,
    /// No further process may come.
    pub full: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The process is to swap out what it holds on the GPU.
    Swap {
        /// The process that swaps out.
        client: ClientId,
        /// Index of the GPU that it leaves.
        gpu: usize,
        /// Whose request it makes room for; its own: with its other tasks.
        whose: ClientId,
    },
    /// The process has room on the GPU, and is to have it although others wait
    /// to grow, or are where somebody is to be alone.
    Admit {
        /// The process that is admitted.
        client: ClientId,
        /// Index of the GPU where it has room.
        gpu: usize,
    },
    /// Nobody can: the process's waiting requests are refused.
    Refuse {
        /// The process that is refused.
        client: ClientId,
    },
}

/// Who counts when asking whether a GPU may get room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    /// Those who hold memory: what swapping can change.
    Memory,
    /// Those who have a context too.
    Contexts,
}

/// The clients that wait for each other: none of their requests may go to a GPU
/// where room may come from somebody outside the set. They hold something, or `joins` says so of a newcomer.
fn ring(
    holders: &[GpuProcess],
    blocked: &[Blocked],
    rooms: &[GpuRoom],
    count: Count,
    joins: impl Fn(&Blocked) -> bool,
) -> BTreeSet<ClientId> {
    let mut ring: BTreeSet<ClientId> = blocked
        .iter()
        .filter(|&request| joins(request) || holders.iter().any(|holder| holder.client == request.client))
        .map(|request| request.client)
        .collect();
    loop {
        let able: Vec<ClientId> = blocked
            .iter()
            .filter(|request| {
                ring.contains(&request.client)
                    && targets(request, rooms)
                        .any(|gpu| moves(holders, rooms, &ring, gpu, count, request.alone))
            })
            .map(|request| request.client)
            .collect();
        if able.is_empty() {
            return ring;
        }
        ring.retain(|client| !able.contains(client));
    }
}

/// Whether somebody on the GPU may go on, given who cannot; for a request that wants to be `alone`, anybody
/// at all.
fn moves(
    holders: &[GpuProcess],
    rooms: &[GpuRoom],
    ring: &BTreeSet<ClientId>,
    gpu: usize,
    count: Count,
    alone: bool,
) -> bool {
    let goes_on = |holder: &GpuProcess| {
        let is_out = !ring.contains(&holder.client);
        let counts = count == Count::Contexts || holder.reserved > 0 || holder.alone;
        counts && (is_out || !holder.waits) || alone && holder.present && (is_out || !holder.still)
    };
    rooms[gpu].reclaiming || holders.iter().any(|holder| holder.gpu == gpu && goes_on(holder))
}

/// GPUs on which nobody who holds memory can go on.
pub fn stalled(holders: &[GpuProcess], blocked: &[Blocked], rooms: &[GpuRoom]) -> GpuSet {
    let ring = ring(holders, blocked, rooms, Count::Memory, |_| false);
    (0..rooms.len())
        .filter(|&gpu| !moves(holders, rooms, &ring, gpu, Count::Memory, false))
        .collect()
}

/// Lets a request in that has wanted a GPU for itself very long, where all others on that GPU only wait.
pub fn beside(holders: &[GpuProcess], blocked: &[Blocked], rooms: &[GpuRoom]) -> Option<Remedy> {
    let ring = ring(holders, blocked, rooms, Count::Memory, |request| request.aged);
    blocked
        .iter()
        .filter(|request| request.aged && ring.contains(&request.client))
        .find_map(|request| let_in(holders, request, rooms))
}

/// Has a request that wants to be alone begin where its room is there, and other processes there are all that
/// is in its way.
fn let_in(holders: &[GpuProcess], request: &Blocked, rooms: &[GpuRoom]) -> Option<Remedy> {
    let open = |gpu: &usize| !is_closed(holders, request, *gpu) && has_room(holders, request, rooms, *gpu);
    let gpu = targets(request, rooms).find(open).filter(|_| request.alone)?;
    let client = request.client;
    Some(Remedy::Admit { client, gpu })
}

/// Whether another process's task has the GPU for itself.
fn is_closed(holders: &[GpuProcess], request: &Blocked, gpu: usize) -> bool {
    holders
        .iter()
        .any(|holder| holder.gpu == gpu && holder.alone && holder.client != request.client)
}

fn has_context(holders: &[GpuProcess], client: ClientId, gpu: usize) -> bool {
    holders
        .iter()
        .any(|holder| holder.client == client && holder.gpu == gpu)
}

/// Whether the request could be granted on the GPU but for who else is there.
fn has_room(holders: &[GpuProcess], request: &Blocked, rooms: &[GpuRoom], gpu: usize) -> bool {
    let room = rooms[gpu];
    if has_context(holders, request.client, gpu) {
        room.left >= request.bytes
    } else {
        !room.full && room.left >= request.bytes.saturating_add(room.context)
    }
}

/// Whether those who have a GPU for themselves keep it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closed {
    Stays,
    Opens,
}

/// Finds the way out; `None` if there is no deadlock, or what is in the way is
/// not the ledger's: memory of foreign programs.
pub fn resolve(holders: &[GpuProcess], blocked: &[Blocked], rooms: &[GpuRoom]) -> Option<Remedy> {
    let in_ring = ring(holders, blocked, rooms, Count::Memory, |_| false);
    let mut stuck: Vec<&Blocked> = blocked
        .iter()
        .filter(|request| in_ring.contains(&request.client))
        .collect();
    stuck.sort_by_key(|request| request.seniority());
    let mut ledger_suffices = false;
    for (anybody, closed) in [
        (false, Closed::Stays),
        (true, Closed::Stays),
        (true, Closed::Opens),
    ] {
        if closed == Closed::Opens
            && let Some(way) = stuck.iter().find_map(|request| let_in(holders, request, rooms))
        {
            return Some(way);
        }
        for request in &stuck {
            let on = |gpu| victims(holders, request, gpu, anybody);
            let is_closed = |gpu| is_closed(holders, request, gpu);
            let has_room = |gpu| has_room(holders, request, rooms, gpu);
            let open = |gpu: &usize| closed == Closed::Opens || !is_closed(*gpu);
            if closed == Closed::Opens
                && let Some(gpu) = targets(request, rooms).find(|&gpu| is_closed(gpu) && has_room(gpu))
            {
                let client = request.client;
                return Some(Remedy::Admit { client, gpu });
            }
            // Nobody has to make room for it.
            if request.alone && targets(request, rooms).filter(open).any(has_room) {
                continue;
            }
            let best = targets(request, rooms)
                .filter(open)
                .filter(|&gpu| can_make_room(holders, request, rooms, gpu, anybody))
                .map(|gpu| (gpu, on(gpu).map(|(_, bytes)| bytes).sum::<u64>()))
                .max_by_key(|&(_, bytes)| bytes);
            let Some((gpu, _)) = best else {
                // With what something outside the ledger has it would fit: that may go away.
                ledger_suffices |= targets(request, rooms).filter(open).any(|gpu| {
                    let victims: u64 = on(gpu).map(|(_, bytes)| bytes).sum();
                    let most = rooms[gpu]
                        .left
                        .saturating_add(rooms[gpu].hidden)
                        .saturating_add(victims);
                    rooms[gpu].hidden > 0 && most >= request.bytes.saturating_add(rooms[gpu].context)
                });
                continue;
            };
            let Some((victim, _)) = on(gpu).max_by_key(|(holder, _)| holder.seniority()) else {
                // The room is there already.
                if !has_context(holders, request.client, gpu) && !rooms[gpu].full {
                    let client = request.client;
                    return Some(Remedy::Admit { client, gpu });
                }
                // It is for the driver or the queue to let it go.
                ledger_suffices = true;
                continue;
            };
            let client = victim.client;
            return Some(Remedy::Swap {
                client,
                gpu,
                whose: request.client,
            });
        }
    }
    if ledger_suffices {
        return None;
    }
    let in_ring = ring(holders, blocked, rooms, Count::Contexts, |_| false);
    let of_ring = blocked.iter().filter(|request| in_ring.contains(&request.client));
    let junior = of_ring.max_by_key(|request| request.seniority())?;
    let client = junior.client;
    Some(Remedy::Refuse { client })
}

fn targets<'a>(request: &'a Blocked, rooms: &'a [GpuRoom]) -> impl Iterator<Item = usize> + 'a {
    (0..rooms.len()).filter(|gpu| request.gpus.contains(gpu))
}

/// Whether there would be room for the request on the GPU if others swapped out what they hold there: those
/// that came after it, or anybody.
pub fn can_make_room(
    holders: &[GpuProcess],
    request: &Blocked,
    rooms: &[GpuRoom],
    gpu: usize,
    anybody: bool,
) -> bool {
    let made: u64 = victims(holders, request, gpu, anybody)
        .map(|(_, bytes)| bytes)
        .sum();
    let context = if has_context(holders, request.client, gpu) {
        0
    } else {
        rooms[gpu].context
    };
    rooms[gpu].left.saturating_add(made) >= request.bytes.saturating_add(context)
}

/// Who could make room for the request on the GPU, and how much.
fn victims<'a>(
    holders: &'a [GpuProcess],
    request: &'a Blocked,
    gpu: usize,
    anybody: bool,
) -> impl Iterator<Item = (&'a GpuProcess, u64)> + 'a {
    holders
        .iter()
        .filter(move |h| h.gpu == gpu && (anybody || h.seniority() >= request.seniority()))
        .filter_map(|holder| {
            let own = if holder.client == request.client {
                request.own
            } else {
                0
            };
            let bytes = holder.swappable.saturating_sub(own);
            (bytes > 0).then_some((holder, bytes))
        })
}

#[cfg(test)]
mod tests;
