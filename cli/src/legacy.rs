//! `--mgb-legacy`: sources that were written for CUDA 11 and before, with what CUDA has dropped since.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use mgb_command::prefix::Prefix;

/// The option of all wrappers.
const OPTION: &str = "--mgb-legacy";
/// The variable that stands for it, for builds that name a compiler and no more.
pub const VARIABLE: &str = "MGB_LEGACY";

/// Names that compilers complain about, and that the header brings back.
const NAMES: [&str; 22] = [
    "cudaThreadSynchronize",
    "cudaThreadExit",
    "cudaThreadSetLimit",
    "cudaThreadGetLimit",
    "cudaThreadSetCacheConfig",
    "cudaThreadGetCacheConfig",
    "cudaBindTexture",
    "cudaBindTexture2D",
    "cudaBindTextureToArray",
    "cudaUnbindTexture",
    "texture",
    "cudaMemAdvise",
    "cudaMemPrefetchAsync",
    "cudaGraphAddDependencies",
    "cudaGraphGetEdges",
    "cudaStreamGetCaptureInfo_v2",
    "memoryType",
    "clockRate",
    "memoryClockRate",
    "deviceOverlap",
    "kernelExecTimeoutEnabled",
    "computeMode",
];

/// Takes the option off a command line, for this process and those that it starts.
pub fn take(words: &mut Vec<OsString>) {
    let count = words.len();
    words.retain(|word| word != OPTION);
    if words.len() < count {
        // SAFETY: the wrappers run on one thread up to here.
        unsafe { env::set_var(VARIABLE, "1") };
    }
}

/// Whether the header is to be included first.
pub fn is_wanted() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| !matches!(value.as_encoded_bytes(), b"" | b"0" | b"off"))
}

/// The options that include it.
pub fn options(prefix: &Prefix) -> [OsString; 2] {
    let header: PathBuf = prefix.include().join("mgb_legacy.h");
    ["-include".into(), header.into_os_string()]
}

/// A line for who compiled without it what needs it, as a compiler's first error says.
pub fn hint(error: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let found = error.split(|c| !is_name(c)).find(|word| NAMES.contains(word));
    let name = found.filter(|_| !is_wanted())?;
    Some(format!(
        "{OPTION}, or {VARIABLE}=1, brings back {name} and other things that CUDA has dropped"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_dropped_gives_a_hint() {
        let of = |text: &str| hint(text).is_some();
        assert!(of(
            "a.cu:3:5: error: use of undeclared identifier 'cudaThreadSynchronize'"
        ));
        assert!(of(
            "a.cu:9:8: error: no member named 'clockRate' in 'cudaDeviceProp'"
        ));
        assert!(of("a.cu(3): error: texture is not a template"));
        assert!(!of("a.cu:1:1: error: unknown type name 'texture_cache'"));
        assert!(!of("a.cu:1:1: error: expected ';'"));
    }
}
