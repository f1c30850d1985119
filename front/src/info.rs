//! `cuMemGetInfo` and `cuDeviceTotalMem`: what the program may still get, and of how much.

use std::ffi::c_int;

use mgb_probe::need::GRANULE;

use crate::calls::{Code, driver};
use crate::native::own;
use crate::{limit, room, session};

/// What the driver counts as free and never allocates: on an H200 the last 3.1 MiB.
const UNREACHABLE: u64 = 2 * GRANULE;
/// What may be had on the current device, where the driver has so much free.
fn may_have(free: u64) -> Option<u64> {
    session::get()?;
    let device = driver().device().ok()?;
    let may = free.saturating_sub(UNREACHABLE).min(room::may_have(device)?);
    // Freed memory that is kept gives way where the rest is not enough.
    Some(may / GRANULE * GRANULE)
}

own! {
    /// The answer is not reserved: a program that only asks would keep others from running. An allocation
    /// within the answer is never refused; if others took the room first, it waits.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |native| {
        let code = native(free, total);
        if code != Code::SUCCESS {
            return code;
        }
        if let Some((all, left)) = driver().device().ok().and_then(room::within_limit) {
            // SAFETY: null, or the driver has written it.
            if let Some(free) = unsafe { free.as_mut() } {
                *free = left as usize;
            }
            // SAFETY: as above.
            if let Some(total) = unsafe { total.as_mut() } {
                *total = all as usize;
            }
        } else if !free.is_null() {
            // SAFETY: the driver has written it.
            let free = unsafe { &mut *free };
            if let Some(may) = may_have(*free as u64) {
                *free = may as usize;
            }
        }
        code
    }

    /// Before the program has a GPU, all have as much as its limit.
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) |native| {
        let code = native(bytes, device);
        if code == Code::SUCCESS && session::get().is_some() && let Some(limit) = limit::bytes() {
            // SAFETY: null, or the driver has written it.
            if let Some(bytes) = unsafe { bytes.as_mut() } {
                let most = room::within_limit(device).map_or(limit, |(total, _)| total);
                *bytes = (*bytes).min(most as usize);
            }
        }
        code
    }
}
