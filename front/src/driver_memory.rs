//! Calls for which the driver lacks memory: what it takes for itself, and what mgbd has granted already.
//!
//! It takes memory for itself for code that it loads at a kernel's first launch, for stacks, for queues.
//! Nobody knows of it beforehand, so a GPU that programs have filled may have no room for it, and a call that
//! allocates nothing fails with "out of memory". Nothing of such a call has been done: it is made again once
//! mgbd has granted room, which waits for others, or has them swap.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use mgb_probe::need::GRANULE;

use crate::calls::{Code, driver};
use crate::{notice, room, session};

/// The room that is asked for, try by try: what a library of kernels takes, up to a large one's workspaces.
const ROOM: [u64; 4] = [16 * GRANULE, 64 * GRANULE, 256 * GRANULE, 1024 * GRANULE];

/// How long to wait for memory that mgbd granted and the driver does not have: a process outside MGB may
/// have it, or what others have freed is on its way back to the driver.
const GRANTED_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to pause between two tries.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Makes a call that needs memory which has been charged, until the driver has it; its code. The caller is
/// outside the gate and holds no lock.
pub fn granted(mut call: impl FnMut() -> Code) -> Code {
    let start = Instant::now();
    loop {
        match call() {
            Code::MEMORY_ALLOCATION if start.elapsed() < GRANTED_TIMEOUT => {
                notice::taken_by_others();
                std::thread::sleep(RETRY_INTERVAL);
            }
            code => return code,
        }
    }
}

/// Makes a call on the current context's device, and again where it lacks memory; its code. The caller is
/// outside the gate and holds no lock.
#[inline]
pub fn give(call: impl Fn() -> Code) -> Code {
    match call() {
        Code::MEMORY_ALLOCATION => again(call),
        code => code,
    }
}

#[cold]
fn again(call: impl Fn() -> Code) -> Code {
    let _stays = mgb_probe::cancel::hold();
    driver()
        .device()
        .map_or(Code::MEMORY_ALLOCATION, |device| again_on(device, call))
}

/// Makes a call again that has failed for lack of memory, on a device that may have no context yet; its code.
#[cold]
pub fn again_on(device: c_int, call: impl Fn() -> Code) -> Code {
    if session::get().is_none() {
        return Code::MEMORY_ALLOCATION;
    }
    for bytes in ROOM {
        if !room::charge(device, bytes) {
            break;
        }
        let code = call();
        // mgbd sees by the driver what it was.
        room::discharge(device, bytes);
        if code != Code::MEMORY_ALLOCATION {
            return code;
        }
    }
    Code::MEMORY_ALLOCATION
}
