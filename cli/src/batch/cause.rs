//! Why a job failed, as far as its exit, what its processes have written down, and its log tell, in this
//! order.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use mgb_probe::failures::FailureCause;
use mgb_probe::log_markers::{GPU_FAILED, LARGEST_GPU};
use serde::{Deserialize, Serialize};

use crate::traced::TracedFailure;

/// How much of a log's end is looked at.
const TAIL: u64 = 64 << 10;

/// What programs print when the GPU has no memory left, in lower case: CUDA's own text and names.
const OUT_OF_MEMORY: [&str; 4] = [
    "out of memory",
    "cudaerrormemoryallocation",
    "cuda_error_out_of_memory",
    "cudaerroroutofmemory",
];

/// Why a job failed, with the line that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// The GPU had no memory left for it.
    OutOfMemory {
        /// The line that says so.
        log_line: String,
    },
    /// A task of it can never fit on any GPU: MGB refused it.
    NeverFits {
        /// The line, with what it wants and what there is.
        log_line: String,
    },
    /// It alone wanted more than its user may have: MGB refused it.
    OverQuota {
        /// The line, with what it wants and what its user may have.
        log_line: String,
    },
    /// It ended badly without a word of memory, while the jobs on its GPU together took more than it has.
    GpuFull {
        /// What they take, and what there is.
        reason: String,
    },
    /// Its GPU failed under it, by a fault of its own or, under MPS, of another program: its results are
    /// void, whatever its exit code says.
    GpuFault {
        /// The line, with CUDA's error.
        log_line: String,
    },
    /// A signal ended it.
    Signal {
        /// The number of the signal.
        signal: i32,
    },
    /// It ended with an exit code other than 0, and its log says nothing known.
    Exit {
        /// The code of the exit.
        code: i32,
    },
    /// It could not be started.
    NotStarted {
        /// The reason in words.
        reason: String,
    },
}

impl Cause {
    /// Judges a job that ended with `code`, or by `signal`, and whose processes have written down these
    /// failures; a killed one has not. `None`: it ended well.
    pub fn judge(
        code: Option<i32>,
        signal: Option<i32>,
        failures: &[TracedFailure],
        log: &Path,
    ) -> Option<Self> {
        let is_void = |failure: &&TracedFailure| failure.kind == FailureCause::GpuFault;
        let ended_well = code == Some(0);
        // A program may live with a refusal. What it computed on a GPU that failed is void all the same.
        let mut counted = failures.iter().filter(|failure| !ended_well || is_void(failure));
        if let Some(failure) = counted.clone().find(is_void).or(counted.next()) {
            return Some(Self::of_failure(failure));
        }
        let log = tail(log);
        if ended_well {
            return fault(&log);
        }
        Some(Self::of_text(code, signal, &log))
    }

    fn of_failure(failure: &TracedFailure) -> Self {
        let log_line = failure.text.clone();
        match failure.kind {
            FailureCause::NeverFits => Self::NeverFits { log_line },
            FailureCause::OverQuota => Self::OverQuota { log_line },
            FailureCause::Deadlock => Self::OutOfMemory { log_line },
            FailureCause::GpuFault => Self::GpuFault { log_line },
        }
    }

    fn of_text(code: Option<i32>, signal: Option<i32>, log: &str) -> Self {
        if let Some(log_line) = line_that(log, |line| line.contains(LARGEST_GPU)) {
            return Self::NeverFits { log_line };
        }
        if let Some(log_line) = line_that(log, lacks_memory) {
            return Self::OutOfMemory { log_line };
        }
        match (fault(log), signal) {
            (Some(fault), _) => fault,
            (None, Some(signal)) => Self::Signal { signal },
            (None, None) => Self::Exit {
                code: code.unwrap_or(-1),
            },
        }
    }

    /// Whether memory was lacking.
    pub fn is_memory(&self) -> bool {
        matches!(
            self,
            Self::OutOfMemory { .. } | Self::NeverFits { .. } | Self::OverQuota { .. } | Self::GpuFull { .. }
        )
    }

    /// In a few words, for a table.
    pub fn short(&self) -> String {
        match self {
            Self::OutOfMemory { .. } => "out of memory".to_owned(),
            Self::NeverFits { .. } => "never fits".to_owned(),
            Self::OverQuota { .. } => "over quota".to_owned(),
            Self::GpuFull { .. } => "GPU full".to_owned(),
            Self::GpuFault { .. } => "GPU fault".to_owned(),
            Self::Signal { signal } => format!("killed by {}", signal_name(*signal)),
            Self::Exit { code } => format!("exit code {code}"),
            Self::NotStarted { .. } => "not started".to_owned(),
        }
    }

    /// Where that is known from.
    pub fn evidence(&self) -> Option<&str> {
        match self {
            Self::OutOfMemory { log_line }
            | Self::NeverFits { log_line }
            | Self::OverQuota { log_line }
            | Self::GpuFault { log_line } => Some(log_line),
            Self::NotStarted { reason } | Self::GpuFull { reason } => Some(reason),
            Self::Signal { .. } | Self::Exit { .. } => None,
        }
    }
}

/// The first line that says so.
fn line_that(log: &str, says: impl Fn(&str) -> bool) -> Option<String> {
    let line = log.lines().find(|line| says(line));
    line.map(|line| line.trim().to_owned())
}

fn lacks_memory(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    OUT_OF_MEMORY.iter().any(|words| line.contains(words))
}

fn fault(log: &str) -> Option<Cause> {
    line_that(log, |line| line.contains(GPU_FAILED)).map(|log_line| Cause::GpuFault { log_line })
}

/// What a signal is called.
pub fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.to_owned(),
        None => format!("signal {signal}"),
    }
}

fn tail(log: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(log).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        file.read_to_end(&mut bytes)
    });
    // Without its log a job is judged by its exit alone.
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_failed_is_a_cause_whatever_the_exit_code() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("job.log");
        let line =
            "mgb: the GPU failed under this program (CUDA error 719): its results from then on are void";
        std::fs::write(&log, format!("error 0.4, PASS\n{line}\n")).unwrap();
        let fault = Some(Cause::GpuFault {
            log_line: line.to_owned(),
        });
        assert_eq!(Cause::judge(Some(0), None, &[], &log), fault);
        assert_eq!(Cause::judge(Some(1), None, &[], &log), fault);
        std::fs::write(&log, "PASS\n").unwrap();
        assert_eq!(Cause::judge(Some(0), None, &[], &log), None);
        assert_eq!(
            Cause::judge(Some(1), None, &[], &log),
            Some(Cause::Exit { code: 1 })
        );
    }

    #[test]
    fn causes_are_told_apart() {
        let judge = |code, signal, log: &str| Cause::of_text(code, signal, log);
        let memory = judge(Some(2), None, "start\nvecadd.cu:30: cudaMalloc: out of memory\n");
        assert_eq!(
            memory,
            Cause::OutOfMemory {
                log_line: "vecadd.cu:30: cudaMalloc: out of memory".to_owned()
            }
        );
        assert!(memory.is_memory());
        let refused =
            "mgb: failed to place task 3: needs 96.0 GiB, the largest GPU has 80.0 GiB\nout of memory\n";
        assert!(matches!(judge(Some(2), None, refused), Cause::NeverFits { .. }));
        assert_eq!(judge(Some(1), None, "FAIL\n"), Cause::Exit { code: 1 });
        assert_eq!(judge(None, Some(9), "").short(), "killed by SIGKILL");
    }

    #[test]
    fn what_processes_have_written_down_counts_before_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("job.log");
        std::fs::write(&log, "CUDA error: out of memory\n").unwrap();
        let wrote = |kind| TracedFailure {
            kind,
            text: "as it said".to_owned(),
        };
        let judge = |code, kinds: &[FailureCause]| {
            let failures: Vec<TracedFailure> = kinds.iter().copied().map(wrote).collect();
            Cause::judge(Some(code), None, &failures, &log)
        };
        let log_line = "as it said".to_owned();
        let fault = Some(Cause::GpuFault {
            log_line: log_line.clone(),
        });
        let kinds = [FailureCause::OverQuota, FailureCause::GpuFault];
        assert_eq!(judge(0, &kinds), fault, "its results are void");
        assert_eq!(judge(1, &kinds), fault);
        assert_eq!(judge(0, &[FailureCause::NeverFits]), None, "it went on without");
        let over = judge(1, &kinds[..1]).unwrap();
        assert!(over.is_memory() && over.short() == "over quota" && over.evidence() == Some(&log_line));
        assert_eq!(
            judge(1, &[FailureCause::Deadlock]),
            Some(Cause::OutOfMemory { log_line })
        );
        assert!(
            matches!(judge(1, &[]), Some(Cause::OutOfMemory { log_line }) if log_line.starts_with("CUDA"))
        );
    }
}
