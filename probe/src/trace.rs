//! What a process leaves in the file that `MGB_TRACE` names: one line of JSON, written at its exit. lazyrt
//! and the driver front write it, `mgb batch` and tests read it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Serialize;

use crate::bursts::Bursts;
use crate::class::Class;
use crate::deadline::{DEADLINE, Deadline, EXPECTED_END};
use crate::failures::{self, ProcessFailure};
use crate::job::JOB;
use crate::wire::GpuTime;

mod swap;

pub use swap::{Swap, SwapKind, SwapParts, Swapped};

/// The line of one process in the trace file.
#[derive(Debug, Serialize)]
pub struct TraceLine {
    version: u32,
    pid: u32,
    /// The value of `MGB_JOB`.
    job: Option<String>,
    program: String,
    /// When its work was to be done, in seconds since 1970; none where nobody said so.
    deadline: Option<f64>,
    /// When it was expected to end, in the same form.
    expected_end: Option<f64>,
    /// Why the process was open, if it was.
    pub open: Option<String>,
    /// Why the process stayed outside mgbd's MPS, whether there is one or not.
    pub outside_mps: Option<&'static str>,
    /// The class that it has with mgbd.
    pub class: Class,
    /// Nanoseconds for which launches of its were held, all threads together.
    pub paused_ns: u64,
    /// How long its bursts took, from the first launch until it had synchronised, where it is a latency
    /// program.
    pub latency: Option<Bursts>,
    /// The tasks that it began.
    pub tasks: Vec<TaskTrace>,
    /// What its lazy tasks allocated, in total.
    pub lazy_record: Option<LazyRecord>,
    /// What left its GPUs for the host and came back, in total; none if nothing did.
    pub swapped: Option<Swapped>,
    /// What kernels it ran in parts; none if it ran none so.
    pub parted: Option<Parted>,
    /// What it did not get, or that its GPU failed: the first of each kind.
    pub failures: Vec<ProcessFailure>,
    /// Whose the time of its GPUs was.
    pub gpu_times: Vec<GpuTimeTrace>,
}

/// Kernels that were run in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parted {
    /// Launches of such kernels,
    pub launches: u64,
    /// and in how many parts they were run in all.
    pub parts: u64,
}

/// Whose a GPU's time was since the process came to it, as mgbd has sampled. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GpuTimeTrace {
    /// The index of the GPU.
    pub gpu: u32,
    /// In which the process had work there.
    pub busy_ns: u64,
    /// Of those, its part: 1/n where n processes had work.
    pub part_ns: u64,
    /// In which any process had work there.
    pub gpu_busy_ns: u64,
    /// Its part of the latter, from 0 to 1.
    pub share: f64,
}

impl GpuTimeTrace {
    /// That of a GPU, if it has had work while the process was there.
    pub fn of(gpu: u32, time: GpuTime) -> Option<GpuTimeTrace> {
        (time.gpu_busy_ns > 0).then(|| GpuTimeTrace {
            gpu,
            busy_ns: time.busy_ns,
            part_ns: time.part_ns,
            gpu_busy_ns: time.gpu_busy_ns,
            share: time.part_ns as f64 / time.gpu_busy_ns as f64,
        })
    }
}

/// The place of a static task in the program.
#[derive(Debug, Serialize)]
pub struct TaskLocation {
    /// Its number in the module's report.
    pub id: u32,
    /// Source file of the module.
    pub module: String,
    /// Function that holds it.
    pub function: String,
}

/// One task. Bytes and nanoseconds.
#[derive(Debug, Default, Serialize)]
pub struct TaskTrace {
    /// None of a task that was bound at run time.
    pub site: Option<TaskLocation>,
    /// What people know it by, where it has no site and is not simply the process's lazy task.
    pub label: Option<String>,
    /// Whether it was bound at run time.
    pub lazy: bool,
    /// The GPU it was on last.
    pub gpu: Option<u32>,
    /// Peak live bytes as asked for.
    pub need_peak: u64,
    /// The same in whole granules.
    pub need_mapped: u64,
    /// Peak live bytes as seen.
    pub seen_peak: u64,
    /// The same in whole granules.
    pub seen_mapped: u64,
    /// Blocks of its largest launch.
    pub grid_blocks: u64,
    /// Threads of each of those.
    pub block_threads: u32,
    /// Kernels that it launched, those of graphs too; none where they are not counted.
    pub launches: Option<u64>,
    /// Waiting for room.
    pub wait_ns: u64,
    /// Nanoseconds for which the task held its grant.
    pub run_ns: u64,
    /// When it held room, and where. A later part of a task may be on another GPU.
    pub spans: Vec<Stretch>,
    /// When memory of it went to the host and came back: the first 10,000 times in a process.
    pub swaps: Vec<Swap>,
}

/// A stretch of time, in nanoseconds of the machine's monotonic clock: comparable between processes.
#[derive(Debug, Serialize)]
pub struct Stretch {
    /// The index of the GPU.
    pub gpu: u32,
    /// From the grant,
    pub from_ns: u64,
    /// to the end.
    pub to_ns: u64,
}

/// What lazy tasks allocated, in total.
#[derive(Debug, Serialize)]
pub struct LazyRecord {
    /// How many allocations the lazy task has.
    pub objects: u64,
    /// Sum of the peaks, in bytes.
    pub peak: u64,
    /// Bytes not freed.
    pub live_at_exit: u64,
}

impl TraceLine {
    /// The line of this process.
    pub fn new(tasks: Vec<TaskTrace>) -> TraceLine {
        let executable = std::env::current_exe().ok();
        let name = executable.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        TraceLine {
            version: 1,
            pid: std::process::id(),
            job: SETTINGS.job.clone(),
            program: name.unwrap_or_default(),
            deadline: time_in(DEADLINE),
            expected_end: time_in(EXPECTED_END),
            open: None,
            outside_mps: None,
            class: Class::Batch,
            paused_ns: 0,
            latency: None,
            tasks,
            lazy_record: None,
            swapped: None,
            parted: None,
            failures: failures::noted(),
            gpu_times: Vec::new(),
        }
    }

    /// Appends it to the file, if a trace is wanted.
    pub fn append(&self) {
        let (Some(path), Ok(mut text)) = (file(), serde_json::to_vec(self)) else {
            return;
        };
        text.push(b'\n');
        // One write in append mode: lines of several processes do not mix.
        let file = OpenOptions::new().append(true).create(true).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(&text)) {
            mgb_stderr::say!("mgb: failed to write the trace to {}: {error}", path.display());
        }
    }
}

/// The time that a variable has, in seconds since 1970.
fn time_in(variable: &str) -> Option<f64> {
    let time: Deadline = std::env::var(variable).ok()?.parse().ok()?;
    Some(time.as_secs_f64())
}

struct TraceSettings {
    file: Option<PathBuf>,
    job: Option<String>,
}

/// As they were when the process was first asked for them: it may change its environment.
static SETTINGS: LazyLock<TraceSettings> = LazyLock::new(|| TraceSettings {
    file: std::env::var_os("MGB_TRACE")
        .filter(|name| !name.is_empty())
        .map(Into::into),
    job: std::env::var(JOB).ok(),
});

fn file() -> Option<&'static Path> {
    SETTINGS.file.as_deref()
}

/// Whether a trace is wanted.
pub fn is_wanted() -> bool {
    file().is_some()
}
