//! Why a job failed, as far as its exit and its log tell.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use mgb_probe::log_markers::{GPU_FAILED, LARGEST_GPU};
use serde::{Deserialize, Serialize};

/// How much of a log's end is looked at.
const TAIL: u64 = 64 << 10;

/// What programs print when the GPU has no memory left, in lower case: CUDA's own text and names.
const OUT_OF_MEMORY: [&str; 4] = [
    "out of memory",
    "cudaerrormemoryallocation",
    "cuda_error_out_of_memory",
    "cudaerroroutofmemory",
];

/// Why a job failed. Nothing is known but the exit and the log, so the log's line is given with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// Its log says that the GPU had no memory left.
    OutOfMemory {
        /// The line of the log that says so.
        log_line: String,
    },
    /// A task of it can never fit on any GPU: MGB refused it.
    NeverFits {
        /// The line, with what it wants and what there is.
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
    /// Judges a job that ended with `code`, or by `signal`. `None`: it ended well.
    pub fn judge(code: Option<i32>, signal: Option<i32>, log: &Path) -> Option<Self> {
        let log = tail(log);
        if code == Some(0) {
            return fault(&log);
        }
        Some(Self::of_text(code, signal, &log))
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
            Self::OutOfMemory { .. } | Self::NeverFits { .. } | Self::GpuFull { .. }
        )
    }

    /// In a few words, for a table.
    pub fn short(&self) -> String {
        match self {
            Self::OutOfMemory { .. } => "out of memory".to_owned(),
            Self::NeverFits { .. } => "never fits".to_owned(),
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
            Self::OutOfMemory { log_line } | Self::NeverFits { log_line } | Self::GpuFault { log_line } => {
                Some(log_line)
            }
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
        assert_eq!(Cause::judge(Some(0), None, &log), fault);
        assert_eq!(Cause::judge(Some(1), None, &log), fault);
        std::fs::write(&log, "PASS\n").unwrap();
        assert_eq!(Cause::judge(Some(0), None, &log), None);
        assert_eq!(Cause::judge(Some(1), None, &log), Some(Cause::Exit { code: 1 }));
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
}
