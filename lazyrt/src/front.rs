//! The driver front, where it is in the process: MGB's `libcuda.so.1` before the driver's. In a program that
//! was not built with MGB, and that loads a library that was, the front may have the session with mgbd.

use std::ffi::{c_int, c_void};

/// Whether the session is this library's: there is no front, or it has none of its own. It begins none
/// then.
pub fn gives_way() -> bool {
    // SAFETY: a C string; nothing is loaded that was not.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return true;
    }
    // SAFETY: the handle was just opened, and the name is a C string.
    let ask: *mut c_void = unsafe { libc::dlsym(library, c"mgb_front_give_way".as_ptr()) };
    let gives_way = ask.is_null() || {
        // SAFETY: the front's function, which has this signature, in a library that is open.
        let ask = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(ask) };
        ask() != 0
    };
    // SAFETY: the handle was opened above.
    unsafe { libc::dlclose(library) };
    gives_way
}
