//! A driver front: a `libcuda.so.1` that a program loads before the software GPU's, and that calls the
//! software GPU's. NVIDIA's runtime loads the library of that name and asks it for functions; so does this
//! one, and a front sees what a program does by the runtime alone.
//!
//! The library that is found is mostly the software GPU itself. Then there is no front, and the runtime's
//! functions do their work directly.

mod table;

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_ulonglong, c_void};
use std::sync::OnceLock;

use crate::error::say_once;
pub use table::Front;
use table::GetProcAddress;

/// The driver's library, as NVIDIA's runtime names it.
const LIBRARY: &CStr = c"libcuda.so.1";

unsafe extern "C" {
    /// The software GPU's own.
    fn cuGetProcAddress_v2(
        symbol: *const c_char,
        function: *mut *mut c_void,
        version: c_int,
        flags: c_ulonglong,
        status: *mut c_int,
    ) -> c_int;
}

thread_local! {
    /// A call of this thread has come to the software GPU's driver.
    static REACHED: Cell<bool> = const { Cell::new(false) };
}

/// Notes that a call of this thread has come to the software GPU's driver, from whichever library.
pub fn reached() {
    REACHED.set(true);
}

/// The front, if there is one, with the driver initialised by it. That is when a front may choose the order
/// of the devices, so it comes before they are found.
pub fn front() -> Option<&'static Front> {
    static STARTED: OnceLock<()> = OnceLock::new();
    let front = uninitialised()?;
    STARTED.get_or_init(|| {
        // What is wrong with the devices is said again to whoever asks for them.
        let _ = front.cuInit(0);
    });
    Some(front)
}

/// The front, if there is one; the driver may not be initialised yet.
pub fn uninitialised() -> Option<&'static Front> {
    static FRONT: OnceLock<Option<Front>> = OnceLock::new();
    FRONT.get_or_init(find).as_ref()
}

fn find() -> Option<Front> {
    let ask = other_library()?;
    let front = match Front::new(ask) {
        Ok(front) => front,
        Err(missing) => {
            say_once(&format!(
                "the program's libcuda.so.1 has no {missing}, so the runtime does not use it"
            ));
            return None;
        }
    };
    let mut version = 0;
    REACHED.set(false);
    // NVIDIA's own driver answers that without touching a GPU. It is no front of this one.
    if front.cuDriverGetVersion(&mut version).is_err() || !REACHED.get() {
        return None;
    }
    Some(front)
}

/// What answers for the driver, unless it is the software GPU itself.
fn other_library() -> Option<GetProcAddress> {
    // SAFETY: a C string. Loading a driver runs only its own constructors.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return None;
    }
    // SAFETY: a handle that is never closed, and a C string.
    let ask = unsafe { libc::dlsym(library, c"cuGetProcAddress_v2".as_ptr()) };
    if ask.is_null() || ask.cast_const() == cuGetProcAddress_v2 as *const c_void {
        return None;
    }
    // SAFETY: the driver's function of this name has this signature.
    Some(unsafe { std::mem::transmute::<*mut c_void, GetProcAddress>(ask) })
}
