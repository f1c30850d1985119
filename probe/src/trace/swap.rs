//! What a line says of memory that left a GPU for the host and came back.

use serde::Serialize;

/// Which way memory went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SwapKind {
    /// To the host.
    Evicted,
    /// Back to the GPU.
    Restored,
    /// To this GPU from another one.
    Moved,
}

/// What the thread that swaps spent its time on, in nanoseconds. What runs beside it, such as a mapping while
/// copies are under way, counts once: where that thread was. So the sum is no more than the whole time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SwapParts {
    /// Waiting for the GPU to come to rest and for threads to leave the driver (evicted only).
    pub rest_ns: u64,
    /// Waiting for room on the GPU (restored only).
    pub room_ns: u64,
    /// Getting device memory and mapping it, or unmapping and freeing it.
    pub map_ns: u64,
    /// Getting or giving back host memory, and pinned memory for copies.
    pub host_ns: u64,
    /// Waiting for copies. The host's part of a copy, page faults of new host memory too, is in here.
    pub copy_ns: u64,
}

/// Memory of a task that left a GPU at once, or came back.
#[derive(Clone, Debug, Serialize)]
pub struct Swap {
    /// Which way it went.
    pub kind: SwapKind,
    /// The GPU, by mgbd's number.
    pub gpu: u32,
    /// Bytes that were copied, in whole granules.
    pub bytes: u64,
    /// From the order, or the first request for room, in nanoseconds of the machine's monotonic clock,
    pub from_ns: u64,
    /// to the moment at which the memory was gone, or back.
    pub to_ns: u64,
    /// Where that time went.
    #[serde(flatten)]
    pub parts: SwapParts,
    /// Whether the copies went through the ring of pinned memory, not directly.
    pub pumped: bool,
}

/// All swaps of a process, those too that no task has an entry for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Swapped {
    /// How often memory of a task went to the host,
    pub evicted: u64,
    /// and how much in all, in bytes.
    pub evicted_bytes: u64,
    /// How often it came back,
    pub restored: u64,
    /// and how much in all, in bytes.
    pub restored_bytes: u64,
    /// How often memory of a task went to another GPU,
    pub moved: u64,
    /// and how much in all, in bytes.
    pub moved_bytes: u64,
    /// Waiting for the copies of all, in nanoseconds.
    pub copy_ns: u64,
    /// How many of them have no entry: a process may be swapped for days.
    pub left_out: u64,
}
