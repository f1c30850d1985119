//! Where libraries of a name may lie, as the dynamic linker looks for them, and what is known of some by
//! their names.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

/// The driver's library, by the name that programs ask the dynamic linker for.
pub const DRIVER: &str = "libcuda.so.1";
/// NVML's library, which comes with the driver.
pub const NVML: &str = "libnvidia-ml.so.1";
/// The CUDA runtime, by the name that the dynamic linker knows it by.
const RUNTIME: &CStr = c"libcudart.so.13";
/// glibc's number for the linker's record of a library (`dlfcn.h`).
const RTLD_DL_LINKMAP: c_int = 2;
/// Names the driver's library where the search would find another one, or none.
pub const DRIVER_VARIABLE: &str = "MGB_DRIVER";
/// The dynamic linker's list of libraries.
const CACHE: &str = "/etc/ld.so.cache";
/// The dynamic linker's own folders, in its order.
const USUAL: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// Where WSL, containers and NixOS put the driver beside these.
const OF_DRIVERS: [&str; 3] = [
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
];

/// Libraries that carry a CUDA runtime inside or load the driver by themselves, so that nothing in their
/// headers shows it.
pub const USE_CUDA: [&str; 18] = [
    "libcublas",
    "libcudnn",
    "libcudss",
    "libcufft",
    "libcufile",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libcutensor",
    "libnccl",
    "libnpp",
    "libnvjpeg",
    "libnvJitLink",
    "libnvshmem",
    "libnvtiff",
    "libcuquantum",
    "libcustatevec",
    "libOpenCL",
];

/// Libraries that do not use CUDA and need not be searched: the driver's own, and those of nearly every
/// program.
pub const WITHOUT_CUDA: [&str; 11] = [
    "libnvidia-",
    "libc.so",
    "libm.so",
    "libstdc++.so",
    "libgcc_s.so",
    "ld-linux",
    "linux-vdso",
    "libpthread.so",
    "libdl.so",
    "librt.so",
    "libomp.so",
];

/// The files that may be the driver's library behind the front, in the order in which the front tries them:
/// only the one that [`DRIVER_VARIABLE`] names, if it is set, whether it exists or not.
pub fn drivers() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os(DRIVER_VARIABLE).filter(|path| !path.is_empty()) {
        return vec![PathBuf::from(path)];
    }
    of_driver(DRIVER)
}

/// The files that may be a library of the driver's package, in the order of the dynamic linker's search.
pub fn of_driver(name: &str) -> Vec<PathBuf> {
    let own = OF_DRIVERS.iter().map(|folder| Path::new(folder).join(name));
    let all = listed(name).into_iter().chain(usual(name)).chain(own);
    all.filter(|path| path.exists()).collect()
}

/// The paths of a name in the folders of `LD_LIBRARY_PATH`, whether there is a file or not.
pub fn listed(name: &str) -> Vec<PathBuf> {
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    std::env::split_paths(&listed)
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| folder.join(name))
        .collect()
}

/// The paths of a name in the dynamic linker's list, then in its own folders, whether there is a file or not.
pub fn usual(name: &str) -> Vec<PathBuf> {
    let cached = std::fs::read(CACHE)
        .map(|cache| in_cache(&cache, name))
        .unwrap_or_default();
    let usual = USUAL.iter().map(|folder| Path::new(folder).join(name));
    cached.into_iter().chain(usual).collect()
}

/// The file of the library or program that the code at an address is in.
pub fn file_of(code: usize) -> Option<PathBuf> {
    // SAFETY: all zeros is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; a place for the answer.
    let found = unsafe { libc::dladdr(code as *const c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the linker's own string, which lives as long as the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// Whether the process has loaded a file of this kind, asked by their paths. The program itself has none.
pub fn is_loaded(is_wanted: fn(&Path) -> bool) -> bool {
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the linker's own structure of a loaded object.
        let name = unsafe { (*info).dlpi_name };
        if name.is_null() {
            return 0;
        }
        // SAFETY: not null, so it is the linker's string, which holds during the call.
        let name = unsafe { CStr::from_ptr(name) };
        // SAFETY: the function that `is_loaded` gave.
        let is_wanted = unsafe { *search.cast::<fn(&Path) -> bool>() };
        c_int::from(is_wanted(Path::new(OsStr::from_bytes(name.to_bytes()))))
    }
    let mut search = is_wanted;
    // SAFETY: the callback has the signature that is asked for, and reads `search` only.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) != 0 }
}

/// The driver's library that a handle is of. Where that is the software GPU, and the process has it as its
/// CUDA runtime already, it is that one: an installation may have replaced its file since, which the dynamic
/// linker then takes for another library, and a program has one device, not two. A library that only uses the
/// software GPU, such as a tool's before it, is none.
///
/// # Safety
/// `handle` is null, or of the dynamic linker and not closed.
pub unsafe fn same_software_gpu(handle: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's promise.
    if handle.is_null() || !unsafe { is_software_gpu(handle) } {
        return handle;
    }
    // SAFETY: a C string; nothing is loaded.
    let runtime = unsafe { libc::dlopen(RUNTIME.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    // SAFETY: the handle was just had, and is not closed.
    if !runtime.is_null() && unsafe { is_software_gpu(runtime) } {
        runtime
    } else {
        handle
    }
}

/// Whether a library is the software GPU itself.
///
/// # Safety
/// `handle` is of the dynamic linker, and is not closed.
unsafe fn is_software_gpu(handle: *mut c_void) -> bool {
    // It alone has a function of this name. Looked for in the library and in those that it uses.
    const MARK: &CStr = c"softgpuDeviceGetContextBytes";
    // SAFETY: the caller's promise, and a C string.
    let mark = unsafe { libc::dlsym(handle, MARK.as_ptr()) };
    let (mut own, mut of_mark) = (ptr::null_mut::<c_void>(), ptr::null_mut::<c_void>());
    // SAFETY: the caller's promise; a place for a pointer to the linker's record of the library.
    let is_own = unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut own).cast()) } == 0;
    // SAFETY: all zeros is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; places for the answer, and for a pointer to the linker's record.
    let is_found = unsafe { libc::dladdr1(mark, &mut info, &mut of_mark, RTLD_DL_LINKMAP) } != 0;
    !mark.is_null() && is_own && is_found && own == of_mark
}

/// The paths of a library in the linker's list, by its layout of glibc 2.2 and later: zero-terminated
/// strings after a table of entries. Names stand in it as paths, so the strings alone are enough.
fn in_cache(cache: &[u8], name: &str) -> Vec<PathBuf> {
    let strings = cache.split(|&byte| byte == 0);
    let end = format!("/{name}");
    let mut found: Vec<PathBuf> = Vec::new();
    for string in strings.filter(|string| string.ends_with(end.as_bytes())) {
        // A string may stand after bytes of the table that are not zero.
        let Some(start) = string.iter().position(|&byte| byte == b'/') else {
            continue;
        };
        let path = PathBuf::from(OsStr::from_bytes(&string[start..]));
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_list_is_read_by_its_strings() {
        let cache = b"glibc-ld.so.cache1.1\x02\0\0\x01libcuda.so\0/usr/lib64/libcuda.so\0libcuda.so.1\0\
                      /usr/lib64/libcuda.so.1\0\x07/opt/nv/libcuda.so.1\0/usr/lib64/libcuda.so.1\0";
        let found = in_cache(cache, DRIVER);
        let expected = ["/usr/lib64/libcuda.so.1", "/opt/nv/libcuda.so.1"].map(PathBuf::from);
        assert_eq!(found, expected);
        assert_eq!(
            in_cache(cache, "libcuda.so"),
            [Path::new("/usr/lib64/libcuda.so")]
        );
        assert_eq!(in_cache(b"", DRIVER), Vec::<PathBuf>::new());
    }
}
