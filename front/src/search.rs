//! Finding the driver's library behind the front: the first other `libcuda.so.1` where the dynamic linker
//! looks. The front has the same soname, so the linker must be given a path: a name would find the front.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::notice;

/// The library's name.
const NAME: &str = "libcuda.so.1";
/// Names the driver's library where the search would find another one, or none.
const VARIABLE: &str = "MGB_DRIVER";
/// The dynamic linker's list of libraries.
const CACHE: &str = "/etc/ld.so.cache";
/// Where distributions, WSL and containers put the driver, in the linker's order.
const FOLDERS: [&str; 9] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
];

/// Loads the driver. `None`, with one line of notice: there is none.
pub fn load() -> Option<*mut c_void> {
    let mut failures = Vec::new();
    for path in candidates() {
        if is_front(&path) {
            continue;
        }
        match open(&path) {
            Ok(handle) => return Some(handle),
            Err(why) => failures.push(why),
        }
    }
    let why = failures
        .first()
        .map_or("no libcuda.so.1 was found", String::as_str);
    notice::once(
        "no-driver",
        format_args!("found no NVIDIA driver behind MGB's libcuda.so.1 ({why}); name it in {VARIABLE}"),
    );
    None
}

fn candidates() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return vec![PathBuf::from(path)];
    }
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&listed)
        .filter(|folder| !folder.as_os_str().is_empty())
        .map(|folder| folder.join(NAME))
        .collect();
    let cached = std::fs::read(CACHE)
        .map(|cache| in_cache(&cache))
        .unwrap_or_default();
    let usual = FOLDERS.iter().map(|folder| Path::new(folder).join(NAME));
    let all = listed.into_iter().chain(cached).chain(usual);
    all.filter(|path| path.exists()).collect()
}

/// The paths of the library in the linker's list, by its layout of glibc 2.2 and later: zero-terminated
/// strings after a table of entries. Names stand in it as paths, so the strings alone are enough.
fn in_cache(cache: &[u8]) -> Vec<PathBuf> {
    let strings = cache.split(|&byte| byte == 0);
    let end = format!("/{NAME}");
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

/// Whether the file is this very library, by whatever path.
fn is_front(path: &Path) -> bool {
    let Some(own) = own_path() else { return false };
    let file = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    file(path).is_some() && file(path) == file(&own)
}

/// The file that this library was loaded from.
fn own_path() -> Option<PathBuf> {
    // SAFETY: all zeros is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address of this library, and a place for the answer.
    let found = unsafe { libc::dladdr(load as *const c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the linker's own string, which lives as long as the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

fn open(path: &Path) -> Result<*mut c_void, String> {
    let text =
        CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path with a zero in it".to_owned())?;
    // SAFETY: a C string. Its symbols stay out of the global scope, where the front's are.
    let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: called on the thread whose call failed.
    let why = unsafe { libc::dlerror() };
    if why.is_null() {
        return Err(format!("{} cannot be loaded", path.display()));
    }
    // SAFETY: dlerror's string, copied before the next call.
    Err(unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_list_is_read_by_its_strings() {
        let cache = b"glibc-ld.so.cache1.1\x02\0\0\x01libcuda.so\0/usr/lib64/libcuda.so\0libcuda.so.1\0\
                      /usr/lib64/libcuda.so.1\0\x07/opt/nv/libcuda.so.1\0/usr/lib64/libcuda.so.1\0";
        let found = in_cache(cache);
        let expected = ["/usr/lib64/libcuda.so.1", "/opt/nv/libcuda.so.1"].map(PathBuf::from);
        assert_eq!(found, expected);
        assert_eq!(in_cache(b""), Vec::<PathBuf>::new());
    }
}
