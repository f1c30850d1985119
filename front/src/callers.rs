//! Who calls the front: the library whose code asked for what the front is about to do.
//!
//! Found by unwinding the stack, which takes microseconds: for calls that would wait for others anyway.

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;

/// The `_Unwind_Reason_Code`s that a callback answers.
const GO_ON: c_int = 0;
const STOP: c_int = 5;
/// Frames that are looked at: a runtime has a few between its function and the driver's.
const MAX_FRAMES: u32 = 64;

unsafe extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> c_int, data: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

struct Search {
    own: usize,
    frames: u32,
    is_wanted: fn(&Path) -> bool,
    found: bool,
}

/// Whether the code that called the driver or the CUDA runtime lies in a file of this kind. False as well
/// where the stack cannot be unwound that far.
pub fn is_in(is_wanted: fn(&Path) -> bool) -> bool {
    let Some((own, _)) = file_of(is_in as *const () as usize) else {
        return false;
    };
    let mut search = Search {
        own,
        frames: 0,
        is_wanted,
        found: false,
    };
    // SAFETY: the callback has the signature that is asked for, and the search outlives the call.
    unsafe { _Unwind_Backtrace(each, (&raw mut search).cast()) };
    search.found
}

extern "C" fn each(frame: *mut c_void, search: *mut c_void) -> c_int {
    // SAFETY: the search that `is_in` gave, which nobody else uses meanwhile.
    let search = unsafe { &mut *search.cast::<Search>() };
    search.frames += 1;
    if search.frames > MAX_FRAMES {
        return STOP;
    }
    // SAFETY: a frame of the unwinder's, during its callback.
    let address = unsafe { _Unwind_GetIP(frame) };
    // The call stands before the address that it returns to.
    let Some((base, file)) = file_of(address.wrapping_sub(1)) else {
        return STOP;
    };
    if base == search.own || is_runtime(file) {
        return GO_ON;
    }
    search.found = (search.is_wanted)(file);
    STOP
}

/// CUDA's runtime, which passes on what its own callers ask.
fn is_runtime(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("libcudart"))
}

/// Where the library or program that has this code begins, and its file.
fn file_of(code: usize) -> Option<(usize, &'static Path)> {
    // SAFETY: all zeros is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; a place for the answer.
    let found = unsafe { libc::dladdr(code as *const c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the linker's own string, of a library whose code is on this thread's stack, and so stays loaded
    // for as long as the search.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes());
    Some((info.dli_fbase as usize, Path::new(path)))
}
