//! Memory that leaves GPUs, in the node view: because a person wants it, or after a death.

use serde::{Deserialize, Serialize};

use crate::lenient::{Grows, may_be_word};

/// Memory that is to leave a GPU because a person wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeavingView {
    /// The process whose memory leaves.
    pub pid: u32,
    /// The user of the process.
    #[serde(default)]
    pub uid: u32,
    /// The index of the GPU that it leaves.
    pub gpu: u32,
    /// Bytes that are still there.
    pub bytes: u64,
    /// What keeps them there; `None`: nothing that is known, they are on their way.
    #[serde(default, deserialize_with = "may_be_word")]
    pub hindrance: Option<Hindrance>,
}

/// What keeps memory on a GPU that a person wants to leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hindrance {
    /// The process has work under way there, and mgbd asks again.
    Busy,
    /// The process has no thread of MGB's that could do it.
    NoAgent,
    /// It did not answer mgbd.
    NoAnswer,
    /// The memory was declared with `--need`: it is the process's until that ends.
    Declared,
    /// It is of a kind that cannot leave.
    Stays,
    /// The host has too little memory to spare for it.
    HostMemory,
    /// Its user, or a group of the user's, may have no more memory in the host.
    SwapQuota,
    /// What a newer mgbd says in a word that is not known here.
    Unknown,
}

impl Grows for Hindrance {
    const UNKNOWN: Hindrance = Hindrance::Unknown;
}

/// How a dead process's room came back. Microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimView {
    /// The process that has ended.
    pub pid: u32,
    /// The index of the GPU that still has its memory.
    pub gpu: u32,
    /// Bytes it was charged, context included.
    pub bytes: u64,
    /// From `mgbd` waking for the death to the room marked as reclaiming.
    pub marked_us: u64,
    /// From there until the driver showed it free; `None`: not yet.
    pub freed_us: Option<u64>,
}
