//! What the tasks of this process took, for the line that `MGB_TRACE` asks for. It is written at the
//! process's exit, as MGB's runtime does it, so a process that is killed leaves none.

use std::time::Duration;

use mgb_core::swaps::{self, Watch};
use mgb_core::{mps, pace, work};
use mgb_probe::Grant;
use mgb_probe::clock;
use mgb_probe::trace::{self, Stretch, Swap, TaskTrace, TraceLine};
use parking_lot::Mutex;

use crate::{kernels, owner, program, session};

/// A device's task.
struct Record {
    device: i32,
    gpu: u32,
    began: Duration,
    waited: Duration,
    peak: u64,
    swaps: Vec<Swap>,
}

/// The process that began them, and its tasks.
static RECORDS: Mutex<(u32, Vec<Record>)> = Mutex::new((0, Vec::new()));

/// A device's task was granted.
pub fn began(device: i32, grant: &Grant) {
    // Reads the environment now, before the program may change it.
    if !trace::is_wanted() {
        return;
    }
    let mut records = RECORDS.lock();
    records.0 = std::process::id();
    records.1.push(Record {
        device,
        gpu: grant.gpu,
        began: clock::now(),
        waited: grant.waited,
        peak: 0,
        swaps: Vec::new(),
    });
}

/// It holds so many bytes now.
pub fn holds(device: i32, bytes: u64) {
    change(device, |record| record.peak = record.peak.max(bytes));
}

/// So many bytes of it went to the host or came back.
pub fn swapped(device: i32, watch: Watch, bytes: u64) {
    change(device, |record| record.swaps.extend(watch.end(record.gpu, bytes)));
}

/// It waits for more room, until this is dropped.
pub struct Waits(i32, Duration);

/// A task waits for more room.
pub fn waits(device: i32) -> Waits {
    Waits(device, clock::now())
}

impl Drop for Waits {
    fn drop(&mut self) {
        let time = clock::now().saturating_sub(self.1);
        change(self.0, |record| record.waited += time);
    }
}

fn change(device: i32, change: impl FnOnce(&mut Record)) {
    if trace::is_wanted()
        && let Some(record) = RECORDS.lock().1.iter_mut().find(|record| record.device == device)
    {
        change(record);
    }
}

/// Runs after the program's own exit handlers.
extern "C" fn at_exit() {
    // A thread that goes on while the process ends may have it, and may never give it back.
    let Some(records) = RECORDS.try_lock() else { return };
    let (process, records) = &*records;
    // A forked child has the parent's records, and no tasks.
    let is_own = *process == std::process::id();
    let tasks: Vec<TaskTrace> = records.iter().filter(|_| is_own).map(entry).collect();
    let mut line = TraceLine::new(tasks);
    if line.tasks.is_empty() && line.failures.is_empty() {
        return;
    }
    line.open = owner::why_open();
    line.outside_mps = mps::why_outside();
    if let Some(session) = session::get() {
        (line.class, line.paused_ns, line.latency) = pace::for_trace(session.client);
    }
    line.swapped = swaps::total();
    line.gpu_times = work::gpu_times();
    line.append();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

fn entry(record: &Record) -> TaskTrace {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let to = clock::now();
    TaskTrace {
        label: Some(program::name().to_owned()),
        lazy: true,
        gpu: Some(record.gpu),
        seen_peak: record.peak,
        seen_mapped: record.peak,
        launches: kernels::on(record.gpu),
        wait_ns: nanoseconds(record.waited),
        run_ns: nanoseconds(to.saturating_sub(record.began)),
        spans: vec![Stretch {
            gpu: record.gpu,
            from_ns: nanoseconds(record.began),
            to_ns: nanoseconds(to),
        }],
        swaps: record.swaps.clone(),
        ..TaskTrace::default()
    }
}
