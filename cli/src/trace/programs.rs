//! What programs have written down themselves: when they had room, and when memory of theirs moved.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use super::recorder::Recorder;
use super::slices::RowKind;
use crate::traced::{self, TracedKind};

/// Adds what programs have appended to their file behind this many bytes.
///
/// # Errors
/// The trace cannot be written. A file that is not there is none: no program has ended. Nor is a pipe, which somebody else
/// reads.
pub(super) fn add(recorder: &mut Recorder, traces: &Path, from: u64) -> Result<()> {
    // Whoever opens a pipe waits for its writers.
    let Ok(mut file) = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(traces)
    else {
        return Ok(());
    };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let mut text = Vec::new();
    let read = file
        .seek(SeekFrom::Start(from))
        .and_then(|_| file.read_to_end(&mut text));
    read.with_context(|| format!("failed to read {}", traces.display()))?;
    add_text(recorder, &String::from_utf8_lossy(&text))
}

/// The same of what such a file has.
pub(super) fn add_text(recorder: &mut Recorder, text: &str) -> Result<()> {
    for process in traced::processes(text) {
        recorder.name_process(process.pid, &process.program)?;
        for (nth, task) in process.tasks.iter().enumerate() {
            let args = json!({"task": task.name(), "peak": task.seen_peak, "job": process.job});
            for span in &task.spans {
                let name = format!("has room on GPU {}", span.gpu);
                let row = (process.pid, RowKind::Room(nth));
                recorder.add(row, &name, (span.from_ns, span.to_ns), &args)?;
            }
            for swap in &task.swaps {
                let name = match swap.kind {
                    TracedKind::Evicted => "evicted from",
                    TracedKind::Restored => "restored on",
                    TracedKind::Moved => "moved to",
                };
                let args = json!({"gpu": swap.gpu, "bytes": swap.bytes, "copy_ns": swap.copy_ns});
                let row = (process.pid, RowKind::Swaps(nth));
                let name = format!("{name} GPU {}", swap.gpu);
                recorder.add(row, &name, (swap.from_ns, swap.to_ns), &args)?;
            }
        }
    }
    Ok(())
}
