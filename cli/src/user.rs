//! Names of users.

use std::collections::BTreeSet;
use std::ffi::CStr;

/// The name of a user, or the number where there is none.
pub fn name(uid: u32) -> String {
    let mut text = vec![0; 16 << 10];
    // SAFETY: all zeros is a valid entry for the call to fill.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: the call writes the entry, its texts into `text`, and whether it found one.
    let failed =
        unsafe { libc::getpwuid_r(uid, &raw mut entry, text.as_mut_ptr(), text.len(), &raw mut found) };
    if failed != 0 || found.is_null() {
        return uid.to_string();
    }
    // SAFETY: a found entry's name is a C string in `text`.
    unsafe { CStr::from_ptr(entry.pw_name) }
        .to_string_lossy()
        .into_owned()
}

/// Whether these are several.
pub fn are_several(uids: impl Iterator<Item = u32>) -> bool {
    uids.collect::<BTreeSet<u32>>().len() > 1
}
