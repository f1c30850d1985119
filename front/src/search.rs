//! Finding the driver's library behind the front: the first other `libcuda.so.1` where the dynamic linker
//! looks. The front has the same soname, so the linker must be given a path: a name would find the front.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use mgb_core::libraries::{self, DRIVER, DRIVER_VARIABLE, NVML};
use mgb_core::notice;

/// A library that is never closed, or none.
pub struct Library(Option<*mut c_void>);

// SAFETY: a handle of the dynamic linker may be used by any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Whether there is one.
    pub fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// Its function of this name; none where it has no such function.
    pub fn function(&self, name: &CStr) -> Option<*const c_void> {
        // SAFETY: a handle that is never closed, and a C string.
        let address = unsafe { libc::dlsym(self.0?, name.as_ptr()) };
        (!address.is_null()).then_some(address.cast_const())
    }
}

/// Loads the driver. None, with one line of notice, where there is none.
pub fn load() -> Library {
    Library(load_driver())
}

/// Loads NVML's library. None on a machine without a GPU.
pub fn load_nvml() -> Library {
    let paths = libraries::of_driver(NVML).into_iter();
    Library(
        paths
            .filter(|path| !is_front(path))
            .find_map(|path| open(&path).ok().filter(|library| !leads_to_front(*library))),
    )
}

/// Whether a library has nothing but this one behind it: where files cannot be links, as in a wheel of
/// Python's, the front has its other names so.
fn leads_to_front(library: *mut c_void) -> bool {
    // SAFETY: a handle that is not closed, and a C string. It is looked for in what the library needs as
    // well.
    let found = unsafe { libc::dlsym(library, c"mgb_front_give_way".as_ptr()) };
    found.cast_const() == crate::owner::mgb_front_give_way as *const c_void
}

fn load_driver() -> Option<*mut c_void> {
    let mut failures = Vec::new();
    for path in libraries::drivers().into_iter().filter(|path| !is_front(path)) {
        match open(&path) {
            Ok(handle) => return Some(handle),
            Err(why) => failures.push(why),
        }
    }
    let why = failures
        .first()
        .map_or_else(|| format!("no {DRIVER} was found"), String::clone);
    notice::once(
        "no-driver",
        format_args!("found no NVIDIA driver behind MGB's {DRIVER} ({why}); name it in {DRIVER_VARIABLE}"),
    );
    None
}

/// Whether the file is this very library, by whatever path.
fn is_front(path: &Path) -> bool {
    let Some(own) = libraries::file_of(load as *const () as usize) else {
        return false;
    };
    let file = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    file(path).is_some() && file(path) == file(&own)
}

fn open(path: &Path) -> Result<*mut c_void, String> {
    let text =
        CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path with a zero in it".to_owned())?;
    // SAFETY: a C string. Its symbols stay out of the global scope, where the front's are.
    let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        // SAFETY: the handle was just opened and is never closed.
        return Ok(unsafe { libraries::same_software_gpu(handle) });
    }
    // SAFETY: called on the thread whose call failed.
    let why = unsafe { libc::dlerror() };
    if why.is_null() {
        return Err(format!("{} cannot be loaded", path.display()));
    }
    // SAFETY: dlerror's string, copied before the next call.
    Err(unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned())
}
