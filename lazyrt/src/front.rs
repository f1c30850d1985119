//! The driver front, where it is in the process: MGB's `libcuda.so.1` before the driver's. It sees all use of
//! a GPU, also by code that MGB did not compile, and so it serves the processes that are open. The session
//! with mgbd is the front's or this library's, never both's.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// Whether the session is this library's: there is no front, or it has none of its own. It begins none
/// then.
pub fn gives_way() -> bool {
    type Ask = extern "C" fn() -> c_int;
    // SAFETY: the front's function of this name has this signature.
    unsafe { with::<Ask>(libc::RTLD_NOLOAD, c"mgb_front_give_way", |ask| ask() != 0) }.unwrap_or(true)
}

/// Has the front serve this process, which is open for this reason. False: there is none, or the session is
/// this library's already. Loads the driver, as the process is about to: the front is found by its name,
/// where the search path has it.
pub fn takes_over(reason: &str) -> bool {
    type Ask = extern "C" fn(*const c_char) -> c_int;
    let reason = CString::new(reason).unwrap_or_default();
    // SAFETY: as above.
    unsafe { with::<Ask>(0, c"mgb_front_take_over", |ask| ask(reason.as_ptr()) != 0) }.unwrap_or(false)
}

/// Calls one of the front's functions, which stays loaded. `how`: further flags of `dlopen`. `None`: there is
/// no front.
///
/// # Safety
/// `F` is the type of the function of this name, a pointer.
unsafe fn with<F: Copy>(how: c_int, name: &CStr, call: impl FnOnce(F) -> bool) -> Option<bool> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let how = libc::RTLD_NOW | libc::RTLD_LOCAL | how;
    // SAFETY: a C string; loading the driver runs only its own constructors.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), how) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the handle was just opened, and is never closed; the name is a C string.
    let found: *mut c_void = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: the caller's promise.
    (!found.is_null()).then(|| call(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) }))
}
