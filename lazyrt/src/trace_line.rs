//! `MGB_TRACE`: one line of JSON per process, appended at its exit: what each task asked for and what it
//! really took.

use std::io::Write;

use serde::Serialize;

use crate::state::{self, State};
use crate::task::{Span, Task};
use crate::{open, session, trace};

#[derive(Serialize)]
struct Line {
    version: u32,
    pid: u32,
    program: String,
    /// Why the process was open, if it was.
    open: Option<String>,
    tasks: Vec<Entry>,
    lazy_record: Option<LazyRecord>,
}

#[derive(Serialize)]
struct Place {
    id: u32,
    module: String,
    function: String,
}

#[derive(Serialize)]
struct Entry {
    site: Option<Place>,
    lazy: bool,
    gpu: Option<u32>,
    need_peak: u64,
    need_mapped: u64,
    seen_peak: u64,
    seen_mapped: u64,
    grid_blocks: u64,
    block_threads: u32,
    wait_ns: u64,
    run_ns: u64,
    /// When it held room, and where. A later part of a task may be on another GPU.
    spans: Vec<Stretch>,
}

/// A stretch of time, in nanoseconds of the machine's monotonic clock: comparable between processes.
#[derive(Serialize)]
struct Stretch {
    gpu: u32,
    from_ns: u64,
    to_ns: u64,
}

/// What the lazy tasks allocated, in total.
#[derive(Serialize)]
struct LazyRecord {
    objects: u64,
    peak: u64,
    live_at_exit: u64,
}

/// Runs after the program's own exit handlers and destructors.
extern "C" fn at_exit() {
    if session::decided() != Some(session::Mode::Mgb) || !trace::is_wanted() {
        return;
    }
    if let Some(mut state) = state::try_lock() {
        write(&mut state);
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

fn write(state: &mut State) {
    let Some(path) = trace::file() else { return };
    for task in state.tasks_mut() {
        task.stop_clock();
    }
    let lazy: Vec<&Task> = state
        .tasks()
        .map(|(_, task)| task)
        .filter(|task| task.lazy && task.seen.objects > 0)
        .collect();
    let line = Line {
        version: 1,
        pid: std::process::id(),
        program: std::env::current_exe()
            .ok()
            .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .unwrap_or_default(),
        open: open::reason(),
        lazy_record: (!lazy.is_empty()).then(|| LazyRecord {
            objects: lazy.iter().map(|task| task.seen.objects).sum(),
            peak: lazy.iter().map(|task| task.seen.peak).sum(),
            live_at_exit: lazy.iter().map(|task| task.live).sum(),
        }),
        tasks: state
            .past
            .iter()
            .chain(state.tasks().map(|(_, task)| task))
            .filter(|task| is_worth_a_word(task))
            .map(entry)
            .collect(),
    };
    let Ok(mut text) = serde_json::to_vec(&line) else {
        return;
    };
    text.push(b'\n');
    // One write in append mode: lines of several processes do not mix.
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(&text)) {
        eprintln!("mgb: failed to write the trace to {}: {error}", path.display());
    }
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

fn entry(task: &Task) -> Entry {
    Entry {
        site: task.site.as_ref().map(|site| Place {
            id: site.id,
            module: site.module.clone(),
            function: site.function.clone(),
        }),
        lazy: task.lazy,
        gpu: task.gpu,
        need_peak: task.need.peak_bytes,
        need_mapped: task.need.reserved_bytes(),
        seen_peak: task.seen.peak,
        seen_mapped: task.seen.mapped,
        grid_blocks: task.need.grid_blocks,
        block_threads: task.need.block_threads,
        wait_ns: task.seen.waited.as_nanos() as u64,
        run_ns: task.seen.run.as_nanos() as u64,
        spans: task.spans.iter().map(stretch).collect(),
    }
}
