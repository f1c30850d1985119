//! The channel: what lies in the memory that a client shares with `mgbd`.
//!
//! A client makes a `memfd`, seals it against shrinking, growing and further
//! seals, and sends it to `mgbd` once, beside [`Opening`]. From then on both
//! speak through it: the client fills a [`Cell`], sets the cell's bit in
//! [`Channel::posted`] and rings an eventfd; `mgbd` answers in the cell and
//! wakes its futex.
//!
//! Everything is made of atomics, so a client that scribbles while `mgbd` reads
//! can confuse itself only: there is no data race, and [`Request::decode`]
//! takes any bits. `mgbd` believes nothing it reads here without checking it.
//!
//! Changing the layout or the meaning of anything here changes [`VERSION`].

pub mod offer;
mod reply;
mod request;
pub mod state;
mod text;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub use reply::Reply;
pub use request::{MAKES_CONTEXT, Op, Request, WHOLE_PROCESS};
pub use state::{ANSWERED, ASLEEP, IDLE, POSTED};
pub use text::Text;

use crate::sync;

/// Version of the channel, the handshake and the node view together.
pub const VERSION: u32 = 7;
/// First bytes of [`Opening`] and [`Channel`]: "MGBchan1" in memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"MGBchan1");
/// Calls a client can have under way at once.
pub const CELLS: usize = 64;
/// Leases a client can offer at once.
pub const LEASES: usize = 16;
/// GPUs a node can have: a set of them fits a word.
pub const MAX_GPUS: usize = 64;
/// Size of the memfd.
pub const CHANNEL_BYTES: usize = 32 << 10;
/// Longest handshake answer, in bytes.
pub const MAX_ANSWER: usize = 128 << 10;
/// Longest label of a task and text of a refusal, in bytes.
pub const TEXT_BYTES: usize = 64;

const REQUEST_WORDS: usize = 14 + text::TEXT_WORDS;
const REPLY_WORDS: usize = 5 + text::TEXT_WORDS;

/// A client's first message on the socket, with two descriptors: the memfd and
/// the eventfd, in that order. [`KEEP`] may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`] of the client.
    pub version: u32,
    /// [`CHANNEL_BYTES`] of the client.
    pub channel_bytes: u32,
    /// What the client can do; `CAP_*`.
    pub caps: u64,
}

/// The client only looks (`mgb status`): it never begins a task.
pub const CAP_OBSERVER: u64 = 1;

impl Opening {
    /// Bytes on the socket.
    pub const BYTES: usize = 24;

    /// The message of this version.
    pub fn new(caps: u64) -> Opening {
        Opening {
            magic: MAGIC,
            version: VERSION,
            channel_bytes: CHANNEL_BYTES as u32,
            caps,
        }
    }

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.magic.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.channel_bytes.to_le_bytes());
        bytes[16..].copy_from_slice(&self.caps.to_le_bytes());
        bytes
    }

    /// The message in `bytes`, if they are one of any version: later versions
    /// may be longer.
    pub fn decode(bytes: &[u8]) -> Option<Opening> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (magic, second, caps) = (word(0)?, word(8)?, word(16)?);
        (magic == MAGIC).then_some(Opening {
            magic,
            version: second as u32,
            channel_bytes: (second >> 32) as u32,
            caps,
        })
    }
}

/// A message on the socket, with at most [`MOST_KEPT`] descriptors: the files by
/// which the driver knows the process. `mgbd` keeps them open beyond the
/// process's end, until what the process gave its GPUs is done by
/// [`GpuWords::is_busy`]. Another such message replaces what is kept.
pub const KEEP: &[u8; 8] = b"MGBkeep1";
/// Most descriptors in a [`KEEP`].
pub const MOST_KEPT: usize = 192;

/// The shared memory as a whole. All zeros is a valid one.
#[repr(C, align(64))]
pub struct Channel {
    /// [`MAGIC`], for people who look at a dump.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// Bit n: cell n holds a request that `mgbd` has not taken yet.
    pub posted: sync::AtomicU64,
    /// Written by `mgbd`: not 0 while anybody on the node waits. Nothing is kept
    /// as a lease then.
    pub wanted: sync::AtomicU64,
    reserved: [AtomicU64; 4],
    /// Tasks that are over, hold nothing and keep their grant for their next run;
    /// 0: none. See [`offer`].
    pub leases: [sync::AtomicU64; LEASES],
    /// What the client says about itself as it runs.
    pub published: PublishedWords,
    /// The calls.
    pub cells: [Cell; CELLS],
}

/// What a client publishes, by GPU index. See [`crate::Published`].
#[repr(C, align(64))]
pub struct PublishedWords {
    /// Changes with every change of `resident`.
    pub changes: AtomicU64,
    /// Bit n: the process has a context on GPU n.
    pub contexts: AtomicU64,
    reserved: [AtomicU64; 6],
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
    reserved: [AtomicU64; 5],
}

impl GpuWords {
    /// Those of a GPU of which nothing was said yet.
    pub const fn new() -> GpuWords {
        GpuWords {
            given: AtomicU64::new(0),
            resident: AtomicU64::new(0),
            launches: AtomicU32::new(0),
            endless: AtomicU32::new(0),
            reserved: [const { AtomicU64::new(0) }; 5],
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

/// One call. Its owner is the client, except while `mgbd` has taken the
/// request; `mgbd` keeps its own note of that and believes no state here.
#[repr(C, align(64))]
pub struct Cell {
    /// See [`state`].
    pub state: sync::AtomicU32,
    reserved: AtomicU32,
    /// Counts the calls made through this cell; for traces.
    pub seq: AtomicU64,
    /// See [`Request`].
    pub request: [AtomicU64; REQUEST_WORDS],
    /// See [`Reply`].
    pub reply: [AtomicU64; REPLY_WORDS],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Cell>() == 320);
    assert!(size_of::<GpuWords>() == 64);
    assert!(size_of::<PublishedWords>() == 64 + MAX_GPUS * 64);
    assert!(size_of::<Channel>() == 192 + 4160 + CELLS * 320);
    assert!(size_of::<Channel>() <= CHANNEL_BYTES);
    assert!(std::mem::offset_of!(Channel, published) == 192);
    assert!(std::mem::offset_of!(Channel, cells) == 4352);
};

/// The halves of a word.
fn low_high(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// A word of two halves.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[cfg(all(test, not(loom)))]
mod tests;
