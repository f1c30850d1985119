//! Which of the two has this process's session with mgbd: the front, or MGB's runtime in a program or library
//! that was built with MGB. Never both, or what the process takes would be charged twice.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use mgb_core::libraries;

const NOBODY: u8 = 0;
const FRONT: u8 = 1;
const RUNTIME: u8 = 2;
/// The runtime is in the process and leaves it to the front.
const LEFT: u8 = 3;

static OWNER: AtomicU8 = AtomicU8::new(NOBODY);

/// Why MGB's runtime has left the process to the front.
static WHY: OnceLock<String> = OnceLock::new();

/// Takes the session for the front. False: the runtime is in the process, and has it or is to have it.
pub fn take() -> bool {
    change(LEFT, FRONT) || !is_rebuilt() && change(NOBODY, FRONT)
}

/// Why the process is open, if MGB's runtime is in it and has left it to the front.
pub fn why_open() -> Option<String> {
    WHY.get().cloned()
}

/// The front has no session after all.
pub fn give_up() {
    change(FRONT, NOBODY);
}

fn change(from: u8, to: u8) -> bool {
    OWNER
        .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}

/// MGB's runtime asks before it connects to mgbd. 1: the session is the runtime's, and the front leaves
/// everything to it from here on. 0: the front has one, and charges what the runtime takes as well.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_front_give_way() -> c_int {
    let given = change(NOBODY, RUNTIME) || OWNER.load(Ordering::Acquire) == RUNTIME;
    c_int::from(given)
}

/// MGB's runtime leaves an open process to the front, before it connects to mgbd: code that it does not see
/// uses the GPU, and the front sees that. 1: from here on the front serves the process. 0: the runtime has
/// the session.
///
/// # Safety
/// `reason` is a C string: why the process is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgb_front_take_over(reason: *const c_char) -> c_int {
    let left = change(NOBODY, LEFT) || OWNER.load(Ordering::Acquire) != RUNTIME;
    if left {
        // SAFETY: the caller's promise.
        let reason = unsafe { CStr::from_ptr(reason) };
        WHY.get_or_init(|| reason.to_string_lossy().into_owned());
    }
    c_int::from(left)
}

/// The program says that others wait for it: its own code, where it was not built with MGB, or MGB's
/// runtime for it.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_front_latency() {
    mgb_probe::become_latency();
    if OWNER.load(Ordering::Acquire) == RUNTIME {
        // SAFETY: a C string, looked for in what is loaded.
        let found: *mut c_void = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mgb_latency".as_ptr()) };
        if !found.is_null() {
            // SAFETY: the runtime's function of this name has this signature.
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn()>(found)() };
        }
    }
}

/// Whether MGB's runtime is in the process, where symbols of any library are found or where only the library
/// that brought it finds them, as in an extension of Python.
fn is_rebuilt() -> bool {
    // SAFETY: a C string, looked for in what is loaded.
    let found: *mut c_void = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mgb_task_begin".as_ptr()) };
    !found.is_null() || libraries::is_loaded(is_runtime)
}

/// Whether the file is the runtime: packagers of Python's wheels put a number into the name.
fn is_runtime(file: &Path) -> bool {
    let name = file.file_name();
    let rest = name.and_then(|name| name.to_str()?.strip_prefix("libmgb_rt"));
    rest.is_some_and(|rest| rest.starts_with(['.', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_known_by_its_file() {
        for (file, expected) in [
            ("/opt/mgb/lib/libmgb_rt.so", true),
            ("/venv/app.libs/libmgb_rt-0a1b2c3d.so", true),
            ("libmgb_rt.so", true),
            ("/opt/libmgb_rt.so/libother.so", false),
            ("/opt/libmgb_rtx.so", false),
            ("", false),
        ] {
            assert_eq!(is_runtime(Path::new(file)), expected, "{file:?}");
        }
    }

    #[test]
    fn only_one_has_the_session() {
        assert!(take() && !take());
        assert_eq!(mgb_front_give_way(), 0, "the front was first");
        give_up();
        assert_eq!([mgb_front_give_way(), mgb_front_give_way()], [1, 1]);
        assert!(!take(), "the runtime was first");
        give_up();
        assert_eq!(mgb_front_give_way(), 1);
        // SAFETY: a C string.
        assert_eq!(unsafe { mgb_front_take_over(c"late".as_ptr()) }, 0);
        assert_eq!(why_open(), None);
    }
}
