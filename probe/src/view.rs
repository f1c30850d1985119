//! The node view: what `mgbd` shows to everybody, in a segment that only it can
//! write.
//!
//! The segment is a sequence lock around a JSON document ([`NodeView`], with a
//! version of its own), so that readers of one version skip fields of a later
//! one. The sequence is odd while `mgbd` writes.

mod cut;
mod gpu;
mod job;
mod leaving;
mod quota;
mod task;

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::shm;
use serde::{Deserialize, Serialize};

use crate::mapping::{Mapping, Shared};
pub use cut::CutView;
pub use gpu::{GpuView, IdleView};
pub use job::JobView;
pub use leaving::{Hindrance, LeavingView, ReclaimView};
pub use quota::{KeptView, OwnerView, QuotasView};
pub use task::{HeldBack, SuspendedView, TaskState, TaskView, WaitView, WaitsFor};

/// "MGBview1" in memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"MGBview1");
/// How long a reader waits for a document that holds still. A writer on a busy node may be without a core
/// for many milliseconds; a stopped one never goes on.
const PATIENCE: Duration = Duration::from_secs(5);
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

    /// A consistent copy; `None` if there was none within that time. Sleeps between tries: a writer that
    /// lost its core in the middle of a document gets it back no sooner if readers keep theirs busy.
    fn read(&self, within: Duration) -> Option<Vec<u8>> {
        let start = Instant::now();
        loop {
            if let Some(document) = self.try_read() {
                return Some(document);
            }
            if start.elapsed() >= within {
                return None;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
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
    /// What was left out, since it did not fit.
    #[serde(default, skip_serializing_if = "CutView::is_none")]
    pub cut: CutView,
    /// Totals since the start.
    pub counts: Counts,
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
    /// It did not hold still for seconds.
    #[error("mgbd did not finish its node view {0} for 5 s; is it stopped, or the node overloaded?")]
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
    let document = segment
        .read(PATIENCE)
        .ok_or_else(|| ViewError::Busy(name.to_owned()))?;
    serde_json::from_slice(&document).map_err(|_| version())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_lost_its_core_is_waited_for() {
        // SAFETY: all zeros is a valid segment. Too large for a thread's stack.
        static SEGMENT: Segment = unsafe { std::mem::zeroed() };
        assert!(SEGMENT.write(b"{}"));
        SEGMENT.sequence.fetch_add(1, Ordering::Relaxed);
        let writer = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            SEGMENT.sequence.fetch_add(1, Ordering::Release);
        });
        assert_eq!(SEGMENT.read(PATIENCE).as_deref(), Some(&b"{}"[..]));
        writer.join().unwrap();
    }

    #[test]
    fn a_writer_that_ended_in_the_middle_is_given_up() {
        // SAFETY: as above.
        static SEGMENT: Segment = unsafe { std::mem::zeroed() };
        SEGMENT.sequence.store(1, Ordering::Relaxed);
        assert_eq!(SEGMENT.read(Duration::from_millis(5)), None);
    }
}
