//! How long a latency program's bursts take, as it counts them itself.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::bursts::{BUCKETS, Bursts, bucket};

/// The layout of the counts that this build writes.
const LAYOUT: u32 = 1;

/// The counts of bursts by their length: see [`Bursts`].
#[repr(C, align(64))]
pub struct BurstWords {
    /// How the rest is to be read; 0: nothing was written. Who knows no such layout reads nothing.
    layout: AtomicU32,
    reserved: [AtomicU32; 15],
    counts: [AtomicU32; BUCKETS],
}

impl BurstWords {
    /// A burst took so many microseconds.
    pub fn note(&self, us: u64) {
        self.layout.store(LAYOUT, Ordering::Relaxed);
        self.counts[bucket(us)].fetch_add(1, Ordering::Relaxed);
    }

    /// What the client says of its bursts; `None`: it has said nothing that is understood here.
    pub fn bursts(&self) -> Option<Bursts> {
        if self.layout.load(Ordering::Relaxed) != LAYOUT {
            return None;
        }
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        Bursts::of(counts.into_iter())
    }
}
