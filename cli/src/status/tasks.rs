//! The table of tasks, whose columns are those that say something of any of them.

use mgb_command::table::{Table, span};
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{Lack, TaskState, TaskView};
use mgb_probe::{Bursts, Class};

use crate::user;

/// A column of the table.
struct Column {
    head: &'static str,
    is_number: bool,
    is_shown: bool,
    cell: fn(&TaskView) -> String,
}

impl Column {
    /// A column that is there in any case.
    fn new(head: &'static str, is_number: bool, cell: fn(&TaskView) -> String) -> Column {
        Column {
            head,
            is_number,
            is_shown: true,
            cell,
        }
    }

    /// The same where any task asks for it.
    fn if_any(self, tasks: &[TaskView], says: fn(&TaskView) -> bool) -> Column {
        Column {
            is_shown: tasks.iter().any(says),
            ..self
        }
    }
}

/// Tasks with what is known of them.
pub(super) fn tasks(tasks: &[TaskView]) -> Table {
    // What is reclaiming is nobody's any more.
    let living = tasks.iter().filter(|task| task.state != TaskState::Reclaiming);
    let are_several = user::are_several(living.map(|task| task.uid));
    let has_deadline = |task: &TaskView| task.deadline_ms.is_some();
    let columns = [
        Column::new("gpu", true, |task| task.gpu.to_string()),
        Column::new("pid", true, |task| task.pid.to_string()),
        Column {
            is_shown: are_several,
            ..Column::new("user", false, user_of)
        },
        Column::new("class", false, |task| task.class.name().to_owned())
            .if_any(tasks, |task| task.class == Class::Latency),
        Column::new("state", false, |task| state_of(task).to_owned()),
        Column::new("expected", true, |task| expected(task.expected_bytes)),
        Column::new("reserved", true, |task| Bytes(task.reserved_bytes).to_string()),
        Column::new("held", true, |task| Bytes(task.held_bytes).to_string()),
        Column::new("peak", true, |task| Bytes(task.peak_bytes).to_string()),
        Column::new("in host", true, |task| expected(task.evicted_bytes))
            .if_any(tasks, |task| task.evicted_bytes > 0),
        Column::new("warps", true, |task| task.warps.to_string()),
        Column::new("age", true, |task| span(task.age_ms)),
        Column::new("paused", true, |task| span(task.paused_ms)).if_any(tasks, |task| task.paused_ms > 0),
        Column::new("time", false, time_of).if_any(tasks, |task| task.most_time_ms.is_some()),
        Column::new("due in", true, |task| due_of(task).0).if_any(tasks, has_deadline),
        Column::new("ends in", true, |task| due_of(task).1).if_any(tasks, has_deadline),
        Column::new("speed", true, speed_of).if_any(tasks, |task| task.speed.is_some()),
        Column::new("share", true, share_of).if_any(tasks, |task| task.share.is_some()),
        Column::new("p50", true, |task| latency_of(task)[0].clone())
            .if_any(tasks, |task| task.latency.is_some()),
        Column::new("p99", true, |task| latency_of(task)[1].clone())
            .if_any(tasks, |task| task.latency.is_some()),
        Column::new("note", false, note_of).if_any(tasks, |task| !task.lacks.is_empty()),
        Column::new("task", false, |task| task.label.clone()),
    ];
    let shown: Vec<&Column> = columns.iter().filter(|column| column.is_shown).collect();
    let head: Vec<&str> = shown.iter().map(|column| column.head).collect();
    let numbers: Vec<&str> = shown
        .iter()
        .filter(|column| column.is_number)
        .map(|column| column.head)
        .collect();
    let mut table = Table::new(&head, &numbers);
    for task in tasks {
        table.row(shown.iter().map(|column| (column.cell)(task)));
    }
    table
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

/// What says when things are due, where anything is.
pub(super) fn due_head(is_any: bool) -> &'static [&'static str] {
    if is_any { &["due in", "ends in"] } else { &[] }
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
