//! Objects, and the runs of granules that they lie in.

use mgb_core::host_bytes::HostBytes;
use mgb_core::memory::{Physical, Spare};
use mgb_probe::TaskId;

/// Names a task; never used again.
pub type Key = u64;

/// An allocation of the program in the arena.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// Bytes that the program asked for.
    pub bytes: u64,
}

/// What is behind an extent.
#[derive(Debug)]
pub enum Backing {
    /// Nothing: its bytes are undefined.
    None,
    /// Memory of the owner's GPU.
    Device(Physical),
    /// Host memory with its bytes: it was swapped out.
    Host(HostBytes),
    /// Memory of this GPU that an earlier object left there. Not charged; its bytes are undefined.
    Spare(u32, Physical),
    /// What a thread has taken to change it; its task is marked.
    Moving,
}

/// A run of granules, backed as one.
#[derive(Debug)]
pub struct Extent {
    /// The size in bytes, in whole granules.
    pub length: u64,
    /// The task whose objects lie in it.
    pub owner: Key,
    /// What is behind it.
    pub backing: Backing,
    /// GPUs besides the owner's that may use it.
    pub lent: u64,
}

impl Extent {
    pub(super) fn new(length: u64, owner: Key) -> Extent {
        Extent {
            length,
            owner,
            backing: Backing::None,
            lent: 0,
        }
    }
}

/// Room to give back to mgbd once the lock is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The task that had reserved it.
    pub id: TaskId,
    /// How many bytes of its reservation go back.
    pub bytes: u64,
}

/// What freeing an object leaves to be done.
#[derive(Debug, Default)]
pub struct Freed {
    /// Memory to release. Its addresses are not free before `ProcessState::recycle`.
    pub memory: Option<Spare<u32>>,
    /// Room to give back.
    pub returned: Option<Returned>,
}
