//! Whether the process is open: whether code that MGB did not compile may see device pointers.
//!
//! In an open process the lazy task is bound at its first allocation and every object is backed at once, so
//! that pointers mean to such code what they say. The pass says so of the modules that it compiles.
//! Everything else is seen in the loaded objects: libraries known to use CUDA, functions of the runtime or
//! the driver that an object calls past lazyrt, a runtime that was linked into an object, a program that may
//! load libraries later.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mgb_core::{libraries, work};
use parking_lot::Mutex;

use crate::contexts;
use crate::elf::Object;

static OPEN: AtomicBool = AtomicBool::new(false);
/// The first reason, for the trace.
static WHY: Mutex<Option<String>> = Mutex::new(None);
/// Whether an object calls the driver API, or comes by it some other way.
static CALLS_DRIVER: AtomicBool = AtomicBool::new(false);
/// Whether an object is linked with the driver, which is loaded with it then.
static LINKED_WITH_DRIVER: AtomicBool = AtomicBool::new(false);
/// Whether an object lets other processes have its memory.
static SHARES_MEMORY: AtomicBool = AtomicBool::new(false);
/// How many objects the process had ever loaded when they were last looked at.
static SEEN: AtomicU64 = AtomicU64::new(0);

const RUNTIME: &[u8] = b"libcudart.so";
const DRIVER: &[u8] = b"libcuda.so";
const LAZYRT: &[u8] = b"libmgb_rt";
/// Hand out functions of the driver by their names: `cudaGetDriverEntryPoint`,
/// `cudaGetDriverEntryPointByVersion`.
const ENTRY_POINTS: &[u8] = b"mgb_cudaGetDriverEntryPoint";
/// Makes a handle for other processes from a device pointer.
const SHARING: &[u8] = b"mgb_cudaIpcGetMemHandle";

/// Whether a file's name begins with one of these.
fn is_one_of(name: &[u8], libraries: &[&str]) -> bool {
    libraries
        .iter()
        .any(|library| name.starts_with(library.as_bytes()))
}

/// Whether code of the process calls the driver API, which bypasses tasks: such a process is restricted
/// to one GPU.
pub fn calls_driver() -> bool {
    if CALLS_DRIVER.load(Ordering::Acquire) {
        return true;
    }
    look_if_new();
    CALLS_DRIVER.load(Ordering::Acquire)
}

/// Whether an object that was there when the process was last looked at is linked with the driver.
pub fn is_linked_with_driver() -> bool {
    LINKED_WITH_DRIVER.load(Ordering::Acquire)
}

/// Whether code of the process may hand device memory to other processes.
pub fn shares_memory() -> bool {
    if SHARES_MEMORY.load(Ordering::Acquire) {
        return true;
    }
    look_if_new();
    SHARES_MEMORY.load(Ordering::Acquire)
}

/// Whether the process is open. Looks at the loaded objects at the first question, and again when there are
/// new ones.
pub fn is_open() -> bool {
    if OPEN.load(Ordering::Acquire) {
        return true;
    }
    look_if_new();
    OPEN.load(Ordering::Acquire)
}

fn look_if_new() {
    let loaded = loaded();
    if SEEN.load(Ordering::Acquire) == loaded {
        return;
    }
    let reason = look_at_all();
    SEEN.store(loaded, Ordering::Release);
    if let Some(reason) = reason {
        note(reason);
    }
}

/// The first reason why the process is open.
pub fn reason() -> Option<String> {
    WHY.lock().clone()
}

/// The process is open, for this reason.
pub fn note(reason: String) {
    WHY.lock().get_or_insert(reason);
    OPEN.store(true, Ordering::Release);
    for gpu in contexts::gpus() {
        work::note_endless(gpu);
    }
}

/// How many objects the process has loaded so far.
fn loaded() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, adds: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes a valid description, and `loaded` its own variable.
        unsafe { *adds.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut adds = 0u64;
    // SAFETY: the callback matches, and `adds` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut adds).cast()) };
    adds
}

/// What is looked for, the cheap first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Tables,
    Constants,
}

struct Search {
    by: By,
    found: Option<String>,
}

fn look_at_all() -> Option<String> {
    [By::Tables, By::Constants].into_iter().find_map(|by| {
        let mut search = Search { by, found: None };
        // SAFETY: the callback matches, and `search` outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
        search.found
    })
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid description, and `look_at_all` its own variable.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    let path = if info.dlpi_name.is_null() {
        c""
    } else {
        // SAFETY: the name is a C string.
        unsafe { CStr::from_ptr(info.dlpi_name) }
    };
    let path = path.to_bytes();
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    if [RUNTIME, DRIVER, LAZYRT].iter().any(|own| name.starts_with(own)) {
        return 0;
    }
    // SAFETY: the object stays loaded during the call.
    let Some(object) = (unsafe { Object::new(info) }) else {
        return 0;
    };
    // The program itself has no name here.
    let shown = if name.is_empty() {
        "the program".into()
    } else {
        String::from_utf8_lossy(name)
    };
    let reason = match search.by {
        By::Tables => by_tables(path, name, &object),
        By::Constants => by_constants(path, name, &object),
    };
    if search.found.is_none() {
        search.found = reason.map(|reason| format!("{shown} {reason}"));
    }
    // All tables are looked at: they say more than whether the process is open.
    c_int::from(search.by == By::Constants && search.found.is_some())
}

fn by_tables(path: &[u8], name: &[u8], object: &Object) -> Option<String> {
    let needs = |library: &[u8]| object.needed().any(|needed| needed.starts_with(library));
    if is_one_of(name, &libraries::USE_CUDA) {
        return Some("uses CUDA by itself".to_owned());
    }
    let (lazyrt, runtime) = (needs(LAZYRT), needs(RUNTIME));
    if runtime && !lazyrt {
        return Some("uses the CUDA runtime and was not built with MGB".to_owned());
    }
    if !lazyrt && !needs(DRIVER) {
        return None;
    }
    let called = |wanted: &dyn Fn(&[u8]) -> bool| {
        let name = object.undefined().find(|name| wanted(name))?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    if lazyrt && called(&|name| name == SHARING).is_some() {
        SHARES_MEMORY.store(true, Ordering::Release);
    }
    let by_name = called(&|name| is_followed_by_capital(name, b"cu"));
    if by_name.is_some() || needs(DRIVER) {
        LINKED_WITH_DRIVER.store(true, Ordering::Release);
    }
    let driver = by_name
        .map(|function| format!("calls the CUDA driver API ({function})"))
        .or_else(|| {
            // By name, at run time.
            let linked = needs(DRIVER).then(|| "is linked with the CUDA driver".to_owned());
            linked.or_else(|| {
                let asks = called(&|name| lazyrt && name.starts_with(ENTRY_POINTS))?;
                let function = asks.trim_start_matches("mgb_");
                Some(format!("asks for the CUDA driver API ({function})"))
            })
        })
        .or_else(|| {
            let loads = called(&|name| lazyrt && matches!(name, b"dlopen" | b"dlmopen")).is_some();
            (loads && names_driver(path, object)).then(|| "loads the CUDA driver".to_owned())
        });
    if driver.is_some() {
        CALLS_DRIVER.store(true, Ordering::Release);
    }
    if let Some(function) = called(&|name| is_followed_by_capital(name, b"cuda")) {
        return Some(format!(
            "calls {function} from an object that was not built with MGB"
        ));
    }
    if driver.is_some() {
        return driver;
    }
    if lazyrt && let Some(function) = called(&|name| matches!(name, b"dlopen" | b"dlmopen")) {
        return Some(format!("may load a library that uses CUDA ({function})"));
    }
    None
}

/// A runtime that was linked into the object, or code that loads the driver, has the driver's name in it.
fn by_constants(path: &[u8], name: &[u8], object: &Object) -> Option<String> {
    if is_one_of(name, &libraries::WITHOUT_CUDA) {
        return None;
    }
    names_driver(path, object).then(|| "has a CUDA runtime of its own, or loads the driver".to_owned())
}

fn names_driver(path: &[u8], object: &Object) -> bool {
    let path = if path.is_empty() { b"/proc/self/exe" } else { path };
    let Ok(file) = File::open(OsStr::from_bytes(path)) else {
        return false;
    };
    let Some(constants) = object.constants(&file) else {
        return false;
    };
    // SAFETY: both are ranges of bytes.
    let named = unsafe {
        libc::memmem(
            constants.as_ptr().cast(),
            constants.len(),
            DRIVER.as_ptr().cast(),
            DRIVER.len(),
        )
    };
    !named.is_null()
}

fn is_followed_by_capital(name: &[u8], prefix: &[u8]) -> bool {
    name.strip_prefix(prefix)
        .and_then(<[u8]>::first)
        .is_some_and(u8::is_ascii_uppercase)
}
