//! The rows of the tables: tasks and requests that wait, and users.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use mgb_probe::view::{HeldBack, NodeView, TaskState, TaskView, WaitView};

use crate::status;
use crate::user;

/// The order of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// By GPU, then process; what dead processes have is last.
    Gpu,
    /// The most memory first.
    Memory,
    /// The largest part of the GPU's time first.
    Share,
    /// The oldest first.
    Age,
    /// By the name of the user.
    User,
    /// By the number of the process.
    Pid,
}

impl RowOrder {
    /// What it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            RowOrder::Gpu => "gpu",
            RowOrder::Memory => "memory",
            RowOrder::Share => "share",
            RowOrder::Age => "age",
            RowOrder::User => "user",
            RowOrder::Pid => "pid",
        }
    }

    /// The one that a key leads to next.
    pub(super) fn next(self) -> RowOrder {
        match self {
            RowOrder::Gpu => RowOrder::Memory,
            RowOrder::Memory => RowOrder::Share,
            RowOrder::Share => RowOrder::Age,
            RowOrder::Age => RowOrder::User,
            RowOrder::User => RowOrder::Pid,
            RowOrder::Pid => RowOrder::Gpu,
        }
    }
}

/// What a row stays known by while everything else of it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowKey {
    pub(super) pid: u32,
    /// The number of a task; `None`: a request that waits.
    task: Option<u64>,
    /// Which of its process's requests it is.
    nth: usize,
}

/// A task, or a request that waits.
#[derive(Clone, Debug)]
pub(super) struct TopRow {
    pub(super) key: RowKey,
    pub(super) user: String,
    /// The GPU, or where a request may go.
    pub(super) gpu: String,
    pub(super) state: String,
    pub(super) waits: bool,
    /// A person has suspended its process.
    pub(super) is_suspended: bool,
    /// Bytes reserved, or asked for.
    pub(super) bytes: u64,
    pub(super) held_bytes: u64,
    pub(super) evicted_bytes: u64,
    /// Of the GPU's time, in thousandths.
    pub(super) share: Option<u32>,
    pub(super) age_ms: u64,
    pub(super) label: String,
}

/// Tasks in an order, and behind them the requests in the order of the queue.
pub(super) fn rows(view: &NodeView, order: RowOrder, is_reversed: bool) -> Vec<TopRow> {
    let names = names(view);
    let name = |uid: u32| names.get(&uid).cloned().unwrap_or_default();
    let suspended: BTreeSet<u32> = view.suspended.iter().map(|one| one.pid).collect();
    let mut rows: Vec<TopRow> = view
        .tasks
        .iter()
        .map(|task| of_task(task, name(task.uid), suspended.contains(&task.pid)))
        .collect();
    match order {
        RowOrder::Gpu => rows.sort_by_key(|row| (row.gpu.parse::<u32>().ok(), row.key.pid == 0, row.key.pid)),
        RowOrder::Memory => rows.sort_by_key(|row| Reverse(row.bytes.max(row.evicted_bytes))),
        RowOrder::Share => rows.sort_by_key(|row| Reverse(row.share)),
        RowOrder::Age => rows.sort_by_key(|row| Reverse(row.age_ms)),
        RowOrder::User => rows.sort_by(|one, other| one.user.cmp(&other.user)),
        RowOrder::Pid => rows.sort_by_key(|row| row.key.pid),
    }
    if is_reversed {
        rows.reverse();
    }
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for wait in &view.queue {
        let nth = counts.entry(wait.pid).or_default();
        rows.push(of_wait(view, wait, *nth, name(wait.uid)));
        *nth += 1;
    }
    rows
}

fn names(view: &NodeView) -> BTreeMap<u32, String> {
    let uids = view.tasks.iter().map(|task| task.uid);
    let uids: BTreeSet<u32> = uids.chain(view.queue.iter().map(|wait| wait.uid)).collect();
    uids.into_iter().map(|uid| (uid, user::name(uid))).collect()
}

fn of_task(task: &TaskView, user: String, is_suspended: bool) -> TopRow {
    let is_living = task.state != TaskState::Reclaiming;
    TopRow {
        key: RowKey {
            pid: task.pid,
            task: Some(task.task),
            nth: task.gpu as usize,
        },
        user: if is_living { user } else { "-".to_owned() },
        gpu: task.gpu.to_string(),
        state: status::task_state(task),
        waits: false,
        is_suspended: is_suspended || matches!(task.state, TaskState::Suspending | TaskState::Suspended),
        bytes: task.reserved_bytes,
        held_bytes: task.held_bytes,
        evicted_bytes: task.evicted_bytes,
        share: task.share,
        age_ms: task.age_ms,
        label: task.label.clone(),
    }
}

fn of_wait(view: &NodeView, wait: &WaitView, nth: usize, user: String) -> TopRow {
    TopRow {
        key: RowKey {
            pid: wait.pid,
            task: None,
            nth,
        },
        user,
        gpu: wait.gpu.map_or_else(|| "any".to_owned(), |gpu| gpu.to_string()),
        state: format!("waits: {}", status::why(view, wait)),
        waits: true,
        is_suspended: wait.held_back == Some(HeldBack::Suspended),
        bytes: wait.bytes,
        held_bytes: 0,
        evicted_bytes: 0,
        share: None,
        age_ms: wait.waited_ms,
        label: wait.label.clone(),
    }
}

/// What a user has on the node.
#[derive(Clone, Debug, Default)]
pub(super) struct UserRow {
    pub(super) user: String,
    pub(super) gpus: BTreeSet<u32>,
    pub(super) tasks: usize,
    pub(super) waiting: usize,
    pub(super) bytes: u64,
    pub(super) evicted_bytes: u64,
    /// Of the time of all GPUs, in thousandths of one.
    pub(super) share: u32,
    /// Bytes that the user may have; `None`: any number, or that is not shown.
    pub(super) most_bytes: Option<u64>,
}

/// Users with what they have, the most memory first.
pub(super) fn user_rows(view: &NodeView) -> Vec<UserRow> {
    let mut users: BTreeMap<u32, UserRow> = BTreeMap::new();
    let mut shared: BTreeSet<(u32, u32)> = BTreeSet::new();
    for task in view
        .tasks
        .iter()
        .filter(|task| task.state != TaskState::Reclaiming)
    {
        let row = users.entry(task.uid).or_default();
        row.tasks += 1;
        row.gpus.insert(task.gpu);
        row.bytes = row.bytes.saturating_add(task.reserved_bytes);
        row.evicted_bytes = row.evicted_bytes.saturating_add(task.evicted_bytes);
        // It is that of the process on the GPU, whose tasks there all have it.
        if shared.insert((task.pid, task.gpu)) {
            row.share = row.share.saturating_add(task.share.unwrap_or(0));
        }
    }
    for wait in &view.queue {
        users.entry(wait.uid).or_default().waiting += 1;
    }
    let names = names(view);
    let mut rows: Vec<UserRow> = users
        .into_iter()
        .map(|(uid, row)| UserRow {
            user: names.get(&uid).cloned().unwrap_or_default(),
            most_bytes: own_limit(view, uid),
            ..row
        })
        .collect();
    rows.sort_by_key(|row| Reverse(row.bytes));
    rows
}

fn own_limit(view: &NodeView, uid: u32) -> Option<u64> {
    let mut owners = view.quotas.owners.iter();
    owners
        .find(|owner| !owner.is_group && owner.id == uid)?
        .most_bytes
}
