//! What a pointer means to the program.

use std::ffi::c_void;

use mgb_abi::location::INVALID_DEVICE_ID;
use mgb_abi::pointer::{MEMORY_DEVICE, MEMORY_HOST, MEMORY_UNREGISTERED, PointerAttributes};

use super::ordinals::program_device;
use super::peers;
use crate::code::{Answer, Code, fail};
use crate::state::{self, ProcessState};
use crate::{contexts, thread};

/// Of an address that is no memory of CUDA's.
fn unregistered(pointer: *mut c_void) -> PointerAttributes {
    PointerAttributes {
        kind: MEMORY_UNREGISTERED,
        device: INVALID_DEVICE_ID,
        device_pointer: std::ptr::null_mut(),
        host_pointer: pointer,
        reserved: [0; 8],
    }
}

/// Of pinned host memory.
fn pinned(pointer: *mut c_void) -> PointerAttributes {
    PointerAttributes {
        kind: MEMORY_HOST,
        device: thread::with(|thread| thread.program_device()),
        device_pointer: pointer,
        host_pointer: pointer,
        reserved: [0; 8],
    }
}

/// Of an address in the arena.
fn in_arena(state: &ProcessState, pointer: *mut c_void) -> PointerAttributes {
    let owner = state
        .find(pointer as u64)
        .and_then(|(start, _)| state.device_of(start));
    match owner {
        Some(device) => PointerAttributes {
            kind: MEMORY_DEVICE,
            device: device as i32,
            // The current device's pointer to it.
            device_pointer: if peers::reaches(state::current(), device) {
                pointer
            } else {
                std::ptr::null_mut()
            },
            host_pointer: std::ptr::null_mut(),
            reserved: [0; 8],
        },
        None => unregistered(pointer),
    }
}

/// `cudaPointerGetAttributes`: for the arena answered without a GPU, with the device that the program
/// allocated on.
///
/// # Safety
/// `attributes` is null or writable.
pub unsafe fn attributes(
    native: unsafe extern "C" fn(*mut PointerAttributes, *const c_void) -> Code,
    attributes: *mut PointerAttributes,
    pointer: *const c_void,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    let state = state::lock();
    // SAFETY: `attributes` is null or writable: contract of this function.
    let Some(out) = (unsafe { attributes.as_mut() }) else {
        return fail(Code::INVALID_VALUE);
    };
    if state.in_arena(pointer as u64) {
        *out = in_arena(&state, pointer.cast_mut());
        return Ok(Code::SUCCESS);
    }
    drop(state);
    if !contexts::any() {
        *out = if super::host::is_early(pointer) {
            pinned(pointer.cast_mut())
        } else {
            unregistered(pointer.cast_mut())
        };
        return Ok(Code::SUCCESS);
    }
    // SAFETY: `out` is a valid reference; the runtime reads no memory at `pointer`.
    let code = unsafe { native(out, pointer) };
    if code.is_success() {
        out.device = program_device(out.device);
    }
    Ok(code)
}
