//! The node view: what `mgbd` shows to everybody, in a segment that only it can
//! write.
//!
//! The segment is a sequence lock around a JSON document ([`NodeView`], with a
//! version of its own), so that readers of one version skip fields of a later
//! one. The sequence is odd while `mgbd` writes.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::Mode;
use rustix::shm;
use serde::{Deserialize, Serialize};

use crate::hello::Gpu;
use crate::mapping::{Mapping, Shared};

/// "MGBview1" in memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"MGBview1");
/// Largest document, in 8-byte words.
pub const WORDS: usize = 64 << 10;

/// The segment. All zeros is a valid, empty one.
#[repr(C, align(64))]
pub struct Segment {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`crate::wire::VERSION`].
    pub version: AtomicU64,
    /// Odd while the document changes.
    pub sequence: AtomicU64,
    /// Bytes of the document.
    pub bytes: AtomicU64,
    reserved: [AtomicU64; 4],
    /// The document.
    pub words: [AtomicU64; WORDS],
}

// SAFETY: it consists of atomics only, and zeros are a valid value of each.
unsafe impl Shared for Segment {}

const _: () = assert!(size_of::<Segment>() == 64 + 8 * WORDS);

impl Segment {
    /// Replaces the document; false if it is too long. Only one thread of one
    /// process may write.
    pub fn write(&self, document: &[u8]) -> bool {
        if document.len() > WORDS * 8 {
            return false;
        }
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Ordering::Relaxed);
        // Readers that see any of the words below also see the odd sequence.
        fence(Ordering::Release);
        self.magic.store(MAGIC, Ordering::Relaxed);
        self.version
            .store(u64::from(crate::wire::VERSION), Ordering::Relaxed);
        self.bytes.store(document.len() as u64, Ordering::Relaxed);
        for (word, chunk) in self.words.iter().zip(document.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
        self.sequence.store(sequence.wrapping_add(2), Ordering::Release);
        true
    }

    /// One try at a consistent copy.
    fn try_read(&self) -> Option<Vec<u8>> {
        let before = self.sequence.load(Ordering::Acquire);
        if before % 2 == 1 {
            return None;
        }
        let bytes = (self.bytes.load(Ordering::Relaxed) as usize).min(WORDS * 8);
        let mut document: Vec<u8> = self.words[..bytes.div_ceil(8)]
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .collect();
        document.truncate(bytes);
        // The words above are read before the sequence below.
        fence(Ordering::Acquire);
        (self.sequence.load(Ordering::Relaxed) == before).then_some(document)
    }
}

/// The node as `mgbd` sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Version of this document.
    pub version: u32,
    /// Process id of `mgbd`.
    pub mgbd_pid: u32,
    /// Policy in force.
    pub policy: String,
    /// The rule by which idle memory is evicted; `None`: it is not.
    #[serde(default)]
    pub evicts_by: Option<String>,
    /// Pipe folder of the MPS in use.
    pub mps_pipe: Option<String>,
    /// Why there is no MPS, where there is none.
    pub mps_note: Option<String>,
    /// Milliseconds since `mgbd` started.
    pub uptime_ms: u64,
    /// Connected clients.
    pub clients: u32,
    /// Of those, that wait for their turn to initialise the driver or make a context.
    #[serde(default)]
    pub starting: u32,
    /// The GPUs.
    pub gpus: Vec<GpuView>,
    /// Who holds room.
    pub tasks: Vec<TaskView>,
    /// Who waits, first come first.
    pub queue: Vec<WaitView>,
    /// The processes that a person has suspended.
    #[serde(default)]
    pub suspended: Vec<SuspendedView>,
    /// What is to leave because a person wants it: of suspended processes, and on drained GPUs.
    #[serde(default)]
    pub leaving: Vec<LeavingView>,
    /// What users and groups may have, and have.
    #[serde(default)]
    pub quotas: QuotasView,
    /// What jobs of Slurm have taken: those that run, and the latest of those that have ended.
    #[serde(default)]
    pub jobs: Vec<JobView>,
    /// The latest deaths of processes that held room.
    pub reclaims: Vec<ReclaimView>,
    /// Totals since the start.
    pub counts: Counts,
}

/// One GPU and its load. Bytes, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuView {
    /// The GPU.
    pub gpu: Gpu,
    /// Free as the driver says; `None` if it does not.
    pub driver_free_bytes: Option<u64>,
    /// Reserved for tasks of living processes.
    pub reserved_bytes: u64,
    /// Kept for these tasks and their processes, which are expected to take more: see `docs/POLICIES.md`.
    #[serde(default)]
    pub headroom_bytes: u64,
    /// Mapped under these reservations, as the clients say.
    pub resident_bytes: u64,
    /// Charged for contexts of living processes.
    pub contexts_bytes: u64,
    /// What these processes have beside that and their reservations, as last seen: modules and workspaces of
    /// libraries.
    #[serde(default)]
    pub overhead_bytes: u64,
    /// Charged for dead processes until the driver shows it free.
    pub reclaiming_bytes: u64,
    /// Held by programs that are not under MGB, and by the driver itself.
    pub foreign_bytes: u64,
    /// Warps of the tasks running.
    pub warps_charged: u64,
    /// Processes that hold room or a context.
    pub processes: u32,
    /// Launches not finished yet, as the clients say.
    pub launches_in_flight: u64,
    /// A person has it drained: nobody is admitted, and who is idle there leaves.
    #[serde(default)]
    pub drained: bool,
    /// The driver cannot reach it: nobody is admitted until it can again.
    #[serde(default)]
    pub lost: bool,
}

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Between begin and end.
    Running,
    /// Waits for more room.
    Growing,
    /// Over, some of its memory still allocated.
    Ended,
    /// On its way to another GPU.
    Moving,
    /// Idle, and its memory is on its way to the host, to make room for others.
    Evicting,
    /// Idle, and its memory is in the host.
    Evicted,
    /// Waits for room for its memory, which is in the host.
    Restoring,
    /// A person has suspended its process, and its memory has still to leave.
    Suspending,
    /// A person has suspended its process, and it has no memory on the GPU.
    Suspended,
    /// Its process died; the driver does not show the room free yet.
    Reclaiming,
}

/// A task that holds room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// Process.
    pub pid: u32,
    /// Its user.
    #[serde(default)]
    pub uid: u32,
    /// The process's number for the task.
    pub task: u64,
    /// What people know it by; empty for other users than its own.
    pub label: String,
    /// GPU index.
    pub gpu: u32,
    /// See [`TaskState`].
    pub state: TaskState,
    /// Bytes reserved.
    pub reserved_bytes: u64,
    /// Bytes that mgbd expects it to have at most, by its need and earlier runs of its program; 0: it expects
    /// nothing, or has given that up.
    #[serde(default)]
    pub expected_bytes: u64,
    /// Bytes that its process says it has mapped on the GPU, of all its tasks there.
    #[serde(default)]
    pub held_bytes: u64,
    /// The most bytes that it had reserved at once.
    #[serde(default)]
    pub peak_bytes: u64,
    /// Bytes of it that are in host memory.
    #[serde(default)]
    pub evicted_bytes: u64,
    /// Warps charged.
    pub warps: u64,
    /// Milliseconds since it was granted.
    pub age_ms: u64,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitView {
    /// Process.
    pub pid: u32,
    /// Its user.
    #[serde(default)]
    pub uid: u32,
    /// What people know the task by; empty for other users than its own.
    pub label: String,
    /// GPU index, where it can only be one.
    pub gpu: Option<u32>,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that mgbd expects it to take in the end, and would have it begin with: `bytes` or more.
    #[serde(default)]
    pub expected_bytes: u64,
    /// Whether a granted task wants more, or a new task begins.
    pub growth: bool,
    /// Milliseconds it has waited.
    pub waited_ms: u64,
    /// Why it is not considered at all, if it is not.
    #[serde(default)]
    pub held_back: Option<HeldBack>,
    /// It is not considered because its user, or a group of the user's, has as much as it may have at once.
    #[serde(default)]
    pub over_quota: bool,
    /// It is not considered because the driver cannot reach any GPU that it could go to.
    #[serde(default)]
    pub gpu_lost: bool,
}

/// Why a request waits although there may be room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBack {
    /// A person has suspended its process.
    Suspended,
    /// Every GPU that it could go to is drained.
    Drained,
}

/// A process that a person has suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedView {
    /// Process.
    pub pid: u32,
    /// Its user.
    #[serde(default)]
    pub uid: u32,
    /// Its job, as `MGB_JOB` says it.
    pub job: Option<String>,
    /// It is suspended with its whole job.
    pub whole_job: bool,
    /// Milliseconds since it was suspended.
    pub age_ms: u64,
    /// By GPU: bytes of its memory that are in the host.
    pub evicted_bytes: Vec<u64>,
}

/// What a job of Slurm has taken of the node's GPUs, with all its steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// Slurm's number.
    pub job: u32,
    /// Its user.
    pub uid: u32,
    /// Its processes that are connected now.
    pub processes: u32,
    /// Tasks that were granted.
    pub tasks: u64,
    /// The most bytes that it had at once: what its tasks had reserved, and its processes' contexts.
    pub peak_bytes: u64,
    /// The same of one GPU.
    pub gpu_peak_bytes: u64,
    /// Milliseconds that its requests have waited, added up.
    pub waited_ms: u64,
    /// Milliseconds that its tasks had a GPU, added up.
    pub held_ms: u64,
}

/// What users and groups may have at once, and have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotasView {
    /// The file that says it; `None`: nothing is limited.
    pub file: Option<String>,
    /// What is wrong with the file as it was read last: what it said before holds.
    pub mistake: Option<String>,
    /// Users who have programs here, and their groups with limits.
    pub owners: Vec<OwnerView>,
}

impl QuotasView {
    /// Bytes that a user may still have; `None`: any number.
    pub fn left_bytes(&self, uid: u32) -> Option<u64> {
        let owners = self.owners.iter().filter(|owner| owner.is_of(uid));
        let left = owners.filter_map(|owner| Some(owner.most_bytes?.saturating_sub(owner.bytes)));
        left.min()
    }
}

impl OwnerView {
    /// Whether it is this user, or a group of his.
    pub fn is_of(&self, uid: u32) -> bool {
        if self.is_group {
            self.members.contains(&uid)
        } else {
            self.id == uid
        }
    }
}

/// A user, or all members of a group together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerView {
    /// The number of the user or group.
    pub id: u32,
    /// It is a group.
    pub is_group: bool,
    /// A user's part of what several want, beside the others'; 0 for groups.
    pub weight: u32,
    /// Bytes of GPU memory that it has, contexts included.
    pub bytes: u64,
    /// Bytes that it may have; `None`: any number.
    pub most_bytes: Option<u64>,
    /// Tasks between their begin and end.
    pub tasks: u64,
    /// Tasks that it may have.
    pub most_tasks: Option<u64>,
    /// GPUs where it has anything.
    pub gpus: Vec<u32>,
    /// GPUs that it may have.
    pub most_gpus: Option<u64>,
    /// Its requests that wait.
    pub waiting: u32,
    /// Of those, that wait because of a quota.
    pub held_back: u32,
    /// A group's members that have programs here, by number.
    #[serde(default)]
    pub members: Vec<u32>,
}

/// Memory that is to leave a GPU because a person wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeavingView {
    /// Process.
    pub pid: u32,
    /// GPU index.
    pub gpu: u32,
    /// Bytes that are still there.
    pub bytes: u64,
    /// What keeps them there; `None`: nothing that is known, they are on their way.
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
}

/// How a dead process's room came back. Microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimView {
    /// Process.
    pub pid: u32,
    /// GPU index.
    pub gpu: u32,
    /// Bytes it was charged, context included.
    pub bytes: u64,
    /// From `mgbd` waking for the death to the room marked as reclaiming.
    pub marked_us: u64,
    /// From there until the driver showed it free; `None`: not yet.
    pub freed_us: Option<u64>,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Tasks granted.
    pub granted: u64,
    /// Growths granted.
    pub grown: u64,
    /// Requests refused.
    pub refused: u64,
    /// Times a task that waited was told to swap itself out.
    pub swapped_out: u64,
    /// Times memory was evicted, for others or because a person wanted it,
    #[serde(default)]
    pub evicted: u64,
    /// and the bytes of it.
    #[serde(default)]
    pub evicted_bytes: u64,
    /// Times an order to evict freed nothing, or was not answered.
    #[serde(default)]
    pub evictions_failed: u64,
    /// Times a task went on, on another GPU,
    #[serde(default)]
    pub moved: u64,
    /// and the bytes that went with it.
    #[serde(default)]
    pub moved_bytes: u64,
    /// Times an order to move was not carried out.
    #[serde(default)]
    pub moves_failed: u64,
    /// Processes that a signal ended while they held room, as far as `/proc` still said how they ended.
    pub died_holding: u64,
    /// Clients turned away or cut off for breaking the protocol.
    pub offenders: u64,
}

/// Why the node view cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// `mgbd` shows none, or it is gone.
    #[error("failed to open mgbd's node view {0}: {1}; is mgbd still running?")]
    Open(String, rustix::io::Errno),
    /// Not a view of this version.
    #[error("the node view {0} is not of this version; use mgb and mgbd of one version")]
    Version(String),
    /// It never held still.
    #[error("the node view {0} is being rewritten all the time; try again")]
    Busy(String),
}

/// Reads the view of the POSIX shared-memory name that the hello gave.
pub fn read(name: &str) -> Result<NodeView, ViewError> {
    let open = |error| ViewError::Open(name.to_owned(), error);
    let file = shm::open(name, shm::OFlags::RDONLY, Mode::empty()).map_err(open)?;
    let size = rustix::fs::fstat(&file).map_err(open)?.st_size;
    let version = || ViewError::Version(name.to_owned());
    if (size as usize) < size_of::<Segment>() {
        return Err(version());
    }
    let mapping = Mapping::new(&file, size_of::<Segment>(), false).map_err(open)?;
    let segment: &Segment = mapping.shared().ok_or_else(version)?;
    if segment.magic.load(Ordering::Acquire) != MAGIC
        // A later one adds to the document, or it cannot be read.
        || segment.version.load(Ordering::Relaxed) < u64::from(crate::wire::OLDEST)
    {
        return Err(version());
    }
    for _ in 0..1000 {
        if let Some(document) = segment.try_read() {
            return serde_json::from_slice(&document).map_err(|_| version());
        }
        std::thread::yield_now();
    }
    Err(ViewError::Busy(name.to_owned()))
}
