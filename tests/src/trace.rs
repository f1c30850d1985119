//! What lazyrt writes to the file that `MGB_TRACE` names: one line per process.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The trace of one process.
#[derive(Debug, Deserialize)]
pub struct TracedProcess {
    /// Its process id.
    pub pid: u32,
    /// Why it was open, if it was.
    pub open: Option<String>,
    /// Why it stayed outside mgbd's MPS, if it did.
    pub outside_mps: Option<String>,
    /// Every task it began.
    pub tasks: Vec<TracedTask>,
    /// What left its GPUs and came back, in total.
    pub swapped: Option<SwapTotals>,
    /// Nanoseconds for which its launches were held, where they were.
    #[serde(default)]
    pub paused_ns: u64,
}

/// One task of a process.
#[derive(Debug, Deserialize)]
pub struct TracedTask {
    /// The pass's name for it; none for the lazy task.
    pub site: Option<TracedSite>,
    /// Whether it was bound at run time.
    pub lazy: bool,
    /// The GPU it ran on.
    pub gpu: Option<u32>,
    /// Peak live bytes as asked for.
    pub need_peak: u64,
    /// Peak live bytes as seen.
    pub seen_peak: u64,
    /// Kernels that it launched, where the driver front counted them.
    pub launches: Option<u64>,
    /// When it held room, in order.
    pub spans: Vec<TracedSpan>,
    /// When memory of it left its GPU, came back, or went to another one.
    pub swaps: Vec<TracedSwap>,
}

/// A stretch of time on one GPU.
#[derive(Debug, Deserialize)]
pub struct TracedSpan {
    /// The index of the GPU.
    pub gpu: u32,
}

/// Memory that left a GPU, or came back. Times in nanoseconds.
#[derive(Debug, Deserialize)]
pub struct TracedSwap {
    /// `evicted`, `restored` or `moved`.
    pub kind: String,
    /// The index of the GPU.
    pub gpu: u32,
    /// The bytes that were swapped.
    pub bytes: u64,
    /// The time of the start in nanoseconds.
    pub from_ns: u64,
    /// The time of the end in nanoseconds.
    pub to_ns: u64,
    /// Waiting for the GPU to come to rest.
    pub rest_ns: u64,
    /// Waiting for room.
    pub room_ns: u64,
    /// On device memory.
    pub map_ns: u64,
    /// On host memory.
    pub host_ns: u64,
    /// Waiting for copies.
    pub copy_ns: u64,
    /// Whether the copies went through pinned memory.
    pub pumped: bool,
}

impl TracedSwap {
    /// Panics unless its parts are parts of its time.
    pub fn check(&self) {
        let parts = [
            self.rest_ns,
            self.room_ns,
            self.map_ns,
            self.host_ns,
            self.copy_ns,
        ];
        let sum: u64 = parts.iter().sum();
        assert!(
            self.from_ns <= self.to_ns && sum <= self.to_ns - self.from_ns,
            "{self:?}"
        );
        // Bytes take time to copy, and nothing of note is left out.
        assert!(self.copy_ns > 0 && self.map_ns > 0, "{self:?}");
        assert!(2 * sum >= self.to_ns - self.from_ns, "{self:?}");
        let (elsewhere, at_home) = match self.kind.as_str() {
            "evicted" => (self.room_ns, self.rest_ns),
            _ => (self.rest_ns, self.room_ns),
        };
        assert!(elsewhere == 0 && at_home > 0, "{self:?}");
    }
}

/// All swaps of a process.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct SwapTotals {
    /// How often memory left,
    pub evicted: u64,
    /// and how much.
    pub evicted_bytes: u64,
    /// How often it came back,
    pub restored: u64,
    /// and how much.
    pub restored_bytes: u64,
    /// Waiting for the copies.
    pub copy_ns: u64,
    /// How many have no entry.
    pub left_out: u64,
}

impl TracedProcess {
    /// The kinds of its swaps in their order. Panics unless each is of one GPU and so many bytes, they do not
    /// overlap, and the totals are theirs.
    pub fn swaps(&self, gpu: u32, bytes: u64) -> Vec<&str> {
        let swaps: Vec<&TracedSwap> = self.tasks.iter().flat_map(|task| &task.swaps).collect();
        for swap in &swaps {
            swap.check();
            assert_eq!((swap.gpu, swap.bytes), (gpu, bytes), "{swap:?}");
        }
        for pair in swaps.windows(2) {
            assert!(pair[0].to_ns <= pair[1].from_ns, "{pair:?}");
        }
        let count = |kind| swaps.iter().filter(|swap| swap.kind == kind).count() as u64;
        let (evicted, restored) = (count("evicted"), count("restored"));
        let expected = SwapTotals {
            evicted,
            evicted_bytes: evicted * bytes,
            restored,
            restored_bytes: restored * bytes,
            copy_ns: swaps.iter().map(|swap| swap.copy_ns).sum(),
            left_out: 0,
        };
        assert_eq!(self.swapped, (!swaps.is_empty()).then_some(expected));
        swaps.iter().map(|swap| swap.kind.as_str()).collect()
    }
}

/// The place of a static task in the program.
#[derive(Debug, Deserialize)]
pub struct TracedSite {
    /// Its number in the module's report.
    pub id: u32,
    /// The function that holds it.
    pub function: String,
}

/// Reads a trace file.
///
/// # Errors
///
/// When it cannot be read or holds anything but one document a line.
pub fn read(file: &Path) -> Result<Vec<TracedProcess>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("failed to read the trace {}", file.display()))?;
    text.lines()
        .map(|line| {
            serde_json::from_str(line).with_context(|| format!("failed to read the trace line {line}"))
        })
        .collect()
}
