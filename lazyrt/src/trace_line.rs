//! `MGB_TRACE`: one line of JSON per process, appended at its exit: what each task asked for and what it
//! really took.

use mgb_core::{mps, pace, swaps, work};
use mgb_probe::trace::{LazyRecord, Stretch, TaskLocation, TaskTrace, TraceLine, is_wanted};

use crate::ops::parts;
use crate::state::{self, ProcessState};
use crate::task::{Span, Task};
use crate::{foreign_cuda, session};

/// Runs after the program's own exit handlers and destructors.
extern "C" fn at_exit() {
    if session::decided() != Some(session::Mode::Mgb) || !is_wanted() {
        return;
    }
    if let Some(mut state) = state::try_lock() {
        write(&mut state);
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

fn write(state: &mut ProcessState) {
    for task in state.tasks_mut() {
        task.stop_clock();
    }
    let lazy: Vec<&Task> = state
        .tasks()
        .map(|(_, task)| task)
        .filter(|task| task.lazy && task.seen.objects > 0)
        .collect();
    let lazy_record = (!lazy.is_empty()).then(|| LazyRecord {
        objects: lazy.iter().map(|task| task.seen.objects).sum(),
        peak: lazy.iter().map(|task| task.seen.peak).sum(),
        live_at_exit: lazy.iter().map(|task| task.live).sum(),
    });
    let tasks = state
        .past
        .iter()
        .chain(state.tasks().map(|(_, task)| task))
        .filter(|task| is_worth_a_word(task))
        .map(entry)
        .collect();
    let mut line = TraceLine::new(tasks);
    line.open = foreign_cuda::reason();
    line.outside_mps = mps::why_outside();
    if let Some(client) = session::client() {
        (line.class, line.paused_ns, line.latency) = pace::for_trace(client);
    }
    line.lazy_record = lazy_record;
    line.swapped = swaps::total();
    line.parted = parts::total();
    line.gpu_times = work::gpu_times();
    line.append();
}

fn is_worth_a_word(task: &Task) -> bool {
    task.seen.objects > 0 || task.need.peak_bytes > 0 || task.site.is_some()
}

fn stretch(span: &Span) -> Stretch {
    Stretch {
        gpu: span.gpu,
        from_ns: span.from.as_nanos() as u64,
        to_ns: span.to.as_nanos() as u64,
    }
}

fn entry(task: &Task) -> TaskTrace {
    TaskTrace {
        site: task.site.as_ref().map(|site| TaskLocation {
            id: site.id,
            module: site.module.clone(),
            function: site.function.clone(),
        }),
        label: None,
        lazy: task.lazy,
        gpu: task.gpu,
        need_peak: task.need.peak_bytes,
        need_mapped: task.need.reserved_bytes(),
        seen_peak: task.seen.peak,
        seen_mapped: task.seen.mapped,
        grid_blocks: task.need.grid_blocks,
        block_threads: task.need.block_threads,
        launches: None,
        wait_ns: task.seen.waited.as_nanos() as u64,
        run_ns: task.seen.run.as_nanos() as u64,
        spans: task.spans.iter().map(stretch).collect(),
        swaps: task.swaps.clone(),
    }
}
