//! `cuMemGetInfo`: what the program may still get.

use std::time::{Duration, Instant};

use mgb_probe::need::GRANULE;

use crate::calls::{self, SUCCESS};
use crate::native::own;
use crate::{room, session};

/// What the driver counts as free and never allocates: on an H200 the last 3.1 MiB.
const UNREACHABLE: u64 = 2 * GRANULE;
/// How long the node view may take to show what this process holds.
const PATIENCE: Duration = Duration::from_millis(500);

/// Bytes of the GPU that no process is charged for, from a view that includes what this process holds by
/// now: mgbd writes it a moment after it has answered.
fn room_in_ledger(gpu: u32, reserved: u64) -> Option<u64> {
    let client = session::get()?.client;
    let start = Instant::now();
    loop {
        let view = client.status().ok()?;
        let is_own = |task: &&mgb_probe::view::TaskView| task.pid == std::process::id() && task.gpu == gpu;
        let shown: u64 = view
            .tasks
            .iter()
            .filter(is_own)
            .map(|task| task.reserved_bytes)
            .sum();
        if shown == reserved || start.elapsed() > PATIENCE {
            let gpu = view.gpus.iter().find(|view| view.gpu.index == gpu)?;
            let charged = gpu.reserved_bytes + gpu.contexts_bytes + gpu.reclaiming_bytes;
            return Some(gpu.gpu.usable_bytes.saturating_sub(charged));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What may be had on the current device, where the driver has so much free.
fn may_have(free: u64) -> Option<u64> {
    session::get()?;
    let device = calls::device().ok()?;
    let (reserved, unused) = room::reserved(device)?;
    let room = room_in_ledger(room::gpu(device)?, reserved)?.saturating_add(unused);
    let may = free.saturating_sub(UNREACHABLE).min(room);
    // Freed memory that is kept gives way where the rest is not enough.
    Some(may / GRANULE * GRANULE)
}

own! {
    /// The answer is not reserved: a program that only asks would keep others from running. An allocation
    /// within the answer is never refused; if others took the room first, it waits.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |native| {
        let code = native(free, total);
        if code == SUCCESS && !free.is_null() {
            // SAFETY: the driver has written it.
            let free = unsafe { &mut *free };
            if let Some(may) = may_have(*free as u64) {
                *free = may as usize;
            }
        }
        code
    }
}
