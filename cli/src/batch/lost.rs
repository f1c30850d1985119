//! Jobs that ended badly because the driver could not reach their GPU any more: what CUDA tells them then is
//! an unknown error, which says nothing; mgbd knows.

use mgb_probe::view::GpuView;
use mgb_probe::{Client, socket_path};

use super::cause::Cause;
use super::outcome::JobOutcome;

/// Corrects the cause of a job that ended badly on a GPU that is lost.
pub(super) fn judge(outcome: &mut JobOutcome) {
    let is_unknown = matches!(outcome.cause, Some(Cause::Exit { .. } | Cause::Signal { .. }));
    if !is_unknown || outcome.gpus.is_empty() {
        return;
    }
    // mgbd looks at the GPUs before it greets whoever looks at them.
    let Some(view) = Client::observe(&socket_path())
        .ok()
        .and_then(|client| client.status().ok())
    else {
        return;
    };
    let is_its = |gpu: &&GpuView| gpu.lost && outcome.gpus.contains(&gpu.gpu.index);
    if let Some(gpu) = view.gpus.iter().find(is_its) {
        let log_line = format!("GPU {} is lost: the driver cannot reach it", gpu.gpu.index);
        outcome.cause = Some(Cause::GpuFault { log_line });
    }
}
