//! The table of requests that wait, and what each waits for.

use mgb_command::table::{Table, span};
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{HeldBack, NodeView, WaitView, WaitsFor};

use super::columns::{Column, Width, table};
use super::tasks::{due_cells, expected};
use crate::user;

/// Requests that wait, with why.
pub(super) fn queue(view: &NodeView, width: Width) -> Table {
    let any_user = user::are_several(view.queue.iter().map(|wait| wait.uid));
    let has_deadline = |wait: &WaitView| wait.deadline_ms.is_some();
    let due = |wait: &WaitView| due_cells(wait.deadline_ms, wait.ends_ms);
    let columns = [
        Column::numbers("waits", |wait: &WaitView| span(wait.waited_ms)),
        Column::numbers("pid", |wait: &WaitView| wait.pid.to_string()),
        Column::words("user", |wait: &WaitView| user::name(wait.uid)).shown_if(any_user),
        Column::numbers("wants", |wait: &WaitView| Bytes(wait.bytes).to_string()),
        Column::numbers("expected", |wait: &WaitView| {
            let is_more = wait.expected_bytes > wait.bytes;
            expected(if is_more { wait.expected_bytes } else { 0 })
        })
        .wide(width),
        Column::numbers("due in", move |wait: &WaitView| due(wait)[0].clone()).wide_if_any(
            width,
            &view.queue,
            has_deadline,
        ),
        Column::numbers("ends in", move |wait: &WaitView| due(wait)[1].clone()).wide_if_any(
            width,
            &view.queue,
            has_deadline,
        ),
        Column::words("gpu", |wait: &WaitView| {
            wait.gpu.map_or_else(|| "any".to_owned(), |gpu| gpu.to_string())
        }),
        Column::words("kind", |wait: &WaitView| kind(view, wait)),
        Column::words("task", |wait: &WaitView| wait.label.clone()),
    ];
    table(&columns, &view.queue)
}

/// What is asked for, and what it waits for.
pub(crate) fn kind(view: &NodeView, wait: &WaitView) -> String {
    let kind = if wait.growth { "more" } else { "new" };
    format!("{kind}, {}", why(view, wait))
}

/// What a request waits for, in a few words.
pub fn why(view: &NodeView, wait: &WaitView) -> String {
    reason(wait).unwrap_or_else(|| room_or_turn(view, wait).to_owned())
}

/// Why a request is not considered, or what it waits for where mgbd says that it is more than its turn and room.
pub fn reason(wait: &WaitView) -> Option<String> {
    Some(match wait.held_back {
        Some(HeldBack::Suspended) => "suspended".to_owned(),
        Some(HeldBack::Drained) => "GPU drained".to_owned(),
        Some(HeldBack::Unknown) => "held back".to_owned(),
        None if wait.over_quota => match wait.limited {
            Some(what) => format!("over quota: {}", what.name()),
            None => "over quota".to_owned(),
        },
        None if wait.gpu_lost => "GPU lost".to_owned(),
        None => waits_for(wait.waits_for?),
    })
}

fn waits_for(what: WaitsFor) -> String {
    match what {
        WaitsFor::RoomGathers(gpu) => format!("room gathers on GPU {gpu}"),
        WaitsFor::NothingLeaves => "nothing leaves its GPUs".to_owned(),
        WaitsFor::Growth => "others wait to grow there".to_owned(),
        WaitsFor::Places => "all places for processes are taken".to_owned(),
        WaitsFor::UserPlaces => "its user has half of all places for processes".to_owned(),
        WaitsFor::OthersGpus => "its GPUs are kept for others".to_owned(),
        WaitsFor::OwnGpu => "a GPU for itself".to_owned(),
        WaitsFor::KeptAlone => "a task has the GPU for itself".to_owned(),
        WaitsFor::GathersFor(pid) => format!("room gathers for {pid}"),
        WaitsFor::SwapQuota => "idle memory there may not go to the host: quota".to_owned(),
        WaitsFor::Unknown => "for a reason that this mgb does not know".to_owned(),
    }
}

/// Whether a request of which mgbd says nothing more waits for room, as far as the view shows that.
fn room_or_turn(view: &NodeView, wait: &WaitView) -> &'static str {
    let mut gpus = view.gpus.iter().filter(|gpu| {
        let index = gpu.gpu.index;
        !gpu.lost && !gpu.drained && wait.gpu.is_none_or(|only| only == index)
    });
    if gpus.any(|gpu| wait.bytes <= gpu.free_bytes()) {
        "its turn"
    } else {
        "room"
    }
}
