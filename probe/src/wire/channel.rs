//! The shared memory as a whole, and what a client publishes in it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::burst_words::BurstWords;
use super::cell::Cell;
use super::joined::JoinedMps;
use super::order::OrderWords;
use super::pace::PaceWords;
use crate::class::Class;
use crate::mapping::SharedLayout;
use crate::sync;

/// Calls a client can have under way at once.
pub const CELLS: usize = 64;
/// Leases a client can offer at once.
pub const LEASES: usize = 16;
/// GPUs a node can have: a set of them fits a word.
pub const MAX_GPUS: usize = 64;

/// The shared memory as a whole. All zeros is a valid one.
#[repr(C, align(64))]
pub struct Channel {
    /// [`super::MAGIC`], for people who look at a dump.
    pub magic: AtomicU64,
    /// The version of the layout: [`super::VERSION`].
    pub version: AtomicU64,
    /// Bit n: cell n holds a request that `mgbd` has not taken yet.
    pub posted: sync::AtomicU64,
    /// Written by `mgbd`: not 0 while anybody on the node waits. Nothing is kept
    /// as a lease then.
    pub wanted: sync::AtomicU64,
    reserved: [AtomicU64; 4],
    /// Tasks that are over, hold nothing and keep their grant for their next run;
    /// 0: none. See [`super::offer`].
    pub leases: [sync::AtomicU64; LEASES],
    /// What `mgbd` orders the client to do.
    pub order: OrderWords,
    /// What the client says about itself as it runs.
    pub published: PublishedWords,
    /// The cells of the calls, one per thread that waits.
    pub cells: [Cell; CELLS],
    /// What `mgbd` says of the client's launches.
    pub pace: PaceWords,
    /// How long the client's bursts take, as a latency program.
    pub bursts: BurstWords,
}

impl PublishedWords {
    /// The class that the client says it has.
    pub fn class(&self) -> Class {
        Class::of_word(self.class.load(Ordering::Relaxed))
    }

    /// The client says its class, before anything else.
    pub(crate) fn set_class(&self, class: Class) {
        self.say_class(class.word());
    }

    /// How the client says that it has joined MPS.
    pub fn joined_mps(&self) -> Option<JoinedMps> {
        JoinedMps::of_word(self.joined.load(Ordering::Relaxed))
    }

    /// The client says how it has joined MPS.
    pub(crate) fn join_mps(&self, joined: JoinedMps) {
        self.joined.store(joined.word(), Ordering::Relaxed);
    }

    /// The word of the class is this one, whether a class has it or not.
    pub fn say_class(&self, word: u64) {
        self.class.store(word, Ordering::Relaxed);
    }
}

/// What a client publishes, by GPU index. See [`crate::Published`].
#[repr(C, align(64))]
pub struct PublishedWords {
    /// Changes with every change of `resident`.
    pub changes: AtomicU64,
    /// Bit n: the process has a context on GPU n.
    pub contexts: AtomicU64,
    /// The class of the process: see [`crate::Class`]. It stands there before the process says hello.
    pub(crate) class: AtomicU64,
    /// Bit n: a process of the class that others wait for has work on GPU n.
    pub urgent: AtomicU64,
    /// How the process has joined MPS: [`JoinedMps`].
    joined: AtomicU64,
    reserved: [AtomicU64; 3],
    /// Each GPU's own.
    pub gpus: [GpuWords; MAX_GPUS],
}

/// What a client publishes of one GPU: a cache line, so that threads that launch
/// on different GPUs do not slow each other down.
#[repr(C, align(64))]
pub struct GpuWords {
    /// 0: all work that the process gave the GPU is done. Other values are the
    /// client's own.
    pub given: AtomicU64,
    /// Bytes mapped under the process's reservations, contexts not counted.
    pub resident: AtomicU64,
    /// Launches not finished yet.
    pub launches: AtomicU32,
    /// Not 0: the process may give the GPU work without a word.
    pub endless: AtomicU32,
    /// Warps of the largest kernel that it has launched so far; 0: it does not say.
    pub warps: AtomicU64,
    /// Written by `mgbd`, which does not read it: [`GpuTime`], for the process's trace.
    time: [AtomicU64; 3],
    reserved: AtomicU64,
}

/// Whose a GPU's time was since a process came to it, as far as `mgbd` has sampled. In nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuTime {
    /// In which the process had work there.
    pub busy_ns: u64,
    /// Of those, its part: 1/n where n processes had work.
    pub part_ns: u64,
    /// In which any process had work there.
    pub gpu_busy_ns: u64,
}

impl GpuWords {
    /// Those of a GPU of which nothing was said yet.
    pub const fn new() -> GpuWords {
        GpuWords {
            given: AtomicU64::new(0),
            resident: AtomicU64::new(0),
            launches: AtomicU32::new(0),
            endless: AtomicU32::new(0),
            warps: AtomicU64::new(0),
            time: [const { AtomicU64::new(0) }; 3],
            reserved: AtomicU64::new(0),
        }
    }

    /// Tells the process whose the GPU's time was.
    pub fn tell_time(&self, time: GpuTime) {
        let values = [time.busy_ns, time.part_ns, time.gpu_busy_ns];
        for (word, value) in self.time.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Whose the GPU's time was, as `mgbd` has told; zeros where it has not.
    pub fn time(&self) -> GpuTime {
        let [busy_ns, part_ns, gpu_busy_ns] = [0, 1, 2].map(|at| self.time[at].load(Ordering::Relaxed));
        GpuTime {
            busy_ns,
            part_ns,
            gpu_busy_ns,
        }
    }

    /// Whether work of the process may be under way.
    pub fn is_busy(&self) -> bool {
        self.endless.load(Ordering::Acquire) != 0 || self.given.load(Ordering::Acquire) != 0
    }
}

impl Default for GpuWords {
    fn default() -> GpuWords {
        GpuWords::new()
    }
}

// SAFETY: it consists of atomics only, and zeros are a valid value of each.
unsafe impl SharedLayout for Channel {}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Cell>() == 320);
    assert!(size_of::<GpuWords>() == 64);
    assert!(size_of::<OrderWords>() == 64);
    assert!(size_of::<PublishedWords>() == 64 + MAX_GPUS * 64);
    assert!(size_of::<Channel>() == 192 + 64 + 4160 + CELLS * 320 + 64 + 832);
    assert!(size_of::<Channel>() <= super::opening::CHANNEL_BYTES);
    assert!(std::mem::offset_of!(Channel, published) == 256);
    assert!(std::mem::offset_of!(Channel, cells) == 4416);
};
