//! Slack: whether a GPU has so much room that a little memory, which no process is charged for, is missed by
//! nobody.

use mgb_probe::Client;

/// The room that must be left, in bytes: far more than the processes take in this way that look at the same
/// moment.
const LEFT: u64 = 128 << 20;

/// Whether the GPU has it. `reserved`: what this process has reserved there, which mgbd shows a moment after
/// it has granted it.
pub fn is_there(client: &Client, gpu: u32, reserved: u64) -> bool {
    let Ok(view) = client.status() else { return false };
    let own = view
        .tasks
        .iter()
        .filter(|task| task.pid == std::process::id() && task.gpu == gpu);
    let shown: u64 = own.map(|task| task.reserved_bytes).sum();
    let Some(gpu) = view.gpus.iter().find(|view| view.gpu.index == gpu) else {
        return false;
    };
    let charged = gpu.reserved_bytes + gpu.contexts_bytes + gpu.reclaiming_bytes;
    let room = gpu.gpu.usable_bytes.saturating_sub(charged);
    room.saturating_sub(reserved.saturating_sub(shown)) >= LEFT
}
