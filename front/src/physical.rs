//! Physical memory that the front makes for a program. Natively `cuMemAlloc`'s can go to other processes at any
//! time, also while a stream captures or the GPU is busy, and network cards can reach it: so can this, where the
//! device allows it. That costs nothing (an H100: 14 us for 2 MiB either way).

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::calls::{Code, POSIX_FILE, driver};

/// `CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED`: whether network cards can reach mapped memory.
const RDMA_SUPPORTED: c_int = 110;

/// The driver has refused to make memory for other processes.
static NOT_SHAREABLE: AtomicBool = AtomicBool::new(false);
/// A bit for each device that was asked whether network cards can reach its memory, and for each that said so.
static ASKED: AtomicU64 = AtomicU64::new(0);
static REACHABLE: AtomicU64 = AtomicU64::new(0);

/// Whether memory is made so that other processes can have it.
pub fn is_shareable() -> bool {
    !NOT_SHAREABLE.load(Ordering::Relaxed)
}

/// Physical memory of a device, in whole granules; its handle.
///
/// # Errors
/// The driver's.
pub fn create(device: c_int, bytes: u64) -> Result<u64, Code> {
    if is_shareable() {
        match driver().create(device, bytes, POSIX_FILE, is_reachable(device)) {
            // A virtual GPU, say: less may do.
            Err(Code::NOT_SUPPORTED | Code::INVALID_VALUE) => {}
            done => return done,
        }
    }
    let handle = driver().create(device, bytes, 0, false)?;
    NOT_SHAREABLE.store(true, Ordering::Relaxed);
    Ok(handle)
}

/// Whether network cards can reach the device's mapped memory.
fn is_reachable(device: c_int) -> bool {
    let bit = 1u64.checked_shl(device as u32).unwrap_or(0);
    if ASKED.load(Ordering::Acquire) & bit == 0 {
        if driver().device_attribute(device, RDMA_SUPPORTED) == Some(1) {
            REACHABLE.fetch_or(bit, Ordering::Relaxed);
        }
        ASKED.fetch_or(bit, Ordering::Release);
    }
    REACHABLE.load(Ordering::Relaxed) & bit != 0
}
