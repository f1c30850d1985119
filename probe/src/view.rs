//! The node view: what `mgbd` shows to everybody, in a segment that only it can
//! write.
//!
//! The segment is a sequence lock around a JSON document ([`NodeView`], with a
//! version of its own), so that readers of one version skip fields of a later
//! one.

mod cut;
mod gpu;
mod job;
mod lack;
mod leaving;
mod quota;
mod segment;
mod task;

use std::fs::File;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::shm;
use serde::{Deserialize, Serialize};

pub use cut::CutView;
pub use gpu::{GpuView, IdleView};
pub use job::JobView;
pub use lack::Lack;
pub use leaving::{Hindrance, LeavingView, ReclaimView};
pub use quota::{KeptView, OwnerView, QuotasView};
use segment::Unreadable;
pub use segment::{MAX_DOCUMENT, SEGMENT_BYTES, Segment};
pub use task::{HeldBack, PacedFor, SuspendedView, TaskState, TaskView, WaitView, WaitsFor};

/// How long a reader waits for a document that holds still. A writer on a busy node may be without a core
/// for many milliseconds; a stopped one never goes on.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

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
    /// How many clients are connected.
    pub clients: u32,
    /// Of those, that wait for their turn to initialise the driver or make a context.
    #[serde(default)]
    pub starting: u32,
    /// The GPUs of the node, by index.
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
    /// What was left out, since it did not fit.
    #[serde(default, skip_serializing_if = "CutView::is_none")]
    pub cut: CutView,
    /// Totals since the start.
    pub counts: Counts,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// How many tasks were granted.
    pub granted: u64,
    /// How many growths of tasks were granted.
    pub grown: u64,
    /// How many requests were refused.
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
    #[error(
        "failed to open mgbd's node view {0}: {1}; is mgbd still running? A container has no node view: ask on the node"
    )]
    Open(String, rustix::io::Errno),
    /// Not a view of this version.
    #[error("the node view {0} is not of this version; use mgb and mgbd of one version")]
    Version(String),
    /// It did not hold still for seconds.
    #[error("mgbd did not finish its node view {0} for 5 s; is it stopped, or the node overloaded?")]
    Busy(String),
    /// Its file is shorter than `mgbd` makes it.
    #[error(
        "the node view {0} was cut short by another process, and mgbd has not written it again for 5 s; is it \
         stopped? Keep the node's /dev/shm from root of containers"
    )]
    Cut(String),
}

/// Reads the view of the POSIX shared-memory name that the hello gave.
pub fn read(name: &str) -> Result<NodeView, ViewError> {
    read_within(name, READ_TIMEOUT)
}

fn read_within(name: &str, patience: Duration) -> Result<NodeView, ViewError> {
    let open = |error| ViewError::Open(name.to_owned(), error);
    let version = || ViewError::Version(name.to_owned());
    let file = File::from(shm::open(name, shm::OFlags::RDONLY, Mode::empty()).map_err(open)?);
    let document = segment::read(&file, patience)
        .map_err(|error| open(rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)))?
        .map_err(|why| match why {
            Unreadable::Cut => ViewError::Cut(name.to_owned()),
            Unreadable::Changing => ViewError::Busy(name.to_owned()),
            Unreadable::Foreign => version(),
        })?;
    serde_json::from_slice(&document).map_err(|_| version())
}
