//! Whose memory makes room for a latency program: also a pure function, whichever rule holds for batch
//! programs.
//!
//! Somebody waits for what a latency program computes, and batch programs can wait. So, unlike in
//! [`super::choose`]:
//!
//! - Memory of batch programs that lies idle leaves at once: nothing has to pay, and the request need not
//!   have waited.
//! - Where that is not enough, batch programs at work leave as well, once the work under way has ended. Who
//!   has been idle for less than [`super::LEAST_IDLE`] may be between two launches, and is taken for one at
//!   work. One that came back keeps its memory for twice as long as both copies take, so copies take a third
//!   of its time at most, whatever latency programs ask for.
//! - Memory of other latency programs leaves only where all that batch programs have on any GPU would not do,
//!   if it has lain idle for as long as both copies take, and after [`super::longest_wait`].
//! - A GPU has one eviction under way at a time. The host has room for what leaves, and nobody leaves in
//!   vain.
//!
//! For a batch program's request no memory of a latency program leaves: callers leave it out of what they
//! hand to a rule.

use super::{IdleProcess, LEAST_IDLE, LEAST_STAY, Lack, Speed, fewest, longest_wait, pays};
use crate::gpu_set::GpuSet;

/// What lies idle, and what does not.
#[derive(Clone, Copy, Debug)]
pub struct EvictableMemory<'a> {
    /// Processes without work on a GPU, of both classes.
    pub idle: &'a [IdleProcess],
    /// Batch programs at work, as if idle for no time.
    pub at_work: &'a [IdleProcess],
}

/// Whom to evict from which GPU, and for which request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayForLatency<'a> {
    /// The request of a latency program.
    pub lack: &'a Lack,
    /// Those who make room for it, on one GPU.
    pub evicted: Vec<IdleProcess>,
}

/// Whom to evict for requests of latency programs; those of others are passed over.
pub fn choose<'a>(
    lacks: &'a [Lack],
    there: EvictableMemory<'_>,
    mut closed: GpuSet,
    speed: Speed,
    mut host: u64,
) -> Vec<WayForLatency<'a>> {
    let mut chosen = Vec::new();
    for lack in lacks.iter().filter(|lack| lack.is_latency) {
        // Where a GPU is closed, what leaves it may be enough.
        let open = ways_for(lack, there, speed, host).into_iter();
        let open = open.filter(|way| way.iter().all(|own| !closed.contains(own.gpu)));
        let Some(evicted) = open.min_by_key(|way| bytes_of(way)) else {
            continue;
        };
        host -= bytes_of(&evicted);
        closed |= evicted.iter().map(|own| own.gpu).collect();
        chosen.push(WayForLatency { lack, evicted });
    }
    chosen
}

/// Whether it is at work, or may be between two launches: the work is to end before its memory leaves.
pub fn is_at_work(own: &IdleProcess) -> bool {
    own.idle < LEAST_IDLE
}

/// By GPU: who makes room for the request there. Only those of the first kind of which there is enough
/// anywhere.
fn ways_for(lack: &Lack, there: EvictableMemory<'_>, speed: Speed, host: u64) -> Vec<Vec<IdleProcess>> {
    let idle = there.idle.iter().filter(|own| own.client != lack.client);
    let at_work = there.at_work.iter().filter(|own| own.client != lack.client);
    let has_stayed = |own: &&IdleProcess| {
        let stay = LEAST_STAY.max(2 * speed.both_ways(own.bytes));
        own.times == 0 || own.stays >= stay
    };
    let has_aged =
        |own: &&IdleProcess| lack.waited >= longest_wait(own.bytes, speed) && pays(own, lack.waited, speed);
    let mut among: Vec<IdleProcess> = Vec::new();
    let (latency, batch): (Vec<&IdleProcess>, Vec<&IdleProcess>) = idle.partition(|own| own.is_latency);
    let (batch, between): (Vec<&IdleProcess>, Vec<&IdleProcess>) =
        batch.into_iter().partition(|own| !is_at_work(own));
    let kinds = [
        batch,
        between.into_iter().chain(at_work).filter(has_stayed).collect(),
        latency.into_iter().filter(has_aged).collect(),
    ];
    for kind in kinds {
        among.extend(kind);
        let on = |gpu: usize| among.iter().filter(|own| own.gpu == gpu).copied().collect();
        let ways = lack
            .gpus
            .iter()
            .filter_map(|&(gpu, bytes)| fewest(on(gpu), bytes));
        let ways: Vec<Vec<IdleProcess>> = ways.filter(|way| bytes_of(way) <= host).collect();
        if !ways.is_empty() {
            return ways;
        }
    }
    Vec::new()
}

fn bytes_of(way: &[IdleProcess]) -> u64 {
    way.iter().map(|own| own.bytes).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::ClientId;

    const GIB: u64 = 1 << 30;
    const NOBODY: [ClientId; 0] = [];
    /// Ten gibibytes take a second each way.
    const SPEED: Speed = Speed {
        bytes_per_s: 10 * GIB,
    };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A batch program that has had ten gibibytes for a minute, and no work for so many seconds.
    fn batch(client: ClientId, gpu: usize, idle: u64) -> IdleProcess {
        IdleProcess {
            client,
            is_latency: false,
            gpu,
            bytes: 10 * GIB,
            idle: seconds(idle),
            phase: None,
            stays: seconds(60),
            times: 0,
            uses: 0,
        }
    }

    fn latency(client: ClientId, gpu: usize, idle: u64) -> IdleProcess {
        IdleProcess {
            is_latency: true,
            ..batch(client, gpu, idle)
        }
    }

    /// A latency program that lacks so many gibibytes on these GPUs.
    fn lack(waited: u64, gpus: &[(usize, u64)]) -> Lack {
        Lack {
            client: 99,
            is_latency: true,
            waited: seconds(waited),
            warps: 0,
            gpus: gpus.iter().map(|&(gpu, gib)| (gpu, gib * GIB)).collect(),
        }
    }

    fn clients(lacks: &[Lack], idle: &[IdleProcess], at_work: &[IdleProcess], closed: u64) -> Vec<ClientId> {
        let there = EvictableMemory { idle, at_work };
        let ways = choose(lacks, there, GpuSet::from_bits(closed), SPEED, 40 * GIB);
        let evicted = ways.iter().flat_map(|way| &way.evicted);
        evicted.map(|own| own.client).collect()
    }

    #[test]
    fn idle_batch_memory_leaves_at_once() {
        let mut just_back = batch(1, 0, 0);
        (just_back.stays, just_back.times, just_back.phase) = (seconds(0), 3, Some(seconds(0)));
        assert_eq!(clients(&[lack(0, &[(0, 8)])], &[just_back], &[], 0), NOBODY);
        just_back.idle = LEAST_IDLE;
        assert_eq!(clients(&[lack(0, &[(0, 8)])], &[just_back], &[], 0), [1]);
        // The request of a batch program is not looked at here.
        let mut of_batch = lack(60, &[(0, 8)]);
        of_batch.is_latency = false;
        assert_eq!(clients(&[of_batch], &[just_back], &[], 0), NOBODY);
        // Nobody leaves in vain.
        assert_eq!(clients(&[lack(60, &[(0, 11)])], &[just_back], &[], 0), NOBODY);
    }

    #[test]
    fn batch_programs_at_work_leave_where_idle_memory_is_not_enough() {
        let (idle, at_work) = ([batch(1, 0, 5)], [batch(2, 0, 0), batch(3, 1, 0)]);
        assert_eq!(clients(&[lack(0, &[(0, 8), (1, 8)])], &idle, &at_work, 0), [1]);
        assert_eq!(clients(&[lack(0, &[(1, 8)])], &idle, &at_work, 0), [3]);
        let mut both = clients(&[lack(0, &[(0, 15)])], &idle, &at_work, 0);
        both.sort_unstable();
        assert_eq!(both, [1, 2]);
        // It came back, and has had its memory for less than the four seconds that two evictions take.
        let mut back = batch(3, 1, 0);
        (back.times, back.stays) = (1, Duration::from_millis(3999));
        assert_eq!(clients(&[lack(60, &[(1, 8)])], &[], &[back], 0), NOBODY);
        back.stays = seconds(4);
        assert_eq!(clients(&[lack(60, &[(1, 8)])], &[], &[back], 0), [3]);
    }

    #[test]
    fn latency_programs_make_room_for_each_other_where_nothing_else_does() {
        let idle = [latency(1, 0, 30), batch(2, 1, 0)];
        let bound = longest_wait(10 * GIB, SPEED).as_secs() + 1;
        assert_eq!(clients(&[lack(bound, &[(0, 8), (1, 8)])], &idle, &[], 0), [2]);
        let at_work = [batch(3, 1, 0)];
        assert_eq!(
            clients(&[lack(bound, &[(0, 8), (1, 8)])], &idle[..1], &at_work, 0),
            [3]
        );
        assert_eq!(clients(&[lack(bound, &[(0, 8)])], &idle, &at_work, 0), [1]);
        // It waits for longer than a batch program's would be waited for, and its idle phase has to pay.
        assert_eq!(clients(&[lack(bound - 2, &[(0, 8)])], &idle, &[], 0), NOBODY);
        assert_eq!(
            clients(&[lack(bound, &[(0, 8)])], &[latency(1, 0, 1)], &[], 0),
            NOBODY
        );
    }

    #[test]
    fn what_is_about_to_leave_is_waited_for() {
        let (idle, at_work) = ([batch(1, 0, 5)], [batch(3, 1, 0)]);
        let one = lack(0, &[(0, 8), (1, 8)]);
        assert_eq!(clients(std::slice::from_ref(&one), &idle, &at_work, 1), NOBODY);
        assert_eq!(clients(&[one.clone(), one.clone()], &idle, &at_work, 0), [1]);
        // The host has room for four of them.
        let there = EvictableMemory {
            idle: &idle,
            at_work: &[],
        };
        assert!(choose(&[one], there, GpuSet::EMPTY, SPEED, 10 * GIB - 1).is_empty());
    }
}
