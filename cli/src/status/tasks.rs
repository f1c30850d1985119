//! The table of tasks that hold room.

use mgb_command::table::{Table, span};
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{Lack, PacedFor, TaskState, TaskView};
use mgb_probe::{Bursts, Class};

use super::columns::{Column, Width, table};
use crate::user;

fn numbers(head: &'static str, cell: fn(&TaskView) -> String) -> Column<'static, TaskView> {
    Column::numbers(head, cell)
}

fn words(head: &'static str, cell: fn(&TaskView) -> String) -> Column<'static, TaskView> {
    Column::words(head, cell)
}

/// Tasks with what is known of them.
pub(super) fn tasks(tasks: &[TaskView], width: Width) -> Table {
    // What is reclaiming is nobody's any more.
    let living = tasks.iter().filter(|task| task.state != TaskState::Reclaiming);
    let are_several = user::are_several(living.map(|task| task.uid));
    let if_any = |column: Column<'static, TaskView>, says: fn(&TaskView) -> bool| {
        column.wide_if_any(width, tasks, says)
    };
    let has_deadline = |task: &TaskView| task.deadline_ms.is_some();
    let has_latency = |task: &TaskView| task.latency.is_some();
    let columns = [
        numbers("gpu", |task| task.gpu.to_string()),
        numbers("pid", |task| task.pid.to_string()),
        words("user", user_of).shown_if(are_several),
        if_any(words("class", |task| task.class.name().to_owned()), |task| {
            task.class == Class::Latency
        }),
        words("state", state_and_notes),
        numbers("expected", |task| expected(task.expected_bytes)).wide(width),
        numbers("reserved", |task| Bytes(task.reserved_bytes).to_string()),
        numbers("held", |task| Bytes(task.held_bytes).to_string()),
        numbers("peak", |task| Bytes(task.peak_bytes).to_string()).wide(width),
        if_any(numbers("in host", |task| expected(task.evicted_bytes)), |task| {
            task.evicted_bytes > 0
        }),
        numbers("warps", |task| task.warps.to_string()).wide(width),
        numbers("age", |task| span(task.age_ms)),
        if_any(numbers("paused", |task| span(task.paused_ms)), |task| {
            task.paused_ms > 0
        }),
        if_any(words("time", time_of), |task| task.most_time_ms.is_some()),
        if_any(numbers("due in", |task| due_of(task).0), has_deadline),
        if_any(numbers("ends in", |task| due_of(task).1), has_deadline),
        if_any(numbers("speed", speed_of), |task| task.speed.is_some()),
        if_any(numbers("share", share_of), |task| task.share.is_some()),
        if_any(numbers("SMs", multiprocessors_of), |task| {
            task.multiprocessors_percent.is_some()
        }),
        if_any(numbers("p50", |task| latency_of(task)[0].clone()), has_latency),
        if_any(numbers("p99", |task| latency_of(task)[1].clone()), has_latency),
        if_any(words("note", note_of), |task| !task.lacks.is_empty()),
        words("task", |task| task.label.clone()),
    ];
    table(&columns, tasks)
}

/// What a task does, whether its launches are held now, and whether it has had its memory for too long.
pub fn state_and_notes(task: &TaskView) -> String {
    let is_held = task.pace.is_some_and(PacedFor::is_hold);
    let held = if is_held { ", launches held" } else { "" };
    let late = if task.is_late() { ", late" } else { "" };
    format!("{}{held}{late}", state_of(task))
}

fn state_of(task: &TaskView) -> &'static str {
    match task.state {
        TaskState::Running => "running",
        TaskState::Growing => "growing",
        TaskState::Ended => "ended, memory held",
        TaskState::Reclaiming => "reclaiming",
        TaskState::Moving => "moving",
        TaskState::Evicting => "evicting",
        TaskState::Evicted => "evicted",
        TaskState::Restoring => "restoring",
        TaskState::Suspending => "suspending",
        TaskState::Suspended => "suspended",
        TaskState::Unknown => "unknown",
    }
}

fn user_of(task: &TaskView) -> String {
    match task.state {
        TaskState::Reclaiming => "-".to_owned(),
        _ => user::name(task.uid),
    }
}

/// How long until a result is wanted, negative once that has passed, and until it is expected.
pub(super) fn due_cells(deadline_ms: Option<i64>, ends_ms: Option<u64>) -> [String; 2] {
    let due = deadline_ms.map_or("-".to_owned(), |ms| {
        let sign = if ms < 0 { "-" } else { "" };
        format!("{sign}{}", span(ms.unsigned_abs()))
    });
    [due, ends_ms.map_or("-".to_owned(), span)]
}

fn due_of(task: &TaskView) -> (String, String) {
    due_cells(task.deadline_ms, task.ends_ms).into()
}

fn percent(part: u32) -> String {
    format!("{}%", (part + 5) / 10)
}

/// What a task does of what it would do alone.
fn speed_of(task: &TaskView) -> String {
    task.speed.map_or_else(|| "-".to_owned(), percent)
}

/// How long a task has had its memory on a GPU, and may.
fn time_of(task: &TaskView) -> String {
    let Some(most) = task.most_time_ms else {
        return "-".to_owned();
    };
    let late = if task.is_late() { ", late" } else { "" };
    format!("{} of {}{late}", span(task.time_ms), span(most))
}

/// The part of its GPU's time that a task's process has had of late, and what is due to it where that is much
/// more.
fn share_of(task: &TaskView) -> String {
    let Some(share) = task.share else {
        return "-".to_owned();
    };
    match task.share_due {
        Some(due) => format!("{} of {}", percent(share), percent(due)),
        None => percent(share),
    }
}

fn multiprocessors_of(task: &TaskView) -> String {
    let percent = task.multiprocessors_percent;
    percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"))
}

fn latency_of(task: &TaskView) -> [String; 2] {
    latency_cells(task.latency)
}

/// In how many microseconds half of a latency program's bursts were done, and 99 of 100.
pub fn latency_cells(bursts: Option<Bursts>) -> [String; 2] {
    bursts.map_or_else(
        || ["-", "-"].map(str::to_owned),
        |bursts| [bursts.p50_us, bursts.p99_us].map(|us| format!("{us} us")),
    )
}

/// What a task cannot be given any more.
fn note_of(task: &TaskView) -> String {
    match task.lacks.as_slice() {
        [] => "-".to_owned(),
        lacks => lacks.iter().map(lack).collect::<Vec<_>>().join(", "),
    }
}

fn lack(lack: &Lack) -> &'static str {
    match lack {
        Lack::NoMps => "no MPS",
        Lack::OutsideMps => "outside MPS",
        Lack::NormalPriority => "normal priority",
        Lack::LowPriority => "low priority",
        Lack::AllMultiprocessors => "all multiprocessors",
        Lack::SomeMultiprocessors => "some multiprocessors",
        Lack::NoRight => "no right to latency",
        Lack::Unknown => "unknown",
    }
}

/// What is expected of a task, where anything is.
pub(super) fn expected(bytes: u64) -> String {
    if bytes == 0 {
        return "-".to_owned();
    }
    Bytes(bytes).to_string()
}
