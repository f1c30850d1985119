//! Whether the process is open: whether code that MGB did not compile may see device pointers.
//!
//! In an open process the lazy task is bound at its first allocation and every object is backed at once,
//! so that pointers mean to such code what they say.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

static OPEN: AtomicBool = AtomicBool::new(false);

/// Libraries that carry a CUDA runtime inside or load the driver by themselves, so that nothing in their
/// headers shows it.
const CUDA_LIBRARIES: [&str; 16] = [
    "libcublas",
    "libcudnn",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libcutensor",
    "libnccl",
    "libnpp",
    "libnvjpeg",
    "libnvjitlink",
    "libnvrtc",
    "libnvshmem",
    "libnvtiff",
    "libcuquantum",
    "libOpenCL",
];
const RUNTIMES: [&str; 2] = ["libcudart.so", "libcuda.so"];

/// Called by programs' constructors that the pass adds: this module is open.
///
/// # Safety
/// `reason` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgb_module_open(reason: *const c_char) {
    OPEN.store(true, Ordering::Release);
    let _ = reason;
}

/// Whether the process is open. Looks at the loaded objects once, at the first allocation.
pub fn is_open() -> bool {
    static OTHERS: LazyLock<bool> = LazyLock::new(others);
    OPEN.load(Ordering::Acquire) || *OTHERS
}

/// Whether some loaded object uses CUDA without MGB.
fn others() -> bool {
    let mut found = false;
    // SAFETY: the callback matches, and `found` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid description.
    let info = unsafe { &*info };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the name is a C string.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) };
    let path = path.to_string_lossy();
    if path.is_empty() {
        // The program itself: the pass speaks for it.
        return 0;
    }
    let name = path.rsplit('/').next().unwrap_or(&path);
    if RUNTIMES.iter().any(|runtime| name.starts_with(runtime)) || name.starts_with("libmgb_rt") {
        return 0;
    }
    // SAFETY: as above; the object stays loaded during the call.
    let needed = unsafe { needed(info) };
    let uses = needed
        .iter()
        .any(|library| RUNTIMES.iter().any(|runtime| library.starts_with(runtime)));
    let built_by_mgb = needed.iter().any(|library| library.starts_with("libmgb_rt"));
    let carries = CUDA_LIBRARIES.iter().any(|library| name.starts_with(library));
    if carries || (uses && !built_by_mgb) {
        // SAFETY: `found` is the bool of `others`.
        unsafe { *found.cast::<bool>() = true };
        return 1;
    }
    0
}

/// The libraries an object was linked against.
///
/// # Safety
/// `info` describes a loaded object.
unsafe fn needed(info: &libc::dl_phdr_info) -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: the headers are an array of this length.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let Some(dynamic) = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC) else {
        return names;
    };
    const NEEDED: i64 = 1;
    const STRINGS: i64 = 5;
    let first = (info.dlpi_addr + dynamic.p_vaddr) as *const [i64; 2];
    let mut strings = 0u64;
    let mut offsets = Vec::new();
    let mut entry = first;
    // SAFETY: the table ends with a zero tag.
    while let [tag, value] = unsafe { *entry }
        && tag != 0
    {
        match tag {
            NEEDED => offsets.push(value as u64),
            STRINGS => strings = value as u64,
            _ => {}
        }
        // SAFETY: not yet at the end.
        entry = unsafe { entry.add(1) };
    }
    // glibc relocates the table's pointers, except in the vDSO, which needs nothing.
    if strings < info.dlpi_addr {
        return names;
    }
    for offset in offsets {
        // SAFETY: offsets of needed libraries point at C strings in the string table.
        let name = unsafe { CStr::from_ptr((strings + offset) as *const c_char) };
        names.push(name.to_string_lossy().into_owned());
    }
    names
}
