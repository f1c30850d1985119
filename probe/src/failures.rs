//! Why a process did not get what it asked for, or lost its GPU, in a form that a program can read. The same
//! is printed, but a program may have closed its standard error, or sent it elsewhere.

use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// No GPU of the node can hold it.
    NeverFits,
    /// It alone goes beyond what its user may have.
    OverQuota,
    /// Every process on the GPU waits for more memory, and none can make room.
    Deadlock,
    /// The GPU failed under the process: its results from then on are void.
    GpuFault,
}

/// A failure, and how it was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessFailure {
    /// Which kind it is of.
    pub kind: FailureCause,
    /// What was wanted, and what there is.
    pub text: String,
}

/// How long to wait for another thread that notes one: in a forked child there may be none.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// The process, and the first failure of each kind that it had.
static FAILURES: Mutex<(u32, Vec<ProcessFailure>)> = Mutex::new((0, Vec::new()));

/// Keeps the failure for the trace, unless this process had one of its kind. Any thread may call it.
pub fn note(kind: FailureCause, text: impl FnOnce() -> String) {
    let Some(mut failures) = FAILURES.try_lock_for(LOCK_TIMEOUT) else {
        return;
    };
    let process = std::process::id();
    if failures.0 != process {
        // A forked child has its parent's.
        *failures = (process, Vec::new());
    }
    if failures.1.iter().all(|failure| failure.kind != kind) {
        failures.1.push(ProcessFailure { kind, text: text() });
    }
}

/// The failures that this process had. For its end: none where another thread has them just then.
pub fn noted() -> Vec<ProcessFailure> {
    match FAILURES.try_lock() {
        Some(failures) if failures.0 == std::process::id() => failures.1.clone(),
        _ => Vec::new(),
    }
}
