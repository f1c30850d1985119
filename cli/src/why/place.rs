//! Why a task is where it is, and what becomes of its memory there.

use mgb_command::table::span;
use mgb_interface::Policy;
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{NodeView, TaskState, TaskView};

use super::due::deadline;
use super::reason::{ReasonLine, ReasonSubject};

/// Where a task is, by which rule, what its memory does there, and when it is to end.
pub(super) fn reasons(view: &NodeView, task: &TaskView) -> Vec<ReasonLine> {
    let label = if task.label.is_empty() {
        String::new()
    } else {
        format!("{} ", task.label)
    };
    let place = format!(
        "{label}on GPU {} for {}, {}",
        task.gpu,
        span(task.age_ms),
        rule(view, task)
    );
    let memory = memory(task).map(|text| ReasonLine::new(ReasonSubject::Memory, text));
    let place = Some(ReasonLine::new(ReasonSubject::Place, place));
    let due = deadline(task.deadline_ms, task.ends_ms);
    [place, memory, due].into_iter().flatten().collect()
}

/// By what a GPU was chosen. Of a task that has moved, or that a person has moved, that is where it began.
fn rule(view: &NodeView, task: &TaskView) -> String {
    let warps = view.gpus.iter().find(|gpu| gpu.gpu.index == task.gpu);
    let warps = warps.map_or(0, |gpu| gpu.warps_charged);
    if view.gpus.len() == 1 {
        return "the only one".to_owned();
    }
    let why = match view.policy.parse::<Policy>() {
        Ok(Policy::Mgb) => "which had the least work under way of those where it fits".to_owned(),
        Ok(Policy::Alg3) => "which had the fewest warps charged of those where it fits".to_owned(),
        Ok(Policy::Alg2) => "the first where all blocks of its largest launch find a place".to_owned(),
        Ok(Policy::SchedGpu(_)) => "the first where its memory fits".to_owned(),
        Ok(Policy::Sa) => "which no other process had".to_owned(),
        Ok(Policy::Cg(most)) => format!("which had the fewest processes, of {most} at most"),
        Err(_) => "by a rule that this mgb does not know".to_owned(),
    };
    format!(
        "by policy {}: {why} as it began (now {warps} warps charged there)",
        view.policy
    )
}

fn memory(task: &TaskView) -> Option<String> {
    let evicted = Bytes(task.evicted_bytes);
    Some(match task.state {
        TaskState::Growing => format!(
            "waits for more than the {} that it has",
            Bytes(task.reserved_bytes)
        ),
        TaskState::Ended => format!(
            "the task is over, and {} of it are still allocated",
            Bytes(task.reserved_bytes)
        ),
        TaskState::Moving => "on its way to another GPU".to_owned(),
        TaskState::Evicting => "idle, and on its way to the host, to make room for others".to_owned(),
        TaskState::Evicted => {
            format!("{evicted} in the host since it was idle and others waited; it comes back as it is used")
        }
        TaskState::Restoring => format!("waits for room for {evicted}, which are in the host"),
        TaskState::Suspending => {
            "on its way to the host, since a person has suspended the process".to_owned()
        }
        TaskState::Suspended => format!("{evicted} in the host, since a person has suspended the process"),
        TaskState::Reclaiming => {
            "its process has ended, and the driver does not show the room free yet".to_owned()
        }
        TaskState::Running | TaskState::Unknown => return None,
    })
}
