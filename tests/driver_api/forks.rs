//! Children of the process: whatever they ask the driver, it answers that it is not theirs.

use std::ffi::c_int;

use crate::driver::{NOT_INITIALIZED, driver};
use crate::memory;
use crate::world::ThreadWorld;

/// Seconds after which a child hangs.
const CHILD_TIMEOUT_S: u32 = 20;

/// One step: a child that makes a few calls.
pub fn step(world: &mut ThreadWorld) {
    let address = memory::any(world).map_or(0, |at| world.memory[at].address);
    let mut ends = [0; 2];
    // SAFETY: an array of two.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: the child makes calls of the driver and of the system only, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: as above.
        unsafe { in_child(ends[1], address) };
    }
    let mut codes = [c_int::MIN; 6];
    let (mut status, mut count) = (0, 0isize);
    // SAFETY: descriptors that are open, and an array of so many bytes.
    unsafe {
        libc::close(ends[1]);
        libc::waitpid(pid, &mut status, 0);
        count += libc::read(ends[0], codes.as_mut_ptr().cast(), size_of_val(&codes));
        libc::close(ends[0]);
    }
    let call = "calls of a forked child";
    if status != 0 || count != size_of_val(&codes) as isize {
        world.fault(call, "an end", &format!("status {status}, {count} bytes"));
    }
    if codes != [NOT_INITIALIZED; 6] {
        world.fault(call, "3", &format!("{codes:?}"));
    }
    world.note(call, status);
}

/// # Safety
/// In a child just forked, which ends here.
unsafe fn in_child(to: c_int, address: u64) -> ! {
    // SAFETY: in a child, whose handler for the signal ends it.
    unsafe { libc::alarm(CHILD_TIMEOUT_S) };
    let (mut new, mut value, mut context) = (0, [0u64; 2], 0);
    let (mut free, mut total) = (0, 0);
    let codes = [
        driver().cuMemAlloc_v2(&mut new, 4096),
        driver().cuMemFree_v2(address),
        driver().cuPointerGetAttribute(value.as_mut_ptr().cast(), 2, address),
        driver().cuCtxGetCurrent(&mut context),
        driver().cuMemGetInfo_v2(&mut free, &mut total),
        driver().cuMemFreeAsync(address, 0),
    ];
    // SAFETY: a descriptor that is open, and an array of so many bytes.
    unsafe {
        libc::write(to, codes.as_ptr().cast(), size_of_val(&codes));
        libc::_exit(0)
    }
}
