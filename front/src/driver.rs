//! The driver's own library and its functions.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgb_core::notice;

use crate::names::{COUNT, NAMES};
use crate::search;
use crate::search::Library;

/// CUDA's `CUDA_ERROR_NOT_FOUND`: the driver has no such function.
const NOT_FOUND: c_int = 500;
/// CUDA's `CUDA_ERROR_STUB_LIBRARY`: the library that was loaded is not the driver's.
const STUB_LIBRARY: c_int = 34;

unsafe extern "C" {
    /// Where each function's jump leads; written by the build script.
    #[link_name = "mgb_front_slots"]
    static SLOTS: [AtomicUsize; COUNT];
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(search::load)
}

/// The driver's function at this index of the table; none where this driver has no such function.
pub fn function(index: usize) -> Option<*const c_void> {
    library().function(NAMES.get(index)?)
}

/// Where a call of the driver's function at this index goes: through its slot, as the front's jump would.
pub fn address(index: usize) -> *const c_void {
    // SAFETY: the build script's table, which has an entry for each function and is never moved.
    unsafe { &SLOTS[index] }.load(Ordering::Acquire) as *const c_void
}

/// Puts the driver's function into its slot. Returns where to jump.
pub fn settle(index: usize) -> *const c_void {
    let address = function(index).unwrap_or_else(|| stand_in(index));
    // SAFETY: the build script's table, which has an entry for each function and is never moved.
    unsafe { &SLOTS[index] }.store(address as usize, Ordering::Release);
    address
}

/// What is called instead of a function that is not there.
fn stand_in(index: usize) -> *const c_void {
    if !library().exists() {
        return no_driver as *const c_void;
    }
    let name = NAMES[index].to_string_lossy();
    notice::once(
        "missing",
        format_args!("the program calls {name}, which the installed driver does not have"),
    );
    not_found as *const c_void
}

extern "C" fn no_driver() -> c_int {
    STUB_LIBRARY
}

extern "C" fn not_found() -> c_int {
    NOT_FOUND
}
