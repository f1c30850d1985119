//! What people have ordered, and what is wrong with GPUs: a line each.

use std::fmt::Write;

use mgb_command::table::span;
use mgb_probe::byte_size::Bytes;
use mgb_probe::view::{GpuView, IdleView, NodeView, WaitView, WaitsFor};

use crate::kept;
use crate::user;
use crate::wait_evicted;

/// Who is suspended, and which GPUs are drained; nothing where people have ordered nothing.
pub(super) fn ordered(view: &NodeView) -> String {
    let mut text = String::new();
    for gpu in view.gpus.iter().filter(|gpu| gpu.lost) {
        let _ = writeln!(
            text,
            "GPU {} is lost: the driver cannot reach it (nvidia-smi); it is shared again once that can",
            gpu.gpu.index
        );
    }
    let is_for_places =
        |wait: &WaitView| matches!(wait.waits_for, Some(WaitsFor::Places | WaitsFor::UserPlaces));
    if view.queue.iter().any(is_for_places) {
        for gpu in view.gpus.iter().filter(|gpu| !gpu.idle.is_empty()) {
            let _ = writeln!(text, "{}", idle(gpu));
        }
    }
    for kept in &view.quotas.kept {
        let _ = writeln!(text, "{}", kept::text(kept));
    }
    for gpu in view.gpus.iter().filter(|gpu| gpu.drained) {
        let left = gpu.reserved_bytes + gpu.reclaiming_bytes;
        let at = gpu.gpu.index;
        let _ = match left {
            0 => writeln!(text, "GPU {at} is drained"),
            left => writeln!(text, "GPU {at} is draining: {} left", Bytes(left)),
        };
    }
    for gpu in &view.gpus {
        let (at, Some(why)) = (gpu.gpu.index, &gpu.fails) else {
            continue;
        };
        let way_out = match gpu.drained {
            true => format!("`mgb drain {at} --end` has it used again"),
            false => "it is used on (--no-health-drain)".to_owned(),
        };
        let _ = writeln!(text, "GPU {at} fails: {why}; {way_out}");
    }
    for one in &view.suspended {
        let evicted = Bytes(one.evicted_bytes.iter().sum());
        let is_left = view.leaving.iter().any(|left| left.pid == one.pid);
        let state = if is_left { "suspending" } else { "suspended" };
        let job = match &one.job {
            Some(job) if one.whole_job => format!(" with its job {job}"),
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "process {} is {state}{job}, for {}: {evicted} in host memory",
            one.pid,
            span(one.age_ms)
        );
    }
    for left in view.leaving.iter().filter(|left| left.hindrance.is_some()) {
        let _ = writeln!(text, "{}", wait_evicted::sentence(std::slice::from_ref(left)));
    }
    text
}

/// Who has places on a GPU in vain.
fn idle(gpu: &GpuView) -> String {
    let of = |idle: &IdleView| format!("{} of {}", idle.processes, user::name(idle.uid));
    let of: Vec<String> = gpu.idle.iter().map(of).collect();
    let (at, all) = (gpu.gpu.index, gpu.processes);
    format!(
        "of {all} processes on GPU {at} these run no task: {}",
        of.join(", ")
    )
}
