//! `cuMemAlloc` and `cuMemFree`: charged before the driver is asked, given back after the driver has freed
//! it.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};

use parking_lot::Mutex;

use crate::native::own;
use crate::{driver, names, room, session};

/// CUDA's `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: c_int = 2;
/// What rows of a pitched allocation are a multiple of.
const PITCH: u64 = 512;

/// An allocation.
#[derive(Clone, Copy)]
struct Block {
    device: c_int,
    bytes: u64,
    /// The context that it is freed with at the latest.
    context: usize,
}

/// Each allocation, by its address.
static BLOCKS: Mutex<Option<HashMap<u64, Block>>> = Mutex::new(None);

/// The current context and its device; none without one, or in a process that runs natively.
fn current() -> Option<(usize, c_int)> {
    session::get()?;
    type AskDevice = unsafe extern "C" fn(*mut c_int) -> c_int;
    type AskContext = unsafe extern "C" fn(*mut usize) -> c_int;
    let device_of = driver::address(names::index::cuCtxGetDevice);
    let context_of = driver::address(names::index::cuCtxGetCurrent);
    let (mut context, mut device) = (0, 0);
    // SAFETY: the slots' code goes on to the driver's functions of these names, which have these signatures,
    // and each writes one value.
    let codes = unsafe {
        [
            std::mem::transmute::<*const c_void, AskContext>(context_of)(&mut context),
            std::mem::transmute::<*const c_void, AskDevice>(device_of)(&mut device),
        ]
    };
    (codes == [0, 0]).then_some((context, device))
}

/// The context is gone, and with it what was allocated in it.
pub fn forget(context: usize) {
    let gone: Vec<Block> = {
        let mut blocks = BLOCKS.lock();
        let all = blocks.get_or_insert_default();
        let gone = all.values().filter(|block| block.context == context).copied();
        let gone = gone.collect();
        all.retain(|_, block| block.context != context);
        gone
    };
    for Block { device, bytes, .. } in gone {
        room::unmapping(device, bytes);
        room::discharge(device, bytes);
    }
}

/// # Safety
/// `pointer` is null or a place that `call` has written where it succeeds.
unsafe fn allocate(bytes: u64, pointer: *const u64, call: impl FnOnce() -> c_int) -> c_int {
    // Without a context the driver says what is wrong, as it does of sizes that no sum can hold.
    let Some((context, device)) = current().filter(|_| bytes <= room::MOST) else {
        return call();
    };
    if !room::charge(device, bytes) {
        return OUT_OF_MEMORY;
    }
    let code = call();
    if code != 0 || pointer.is_null() {
        room::discharge(device, bytes);
        return code;
    }
    // SAFETY: the call has succeeded, so it has written the address: contract of this function.
    let address = unsafe { *pointer };
    BLOCKS.lock().get_or_insert_default().insert(
        address,
        Block {
            device,
            bytes,
            context,
        },
    );
    room::mapped(device, bytes);
    code
}

own! {
    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) |native| {
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        unsafe { allocate(bytes as u64, pointer, || native(pointer, bytes)) }
    }

    fn cuMemAllocPitch_v2(
        pointer: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint,
    ) |native| {
        let row = (width as u64).checked_next_multiple_of(PITCH).unwrap_or(u64::MAX);
        let bytes = row.saturating_mul(height as u64);
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        unsafe { allocate(bytes, pointer, || native(pointer, pitch, width, height, element)) }
    }

    fn cuMemFree_v2(pointer: u64) |native| {
        let known = BLOCKS.lock().as_mut().and_then(|blocks| blocks.remove(&pointer));
        let Some(block @ Block { device, bytes, .. }) = known else {
            // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
            return unsafe { native(pointer) };
        };
        room::unmapping(device, bytes);
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        let code = unsafe { native(pointer) };
        if code == 0 {
            room::discharge(device, bytes);
        } else {
            BLOCKS.lock().get_or_insert_default().insert(pointer, block);
            room::mapped(device, bytes);
        }
        code
    }
}
