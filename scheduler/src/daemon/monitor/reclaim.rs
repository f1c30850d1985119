//! Rooms of the dead: charged until the driver shows them free.
//!
//! Room counts as free once the process is gone, the driver lists it no more,
//! and what is used is what foreign programs had before plus what living holders
//! have. Where others come, go and grow at that very moment the sum may never
//! come out, so a short while after the process is gone it counts as free all
//! the same. Either way a grant also needs the driver's free memory to cover it
//! (see `memory_monitor`), so letting go of the charge can never overfill a GPU.
//!
//! Where the driver says nothing at all, the room is free a fixed time after the
//! death: measured with driver 580, its memory is free when the exit shows.

use std::time::Duration;

use mgb_probe::view::ReclaimView;

use crate::Broker;
use crate::daemon::limits::{LOG_LINES, Limiter};
use crate::daemon::monitor::memory_monitor::GpuSample;
use crate::ledger::Reclaiming;

/// How long after the process is gone its room stays charged although the sums
/// do not come out. Measured with driver 580, memory is free when the exit shows,
/// or some 40 ms later where `mgbd` has files of the process to close (see `client_fds`).
const SETTLED: Duration = Duration::from_millis(100);
/// How long room is kept after a death where the driver says nothing.
const BLIND: Duration = Duration::from_millis(500);
/// Between two looks lies this part of the time since the last death,
const INTERVAL_PART: u32 = 16;
/// but no less than this,
const MIN_INTERVAL: Duration = Duration::from_millis(2);
/// and no more.
const MAX_INTERVAL: Duration = Duration::from_millis(500);
/// Finished entries kept for the node view.
const REMEMBERED: usize = 64;

struct ReclaimingProcess {
    pid: u32,
    lost: Reclaiming,
    marked: Duration,
    freed: Option<Duration>,
    /// When the process was gone, and nothing of it was kept.
    exited: Option<Duration>,
    /// Since when it is so, and the driver does not list it as far as one saw.
    gone: Option<Duration>,
}

/// The rooms under way, and the latest ones that came back.
pub(crate) struct Reclaims {
    entries: Vec<ReclaimingProcess>,
    /// The last look.
    looked: Duration,
    /// Lines of the log about deaths, and about rooms that are free again.
    deaths: Limiter<()>,
    frees: Limiter<()>,
}

impl Reclaims {
    /// No rooms are under way.
    pub(crate) fn new() -> Reclaims {
        Reclaims {
            entries: Vec::new(),
            looked: Duration::ZERO,
            deaths: Limiter::new(LOG_LINES),
            frees: Limiter::new(LOG_LINES),
        }
    }

    /// Notes a death that was marked in the ledger at `now`, and to which the loop woke up at `seen`. The
    /// process may still be on its way out.
    pub(crate) fn died(&mut self, pid: u32, lost: Vec<Reclaiming>, seen: Duration, now: Duration) {
        for lost in lost {
            let marked = now.saturating_sub(seen);
            if let Some(left_out) = self.deaths.take((), now) {
                tracing::info!(
                    pid,
                    gpu = lost.gpu,
                    bytes = lost.bytes,
                    marked_us = marked.as_micros() as u64,
                    left_out,
                    "a process dies: its room is reclaiming"
                );
            }
            self.entries.push(ReclaimingProcess {
                pid,
                lost,
                marked,
                freed: None,
                exited: None,
                gone: None,
            });
        }
        let excess = self.entries.len().saturating_sub(REMEMBERED);
        let mut dropped = 0;
        self.entries.retain(|entry| {
            let drop = entry.freed.is_some() && dropped < excess;
            dropped += usize::from(drop);
            !drop
        });
    }

    /// A process that was on its way out is gone, with all it had on the GPUs.
    pub(crate) fn exited(&mut self, pid: u32, now: Duration) {
        for entry in self.entries.iter_mut().filter(|entry| entry.pid == pid) {
            entry.exited.get_or_insert(now);
            entry.gone.get_or_insert(now);
        }
    }

    /// How long until the next look, if something is under way.
    pub(crate) fn due_in(&self, now: Duration) -> Option<Duration> {
        Some((self.looked + self.interval(now)?).saturating_sub(now))
    }

    /// From one look to the next: often right after a death, the less often the longer ago it is, since a
    /// process that only closed its connection may be listed for ever. Each look asks the driver for its list
    /// of processes.
    fn interval(&self, now: Duration) -> Option<Duration> {
        let newest = self
            .entries
            .iter()
            .filter(|entry| entry.freed.is_none())
            .filter_map(|entry| entry.exited)
            .max()?;
        let part = now.saturating_sub(newest) / INTERVAL_PART;
        Some(part.clamp(MIN_INTERVAL, MAX_INTERVAL))
    }

    /// Gives back what the driver shows free; true if anything was.
    pub(crate) fn check(&mut self, gpus: &[GpuSample], broker: &mut Broker, now: Duration) -> bool {
        self.looked = now;
        let mut any = false;
        for entry in self.entries.iter_mut().filter(|entry| entry.freed.is_none()) {
            let seen = &gpus[entry.lost.gpu];
            if !entry.is_free(seen, now) || broker.freed(entry.lost.id).is_none() {
                continue;
            }
            any = true;
            let took = now.saturating_sub(entry.lost.since);
            entry.freed = Some(took);
            if let Some(left_out) = self.frees.take((), now) {
                tracing::info!(
                    pid = entry.pid,
                    gpu = entry.lost.gpu,
                    bytes = entry.lost.bytes,
                    freed_us = took.as_micros() as u64,
                    driver_free = seen.memory.map(|memory| memory.free),
                    left_out,
                    "the room is free again"
                );
            }
        }
        any
    }

    /// For the node view.
    pub(crate) fn views(&self) -> Vec<ReclaimView> {
        let view = |entry: &ReclaimingProcess| ReclaimView {
            pid: entry.pid,
            gpu: entry.lost.gpu as u32,
            bytes: entry.lost.bytes,
            marked_us: entry.marked.as_micros() as u64,
            freed_us: entry.freed.map(|took| took.as_micros() as u64),
        };
        self.entries.iter().map(view).collect()
    }
}

impl ReclaimingProcess {
    fn is_free(&mut self, seen: &GpuSample, now: Duration) -> bool {
        let Some(gone) = self.gone else {
            return false;
        };
        let Some(memory) = seen.memory else {
            return now.saturating_sub(gone) >= BLIND;
        };
        let listed = seen
            .residents
            .iter()
            .flatten()
            .any(|resident| resident.pid == self.pid);
        if listed {
            self.gone = Some(now);
            return false;
        }
        // Small leftovers (the MPS server's, other contexts' growth) do not hold
        // up the rest.
        let slack = (self.lost.bytes / 64).max(2 << 20);
        let back = memory.used() <= seen.foreign.saturating_add(seen.actual).saturating_add(slack);
        back || now.saturating_sub(gone) >= SETTLED
    }
}

#[cfg(test)]
mod tests {
    use mgb_interface::Policy;

    use super::*;
    use crate::broker::ServingRules;
    use crate::node::{GpuMemory, Resident, test_gpu};

    /// Of a process that goes on and only closed its connection, the driver lists the memory as before.
    #[test]
    fn a_process_that_stays_listed_is_looked_for_less_and_less_often() {
        let mut broker = Broker::new(vec![test_gpu(0, 100, 1)], ServingRules::new(Policy::Mgb));
        let mut seen = GpuSample::default();
        seen.memory = Some(GpuMemory { total: 100, free: 50 });
        seen.residents = Some(vec![Resident {
            pid: 7,
            bytes: Some(50),
        }]);
        let mut reclaims = Reclaims::new();
        let lost = Reclaiming {
            id: 1,
            client: 1,
            gpu: 0,
            bytes: 50,
            since: Duration::ZERO,
        };
        reclaims.died(7, vec![lost], Duration::ZERO, Duration::ZERO);
        reclaims.exited(7, Duration::ZERO);
        let (mut now, mut looks) = (Duration::ZERO, 0);
        while now < Duration::from_secs(60) {
            now += reclaims
                .due_in(now)
                .expect("it is under way")
                .max(Duration::from_micros(1));
            assert!(!reclaims.check(std::slice::from_ref(&seen), &mut broker, now));
            looks += 1;
        }
        assert!(looks < 300, "{looks} looks in a minute");
        assert_eq!(reclaims.due_in(now), Some(MAX_INTERVAL));
    }
}
