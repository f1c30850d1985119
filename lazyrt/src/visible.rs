//! The one GPU that the driver of a restricted process sees (see `restrict`).

use std::ffi::OsString;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::driver_start::{self, VISIBLE, set_visible};
use crate::{foreign_cuda, session};

/// The GPU, index into the hello; -1 while the process is not restricted.
static RESTRICTED: AtomicI64 = AtomicI64::new(-1);

/// The only GPU that this process sees, if it is restricted to one.
pub fn gpu() -> Option<u32> {
    u32::try_from(RESTRICTED.load(Ordering::Acquire)).ok()
}

/// Restricts a process that calls the driver API to the GPU that mgbd granted. Called with each grant, before
/// anything asks the driver for its GPUs; does nothing where the driver was initialised before.
pub fn restrict_to(gpu: u32) {
    if !foreign_cuda::calls_driver() || driver_start::is_loaded() {
        return;
    }
    let Some(granted) = session::gpu(gpu) else {
        return;
    };
    RESTRICTED.store(i64::from(gpu), Ordering::Release);
    let before = std::env::var_os(VISIBLE);
    set_visible(Some(OsString::from(&granted.uuid)));
    let _ = driver_start::required();
    // The driver has read it; programs that this one starts ask for themselves.
    set_visible(before);
}
