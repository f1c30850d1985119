//! Where the time of a swap goes, for the trace. Only a thread that swaps measures anything.

use mgb_probe::trace::{Swap, SwapKind, SwapParts, Swapped};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// How many swaps of a process have an entry in its trace: a few hundred bytes each.
const MAX_TRACE_ENTRIES: u64 = 10_000;

/// All swaps of this process.
struct Totals {
    process: u32,
    entries: u64,
    swapped: Swapped,
}

static TOTALS: Mutex<Totals> = Mutex::new(Totals {
    process: 0,
    entries: 0,
    swapped: Swapped {
        evicted: 0,
        evicted_bytes: 0,
        restored: 0,
        restored_bytes: 0,
        moved: 0,
        moved_bytes: 0,
        copy_ns: 0,
        left_out: 0,
    },
});

/// What a thread that swaps spends time on: see [`SwapParts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// Waiting for the GPU to come to rest.
    Rest,
    /// Waiting for room.
    Room,
    /// On device memory.
    Map,
    /// On host memory.
    Host,
    /// Waiting for copies.
    Copy,
}

/// Measures one swap, by one thread at a time.
#[derive(Debug)]
pub struct Watch {
    kind: SwapKind,
    from: u64,
    /// Up to here the time is booked.
    last: u64,
    parts: SwapParts,
    /// Whether the copies go through the ring of pinned memory.
    pub pumped: bool,
}

/// What the machine's monotonic clock shows, in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Watch {
    /// Begins with the order to swap, or the first request for room.
    pub fn begin(kind: SwapKind) -> Watch {
        let from = now();
        Watch {
            kind,
            from,
            last: from,
            parts: SwapParts::default(),
            pumped: false,
        }
    }

    /// The time since the last call went there.
    pub fn book(&mut self, spent: Spent) {
        let now = now();
        let parts = &mut self.parts;
        let part = match spent {
            Spent::Rest => &mut parts.rest_ns,
            Spent::Room => &mut parts.room_ns,
            Spent::Map => &mut parts.map_ns,
            Spent::Host => &mut parts.host_ns,
            Spent::Copy => &mut parts.copy_ns,
        };
        *part += now - self.last;
        self.last = now;
    }

    /// Ends it, with so many bytes of the GPU that were copied. The entry for the trace: none where nothing
    /// was copied, where no trace is wanted, and where the process has enough of them.
    pub fn end(self, gpu: u32, bytes: u64) -> Option<Swap> {
        if bytes == 0 || !mgb_probe::trace::is_wanted() {
            return None;
        }
        let mut totals = TOTALS.lock();
        let is_kept = totals.count(self.kind, bytes, self.parts.copy_ns);
        is_kept.then(|| Swap {
            kind: self.kind,
            gpu,
            bytes,
            from_ns: self.from,
            to_ns: now(),
            parts: self.parts,
            pumped: self.pumped,
        })
    }
}

impl Totals {
    /// Whether there is room for an entry.
    fn count(&mut self, kind: SwapKind, bytes: u64, copy_ns: u64) -> bool {
        let process = std::process::id();
        if self.process != process {
            // A forked child has its parent's.
            *self = Totals {
                process,
                entries: 0,
                swapped: Swapped::default(),
            };
        }
        let all = &mut self.swapped;
        match kind {
            SwapKind::Evicted => {
                all.evicted += 1;
                all.evicted_bytes += bytes;
            }
            SwapKind::Restored => {
                all.restored += 1;
                all.restored_bytes += bytes;
            }
            SwapKind::Moved => {
                all.moved += 1;
                all.moved_bytes += bytes;
            }
        }
        all.copy_ns += copy_ns;
        let is_kept = self.entries < MAX_TRACE_ENTRIES;
        if is_kept {
            self.entries += 1;
        } else {
            all.left_out += 1;
        }
        is_kept
    }
}

/// All swaps of this process so far; none if there were none, or a thread counts one at this moment.
pub fn total() -> Option<Swapped> {
    let totals = TOTALS.try_lock()?;
    (totals.process == std::process::id()).then_some(totals.swapped)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_time_is_booked_once() {
        let mut watch = Watch::begin(SwapKind::Evicted);
        for spent in [Spent::Rest, Spent::Room, Spent::Map, Spent::Host, Spent::Copy] {
            std::thread::sleep(Duration::from_millis(2));
            watch.book(spent);
        }
        let parts = watch.parts;
        let each = [
            parts.rest_ns,
            parts.room_ns,
            parts.map_ns,
            parts.host_ns,
            parts.copy_ns,
        ];
        assert!(each.iter().all(|part| *part >= 2_000_000), "{parts:?}");
        assert_eq!(each.iter().sum::<u64>(), watch.last - watch.from);
    }

    #[test]
    fn entries_are_bounded_and_totals_are_not() {
        let mut totals = Totals {
            process: 0,
            entries: 0,
            swapped: Swapped::default(),
        };
        let kept = (0..2 * MAX_TRACE_ENTRIES)
            .filter(|at| {
                let kind = if at % 2 == 0 {
                    SwapKind::Evicted
                } else {
                    SwapKind::Restored
                };
                totals.count(kind, 3, 5)
            })
            .count();
        assert_eq!(kept as u64, MAX_TRACE_ENTRIES);
        let expected = Swapped {
            evicted: MAX_TRACE_ENTRIES,
            evicted_bytes: 3 * MAX_TRACE_ENTRIES,
            restored: MAX_TRACE_ENTRIES,
            restored_bytes: 3 * MAX_TRACE_ENTRIES,
            moved: 0,
            moved_bytes: 0,
            copy_ns: 10 * MAX_TRACE_ENTRIES,
            left_out: MAX_TRACE_ENTRIES,
        };
        assert_eq!(totals.swapped, expected);
    }
}
