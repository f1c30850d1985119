//! `--mgb-parts`: kernels that can be run in parts get a twin, which can stop between two blocks.

use std::env;
use std::ffi::OsString;

/// The option of all wrappers.
const OPTION: &str = "--mgb-parts";
/// The variable that stands for it, for builds that name a compiler and no more. The pass reads it.
const VARIABLE: &str = "MGB_PARTS";

/// Takes the option off a command line, for this process and those that it starts.
pub fn take(words: &mut Vec<OsString>) {
    let count = words.len();
    words.retain(|word| word != OPTION);
    if words.len() < count {
        // SAFETY: the wrappers run on one thread up to here.
        unsafe { env::set_var(VARIABLE, "1") };
    }
}

/// Device code that is linked across files gets no twins, since the host registers none there: takes the
/// request back, and says so.
pub fn leave_out() {
    if env::var_os(VARIABLE).is_some_and(|value| !matches!(value.as_encoded_bytes(), b"" | b"0" | b"off")) {
        // SAFETY: the wrappers run on one thread up to here.
        unsafe { env::remove_var(VARIABLE) };
        mgb_command::tell!(
            "mgb clang: device code that is linked across files gets no twins: {OPTION} is left out"
        );
    }
}
