//! The driver front, where it is in the process: MGB's `libcuda.so.1` before the driver's. It sees all use of
//! a GPU, also by code that MGB did not compile, and so it serves the processes that are open. The session
//! with mgbd is the front's or this library's, never both's.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mgb_core::libraries;
use mgb_probe::socket_path;

/// The front in the folder of this library.
const BESIDE: &str = "front/libcuda.so.1";

/// Whether the session is this library's: there is no front, or it has none of its own. It begins none
/// then.
pub fn gives_way() -> bool {
    type Ask = extern "C" fn() -> c_int;
    // SAFETY: the front's function of this name has this signature.
    unsafe { with::<Ask>(libc::RTLD_NOLOAD, c"mgb_front_give_way", |ask| ask() != 0) }.unwrap_or(true)
}

/// Has the front serve this process, which is open for this reason. False: there is none, or the session is
/// this library's already. Loads the driver, as the process is about to, and the front before it.
/// `linked`: an object of the process is linked with the driver.
pub fn takes_over(reason: &str, linked: bool) -> bool {
    if !linked {
        bring();
    }
    type Ask = extern "C" fn(*const c_char) -> c_int;
    let reason = CString::new(reason).unwrap_or_default();
    // SAFETY: as above.
    unsafe { with::<Ask>(0, c"mgb_front_take_over", |ask| ask(reason.as_ptr()) != 0) }.unwrap_or(false)
}

/// Tells the front that the program has said that others wait for it, for where the process is its.
pub fn becomes_latency() {
    type Say = extern "C" fn();
    let say = |say: Say| {
        say();
        true
    };
    // SAFETY: the front's function of this name has this signature.
    unsafe { with::<Say>(libc::RTLD_NOLOAD, c"mgb_front_latency", say) };
}

/// Loads the front, which the dynamic linker then gives to everybody who asks for the driver by its name.
/// Nothing is done where the process has a driver already, where the search path has the front (`mgb run`),
/// or where no mgbd listens, which would leave the front nothing to do.
fn bring() {
    // Not asked for by its name: where a file of this name is loaded by another, as the software GPU's is,
    // the dynamic linker would take that one for the driver from then on.
    if libraries::is_loaded(is_driver) || !socket_path().exists() {
        return;
    }
    let Some(front) = libraries::file_of(bring as *const () as usize).map(|own| own.with_file_name(BESIDE))
    else {
        return;
    };
    if let Ok(path) = CString::new(front.as_os_str().as_bytes()) {
        // SAFETY: a C string. The library's constructors are those of Rust's standard library.
        unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    }
}

fn is_driver(file: &Path) -> bool {
    let name = file.file_name().map(OsStrExt::as_bytes);
    name.is_some_and(|name| name.starts_with(b"libcuda.so"))
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
