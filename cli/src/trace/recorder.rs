//! Makes events of looks at mgbd's view.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use mgb_probe::view::{GpuView, NodeView, TaskView};
use serde_json::{Value, json};

use super::slices::{RowKind, RowOf, Seen, Slices};
use super::trace_file::TraceFile;
use crate::status;

/// GPUs stand among processes, at numbers that these never have.
const FIRST_GPU_PID: u32 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// Makes events of looks at mgbd's view.
#[derive(Debug)]
pub(super) struct Recorder {
    file: TraceFile,
    slices: Slices,
    began_ns: u64,
    last_ns: u64,
    /// Milliseconds of work that were seen, by process and GPU; those of a GPU under its own number.
    busy_ms: BTreeMap<(u32, u32), u64>,
    /// Counters as they were written last.
    counters: BTreeMap<(u32, &'static str), Value>,
    saw_node: bool,
}

impl Recorder {
    /// Begins a file at this time, in nanoseconds of the machine's monotonic clock.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn create(path: &Path, now_ns: u64) -> Result<Recorder> {
        Ok(Recorder {
            file: TraceFile::create(path)?,
            slices: Slices::default(),
            began_ns: now_ns,
            last_ns: now_ns,
            busy_ms: BTreeMap::new(),
            counters: BTreeMap::new(),
            saw_node: false,
        })
    }

    /// Whether any mgbd has answered.
    pub(super) fn saw_node(&self) -> bool {
        self.saw_node
    }

    /// The node is so now.
    pub(super) fn saw(&mut self, now_ns: u64, view: &NodeView) -> Result<()> {
        for gpu in &view.gpus {
            self.saw_gpu(now_ns, gpu)?;
        }
        let mut seen: BTreeMap<RowOf, Seen> = BTreeMap::new();
        for task in view.tasks.iter().filter(|task| task.pid != 0) {
            self.file.name_process(task.pid, || task.label.clone())?;
            self.saw_task(now_ns, task, &mut seen);
            self.saw_work(now_ns, (task.pid, task.gpu), task.busy_ms, task.pid)?;
        }
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for wait in &view.queue {
            self.file.name_process(wait.pid, || wait.label.clone())?;
            let nth = counts.entry(wait.pid).or_default();
            let one = Seen {
                name: format!("waits: {}", status::why(view, wait)),
                since_ns: self.since(now_ns, wait.waited_ms),
                args: json!({"bytes": wait.bytes, "gpu": wait.gpu, "growth": wait.growth}),
            };
            seen.insert((wait.pid, RowKind::Wait(*nth)), one);
            *nth += 1;
        }
        self.slices.see(&mut self.file, now_ns, seen)?;
        self.last_ns = now_ns;
        self.saw_node = true;
        Ok(())
    }

    /// No mgbd answers: nothing is known of the node.
    pub(super) fn lost(&mut self, now_ns: u64) -> Result<()> {
        self.busy_ms.clear();
        self.slices.end(&mut self.file, now_ns)
    }

    fn since(&self, now_ns: u64, ms: u64) -> u64 {
        let since_ns = now_ns.saturating_sub(ms.saturating_mul(NS_PER_MS));
        since_ns.max(self.began_ns)
    }

    fn saw_gpu(&mut self, now_ns: u64, gpu: &GpuView) -> Result<()> {
        let index = gpu.gpu.index;
        let pid = FIRST_GPU_PID + index;
        self.file
            .name_process(pid, || format!("GPU {index}: {}", gpu.gpu.name))?;
        let memory = json!({
            "reserved": gpu.reserved_bytes, "resident": gpu.resident_bytes, "headroom": gpu.headroom_bytes,
            "contexts": gpu.contexts_bytes, "overhead": gpu.overhead_bytes, "reclaiming": gpu.reclaiming_bytes,
            "foreign": gpu.foreign_bytes, "evicted": gpu.evicted_bytes,
        });
        self.count(now_ns, (pid, "bytes"), memory)?;
        let use_of = json!({
            "load in percent": f64::from(gpu.load.unwrap_or(0)) / 10.0, "launches in flight": gpu.launches_in_flight,
            "processes": gpu.processes,
        });
        self.count(now_ns, (pid, "use"), use_of)?;
        self.saw_work(now_ns, (pid, index), gpu.busy_ms, pid)
    }

    /// A counter stays what it is until it is written again.
    fn count(&mut self, now_ns: u64, of: (u32, &'static str), values: Value) -> Result<()> {
        if self.counters.get(&of) == Some(&values) {
            return Ok(());
        }
        self.file.counters(of.0, of.1, now_ns, &values)?;
        self.counters.insert(of, values);
        Ok(())
    }

    fn saw_task(&self, now_ns: u64, task: &TaskView, seen: &mut BTreeMap<RowOf, Seen>) {
        // What is held has a row of its own: it comes and goes within what a task does.
        let state = status::task_state(task).replace(", launches held", "");
        let is_new = task.age_ms.saturating_mul(NS_PER_MS) < now_ns.saturating_sub(self.last_ns);
        let one = Seen {
            name: format!("{state} on GPU {}", task.gpu),
            since_ns: if is_new {
                self.since(now_ns, task.age_ms)
            } else {
                now_ns
            },
            args: json!({
                "label": task.label, "gpu": task.gpu, "reserved": task.reserved_bytes, "evicted": task.evicted_bytes,
                "job": task.job,
            }),
        };
        seen.insert((task.pid, RowKind::Task(task.task)), one);
        if task.pace.is_some_and(|pace| pace.is_hold()) {
            let one = Seen {
                name: "launches held".to_owned(),
                since_ns: now_ns,
                args: json!({"gpu": task.gpu}),
            };
            seen.insert((task.pid, RowKind::Holds(task.gpu)), one);
        }
    }

    /// A process has had so much work on a GPU until now: what has been added since the last look is shown.
    fn saw_work(&mut self, now_ns: u64, of: (u32, u32), busy_ms: u64, pid: u32) -> Result<()> {
        // What was before the first look is not known to the moment.
        let Some(before) = self.busy_ms.insert(of, busy_ms) else {
            return Ok(());
        };
        match busy_ms.saturating_sub(before) * NS_PER_MS {
            0 => Ok(()),
            length_ns => {
                let row = (pid, RowKind::Work(of.1));
                self.slices.work(&mut self.file, row, now_ns, length_ns)
            }
        }
    }

    /// What a program has written down of itself.
    pub(super) fn add(
        &mut self,
        of: RowOf,
        name: &str,
        (from_ns, to_ns): (u64, u64),
        args: &Value,
    ) -> Result<()> {
        let row = self.slices.row(&mut self.file, of)?;
        self.file.slice(row, name, from_ns, to_ns, args)
    }

    /// Says what the program of a process is called, where nobody has.
    pub(super) fn name_process(&mut self, pid: u32, name: &str) -> Result<()> {
        self.file.name_process(pid, || name.to_owned())
    }

    /// Ends the file; how many events it has.
    pub(super) fn finish(mut self) -> Result<usize> {
        self.slices.end(&mut self.file, self.last_ns)?;
        self.file.finish()
    }
}
