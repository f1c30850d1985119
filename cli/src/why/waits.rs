//! Why a request waits: for what memory, where, and behind whom.

use mgb_command::table::{plural, span};
use mgb_interface::Queue;
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{GpuView, HeldBack, NodeView, SuspendedView, TaskView, WaitView, WaitsFor};

use super::due::deadline;
use super::reason::{ReasonLine, ReasonSubject, named};

/// How many of those in the way are named.
const MAX_NAMED: usize = 4;

/// What a request waits for, and behind whom.
pub(super) fn reasons(view: &NodeView, queue: &str, wait: &WaitView) -> Vec<ReasonLine> {
    let what = if wait.growth { "for more room" } else { "to begin" };
    let place = wait.gpu.map_or("any GPU".to_owned(), |gpu| format!("GPU {gpu}"));
    let mut texts = vec![format!(
        "{what} since {}: {} on {place}",
        span(wait.waited_ms),
        Bytes(wait.bytes.max(wait.expected_bytes))
    )];
    match kept_back(wait) {
        Some(why) => texts.push(why),
        None => {
            texts.extend(waits_for(view, wait));
            texts.extend(candidates(view, wait).map(|gpu| room(view, gpu, wait)));
            texts.extend(behind(view, queue, wait));
        }
    }
    let reasons = texts
        .into_iter()
        .map(|text| ReasonLine::new(ReasonSubject::Waits, text));
    let due = deadline(wait.deadline_ms, wait.ends_ms);
    reasons.chain(due).collect()
}

/// Why a request is not considered at all.
fn kept_back(wait: &WaitView) -> Option<String> {
    Some(match wait.held_back {
        Some(HeldBack::Suspended) => {
            format!(
                "not considered: its process is suspended (`mgb resume {}`)",
                wait.pid
            )
        }
        Some(HeldBack::Drained) => {
            "not considered: every GPU that it could go to is drained (`mgb drain GPU --end`)".to_owned()
        }
        Some(HeldBack::Unknown) => "not considered, for a reason that this mgb does not know".to_owned(),
        None if wait.over_quota => {
            let what = wait.limited.map_or("what it may", |what| what.name());
            format!(
                "not considered: its user, or a group of the user's, has as much as it may ({what}; `mgb quota`)"
            )
        }
        None if wait.gpu_lost => {
            "not considered: the driver cannot reach any GPU that it could go to (nvidia-smi)".to_owned()
        }
        None => return None,
    })
}

fn waits_for(view: &NodeView, wait: &WaitView) -> Option<String> {
    Some(match wait.waits_for? {
        WaitsFor::RoomGathers(gpu) => {
            format!("it has waited so long that room gathers for it on GPU {gpu}, where nobody new begins")
        }
        WaitsFor::NothingLeaves => {
            "nothing has left its GPUs for long, so that others may begin there before it".to_owned()
        }
        WaitsFor::Growth => "tasks that run wait to grow on the GPUs where it would fit, and go first".to_owned(),
        WaitsFor::Places => "all places for processes are taken on the GPUs where it would fit".to_owned(),
        WaitsFor::UserPlaces => {
            "its user has as many processes on its GPUs as one of several users may have".to_owned()
        }
        WaitsFor::SwapQuota => {
            "idle memory stays on its GPUs: those whose it is have as much in the host as they may (`mgb quota`)"
                .to_owned()
        }
        WaitsFor::OthersGpus => "the GPUs that it could go to are kept for others (`mgb quota`)".to_owned(),
        WaitsFor::OwnGpu => {
            "it is to have a GPU for itself, and others are on every GPU that it could go to".to_owned()
        }
        WaitsFor::KeptAlone => {
            "tasks that have a GPU for themselves are on the GPUs where it would fit, until they end".to_owned()
        }
        WaitsFor::GathersFor(pid) => {
            let label = view.queue.iter().find(|other| other.pid == pid);
            let other = named(pid, label.map_or("", |other| &other.label));
            format!("where it would fit, room gathers for {other}, which has waited for longer")
        }
        WaitsFor::Unknown => "for a reason that this mgb does not know".to_owned(),
    })
}

/// The GPUs that it could go to, as far as the view says.
fn candidates<'a>(view: &'a NodeView, wait: &WaitView) -> impl Iterator<Item = &'a GpuView> + use<'a> {
    let only = wait.gpu;
    let gpus = view.gpus.iter().filter(|gpu| !gpu.lost && !gpu.drained);
    gpus.filter(move |gpu| only.is_none_or(|only| only == gpu.gpu.index))
}

/// How much room there is, and who has the rest.
fn room(view: &NodeView, gpu: &GpuView, wait: &WaitView) -> String {
    let index = gpu.gpu.index;
    let free = gpu.free_bytes();
    let mut text = format!(
        "GPU {index}: {} of {} free",
        Bytes(free),
        Bytes(gpu.gpu.usable_bytes)
    );
    let mut holders: Vec<&TaskView> = view
        .tasks
        .iter()
        .filter(|task| task.gpu == index && task.reserved_bytes > 0)
        .collect();
    holders.sort_by_key(|task| std::cmp::Reverse(task.reserved_bytes));
    let named: Vec<String> = holders
        .iter()
        .take(MAX_NAMED)
        .map(|task| holder(task, wait.pid))
        .collect();
    if !named.is_empty() {
        text += &format!(", held by {}", named.join(", "));
    }
    if holders.len() > MAX_NAMED {
        text += &format!(" and {}", plural(holders.len() - MAX_NAMED, "other task"));
    }
    if gpu.foreign_bytes > 0 {
        text += &format!(
            "; {} by programs outside MGB and the driver",
            Bytes(gpu.foreign_bytes)
        );
    }
    text
}

fn holder(task: &TaskView, own: u32) -> String {
    let whose = if task.pid == own {
        "itself".to_owned()
    } else {
        named(task.pid, &task.label)
    };
    format!("{whose} with {}", Bytes(task.reserved_bytes))
}

/// Who else waits, and goes first as far as the view says.
fn behind(view: &NodeView, queue: &str, wait: &WaitView) -> Option<String> {
    let others: Vec<&WaitView> = view
        .queue
        .iter()
        .filter(|other| kept_back(other).is_none())
        .collect();
    let own = others.iter().position(|other| *other == wait)?;
    let order: Option<Queue> = queue.parse().ok();
    let is_before = |(at, other): &(usize, &&WaitView)| match order {
        Some(Queue::InOrder | Queue::Backfill) => *at < own,
        Some(Queue::Largest) => {
            let (theirs, its) = (
                other.expected_bytes.max(other.bytes),
                wait.expected_bytes.max(wait.bytes),
            );
            theirs > its || theirs == its && *at < own
        }
        _ => false,
    };
    let before: Vec<String> = others
        .iter()
        .enumerate()
        .filter(is_before)
        .map(|(_, other)| named(other.pid, &other.label))
        .collect();
    let others = others.len() - 1;
    if wait.growth || others == 0 {
        return None;
    }
    let named = before
        .iter()
        .take(MAX_NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    Some(match before.len() {
        0 => format!(
            "{} in the queue; order of the queue: {queue}",
            plural(others, "other request")
        ),
        count if count > MAX_NAMED => format!(
            "behind {named} and {}; order of the queue: {queue}",
            plural(count - MAX_NAMED, "other request")
        ),
        _ => format!("behind {named}; order of the queue: {queue}"),
    })
}

/// That a person has suspended the process.
pub(super) fn suspended(one: &SuspendedView) -> ReasonLine {
    let with = if one.whole_job { " with its job" } else { "" };
    let text = format!(
        "by a person{with}, {} ago, until `mgb resume {}`: {} of it in host memory",
        span(one.age_ms),
        one.pid,
        Bytes(one.evicted_bytes.iter().copied().fold(0, u64::saturating_add))
    );
    ReasonLine::new(ReasonSubject::Suspended, text)
}
