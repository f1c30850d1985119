//! Why a program's launches are held, what its class is, and what it has of its GPU's time.

use mgb_command::table::span;
use mgb_probe::Class;
use mgb_probe::view::{Lack, NodeView, PacedFor, TaskView};

use super::reason::{ReasonLine, ReasonSubject, named};

/// Who is held for whom, what a process has of the GPU's time, and what it lacks.
pub(super) fn reasons(view: &NodeView, task: &TaskView) -> Vec<ReasonLine> {
    let held = held(view, task).map(|text| ReasonLine::new(ReasonSubject::Held, text));
    let share = share(task).map(|text| ReasonLine::new(ReasonSubject::Share, text));
    let lacks = task
        .lacks
        .iter()
        .map(|lack| ReasonLine::new(ReasonSubject::Lacks, long(lack)));
    let latency = task.latency.map(|bursts| {
        let text = format!(
            "from the first launch until it had synchronised {} us at most in half of its {} bursts, {} us in 99 of \
             100, by its own word",
            bursts.p50_us, bursts.count, bursts.p99_us
        );
        ReasonLine::new(ReasonSubject::Latency, text)
    });
    held.into_iter()
        .chain(share)
        .chain(lacks)
        .chain(latency)
        .collect()
}

/// Whether launches are held, for whom, and for how long they were.
fn held(view: &NodeView, task: &TaskView) -> Option<String> {
    let others = || {
        view.tasks
            .iter()
            .filter(|other| other.gpu == task.gpu && other.pid != task.pid)
    };
    let names = |is_meant: &dyn Fn(&TaskView) -> bool| {
        let mut names: Vec<String> = others()
            .filter(|other| is_meant(other))
            .map(|other| named(other.pid, &other.label))
            .collect();
        names.dedup();
        names
    };
    let latency = || match names(&|other| other.class == Class::Latency) {
        names if names.is_empty() => "a latency program".to_owned(),
        names => names.join(", "),
    };
    let gpu = task.gpu;
    let now = match task.pace {
        Some(PacedFor::LatencyWork) => {
            format!(
                "launches on GPU {gpu} wait now: {} has work there and goes first",
                latency()
            )
        }
        Some(PacedFor::Share) => {
            let short =
                names(&|other| other.share_due.is_some() || other.speed.is_some_and(|speed| speed < 500));
            let whom = if short.is_empty() {
                "others there".to_owned()
            } else {
                short.join(", ")
            };
            format!("launches on GPU {gpu} wait now, so that {whom} get their share")
        }
        Some(PacedFor::Bound) if others().any(|other| other.class == Class::Latency) => format!(
            "not held now; what is in flight on GPU {gpu} is bounded, so that {} need not wait for it",
            latency()
        ),
        Some(PacedFor::Bound) => {
            format!(
                "not held now; what is in flight on GPU {gpu} is bounded while shares there are looked at"
            )
        }
        Some(PacedFor::Unknown) => "launches are paced for a reason that this mgb does not know".to_owned(),
        None if task.paused_ms == 0 => return None,
        None => "not held now".to_owned(),
    };
    Some(match task.paused_ms {
        0 => now,
        ms => format!("{now}; held for {} so far", span(ms)),
    })
}

fn share(task: &TaskView) -> Option<String> {
    let percent = |part: u32| format!("{} %", (part + 5) / 10);
    let share = task.share.map(|share| match task.share_due {
        Some(due) => format!(
            "{} of the time in which GPU {} had work, and {} is due",
            percent(share),
            task.gpu,
            percent(due)
        ),
        None => format!(
            "{} of the time in which GPU {} had work",
            percent(share),
            task.gpu
        ),
    });
    let speed = task
        .speed
        .map(|speed| format!("it does {} of what it does alone", percent(speed)));
    let both: Vec<String> = [share, speed].into_iter().flatten().collect();
    (!both.is_empty()).then(|| both.join("; "))
}

/// The class of a process, and why it has that.
pub(super) fn class(class: Class, tasks: &[&TaskView], has_no_right: bool) -> ReasonLine {
    let has_no_right = has_no_right || tasks.iter().any(|task| task.lacks.contains(&Lack::NoRight));
    let text = match class {
        Class::Latency => "latency: it says that others wait for it, and its user may run such programs",
        Class::Batch if has_no_right => {
            "batch, though it says that others wait for it: its user may run no latency programs (`latency` in the quotas)"
        }
        Class::Batch => {
            "batch: it does not say that others wait for it (`mgb run --latency`, `MGB_LATENCY()`)"
        }
    };
    ReasonLine::new(ReasonSubject::Class, text)
}

fn long(lack: &Lack) -> &'static str {
    match lack {
        Lack::NoMps => {
            "priority over others on the GPU, and multiprocessors that they leave free: there is no MPS, so that holds \
             are all there is"
        }
        Lack::OutsideMps => "MPS: its process uses the GPU outside, in turns with all others",
        Lack::NormalPriority => {
            "the lower priority of batch programs: it joined MPS at the normal one, which stays until it is started anew"
        }
        Lack::LowPriority => {
            "the priority of latency programs: it joined MPS as a batch program, before it said what it is; start it \
             with `mgb run --latency`"
        }
        Lack::AllMultiprocessors => {
            "a limit: it began before the first latency program and may fill all multiprocessors until it is started \
             anew"
        }
        Lack::SomeMultiprocessors => {
            "the multiprocessors that batch programs leave free: it joined MPS as one; start it with `mgb run --latency`"
        }
        Lack::NoRight => "the right to be a latency program",
        Lack::Unknown => "something that this mgb does not know",
    }
}
