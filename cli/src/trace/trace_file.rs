//! A file of the Trace Event Format, which Perfetto and browsers read: a list of events, times in microseconds.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Where an event stands: a process, and a row of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// The file while it is written. A reader takes it without its end as well.
#[derive(Debug)]
pub(super) struct TraceFile {
    out: BufWriter<File>,
    events: usize,
    named: BTreeSet<(u32, Option<u32>)>,
}

impl TraceFile {
    /// Begins a new file; one of that name is replaced.
    pub(super) fn create(path: &Path) -> Result<TraceFile> {
        let file = File::create(path).with_context(|| format!("failed to write {}", path.display()))?;
        Ok(TraceFile {
            out: BufWriter::new(file),
            events: 0,
            named: BTreeSet::new(),
        })
    }

    /// What was done with a row, from and to in nanoseconds of the machine's monotonic clock.
    pub(super) fn slice(
        &mut self,
        row: Row,
        name: &str,
        from_ns: u64,
        to_ns: u64,
        args: &Value,
    ) -> Result<()> {
        self.event(&json!({
            "ph": "X", "name": name, "pid": row.pid, "tid": row.tid, "ts": microseconds(from_ns),
            "dur": microseconds(to_ns.saturating_sub(from_ns)), "args": args,
        }))
    }

    /// Values of a process at a time: a counter for each of them.
    pub(super) fn counters(&mut self, pid: u32, name: &str, at_ns: u64, values: &Value) -> Result<()> {
        self.event(
            &json!({"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": microseconds(at_ns), "args": values}),
        )
    }

    /// Says what a process is called, once.
    pub(super) fn name_process(&mut self, pid: u32, name: impl FnOnce() -> String) -> Result<()> {
        self.name((pid, None), name)
    }

    /// Says what a row is called, once.
    pub(super) fn name_row(&mut self, row: Row, name: impl FnOnce() -> String) -> Result<()> {
        self.name((row.pid, Some(row.tid)), name)
    }

    fn name(&mut self, of: (u32, Option<u32>), name: impl FnOnce() -> String) -> Result<()> {
        if !self.named.insert(of) {
            return Ok(());
        }
        let what = if of.1.is_some() {
            "thread_name"
        } else {
            "process_name"
        };
        self.event(&json!({
            "ph": "M", "name": what, "pid": of.0, "tid": of.1.unwrap_or(0), "args": {"name": name()},
        }))
    }

    fn event(&mut self, event: &Value) -> Result<()> {
        let before = if self.events == 0 { "[\n" } else { ",\n" };
        write!(self.out, "{before}{event}").context("failed to write the trace")?;
        self.events += 1;
        Ok(())
    }

    /// Ends the file; how many events it has.
    pub(super) fn finish(mut self) -> Result<usize> {
        let end = if self.events == 0 { "[]\n" } else { "\n]\n" };
        self.out.write_all(end.as_bytes())?;
        self.out.flush()?;
        Ok(self.events)
    }
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}
