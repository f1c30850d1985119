//! What programs have left in the file that `MGB_TRACE` names, as far as `mgb` reads it: see docs/TRACE.md.

use mgb_probe::Bursts;
use mgb_probe::failures::FailureCause;
use serde::Deserialize;

/// A process that has ended, and was not killed.
#[derive(Debug, Deserialize)]
pub struct TracedProcess {
    /// The number of the process.
    #[serde(default)]
    pub pid: u32,
    /// The file of its program, without the folder.
    #[serde(default)]
    pub program: String,
    /// The value of `MGB_JOB`.
    pub job: Option<String>,
    /// The tasks that it began.
    #[serde(default)]
    pub tasks: Vec<TracedTask>,
    /// What left its GPUs, in all.
    pub swapped: Option<SwapTotals>,
    /// What it did not get, or that its GPU failed.
    #[serde(default)]
    pub failures: Vec<TracedFailure>,
    /// When it was expected to end, in seconds since 1970.
    pub expected_end: Option<f64>,
    /// Whose the time of its GPUs was.
    #[serde(default)]
    pub gpu_times: Vec<TracedTime>,
    /// How long its bursts took, where it was a latency program.
    pub latency: Option<Bursts>,
}

/// Why a process failed, as it has written it down itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TracedFailure {
    /// What kind of failure it was.
    pub kind: FailureCause,
    /// What was wanted, and what there is.
    pub text: String,
}

/// Whose the time of a GPU was, in nanoseconds.
#[derive(Debug, Deserialize)]
pub struct TracedTime {
    /// The process's part.
    pub part_ns: u64,
    /// In which anybody had work there.
    pub gpu_busy_ns: u64,
}

/// All swaps of a process.
#[derive(Debug, Deserialize)]
pub struct SwapTotals {
    /// How often memory went to the host,
    pub evicted: u64,
    /// and how much in all, in bytes.
    pub evicted_bytes: u64,
    /// Nanoseconds that were spent on copies.
    pub copy_ns: u64,
}

/// A task of a process.
#[derive(Debug, Deserialize)]
pub struct TracedTask {
    site: Option<TracedSite>,
    label: Option<String>,
    /// The GPU it was on last.
    pub gpu: Option<u32>,
    /// Nanoseconds for which it waited for room.
    #[serde(default)]
    pub wait_ns: u64,
    /// The most bytes that it had at once, in whole granules.
    pub seen_peak: Option<u64>,
    /// When it held room, and where.
    #[serde(default)]
    pub spans: Vec<TracedSpan>,
    /// When memory of it left a GPU, or came back.
    #[serde(default)]
    pub swaps: Vec<TracedSwap>,
}

#[derive(Debug, Deserialize)]
struct TracedSite {
    function: String,
}

impl TracedTask {
    /// What people know it by.
    pub fn name(&self) -> String {
        match (&self.site, &self.label) {
            (Some(site), _) => site.function.clone(),
            (None, Some(label)) => label.clone(),
            (None, None) => "lazy".to_owned(),
        }
    }
}

/// When a task held room, in nanoseconds of the machine's monotonic clock.
#[derive(Debug, Deserialize)]
pub struct TracedSpan {
    /// The index of the GPU.
    pub gpu: u32,
    /// From the grant,
    pub from_ns: u64,
    /// to the end.
    pub to_ns: u64,
}

/// Memory that left a GPU, or came back.
#[derive(Debug, Deserialize)]
pub struct TracedSwap {
    /// Which way it went.
    pub kind: TracedKind,
    /// The index of the GPU.
    pub gpu: u32,
    /// Bytes that were copied.
    pub bytes: u64,
    /// From the order, or the first request for room, on the same clock as spans,
    pub from_ns: u64,
    /// to the moment at which the memory was gone, or back.
    pub to_ns: u64,
    /// Nanoseconds that were spent on copies.
    #[serde(default)]
    pub copy_ns: u64,
}

/// Which way memory went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TracedKind {
    /// To the host.
    Evicted,
    /// Back to the GPU.
    Restored,
    /// To this GPU from another one.
    Moved,
}

/// The processes of such a file, without lines that are none.
pub fn processes(text: &str) -> impl Iterator<Item = TracedProcess> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}
