//! Turns the user's clang command line into MGB's: ours before it, so that the user's options win, the
//! libraries after it, and what is in between as it was, except that the static CUDA runtime becomes the
//! shared one.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use anyhow::{Result, bail};
use mgb_command::prefix::Prefix;

use super::language::Language;
use super::lto;
use super::parse::{Argument, ArgumentKind, CommandLine};
use super::table::Meaning;
use crate::cuda::Cuda;
use crate::legacy;

/// What the command line is completed with.
#[derive(Debug)]
pub struct Parts {
    /// MGB's own folder.
    pub prefix: Prefix,
    /// The pass; needed where code is generated.
    pub plugin: Option<PathBuf>,
    /// The CUDA toolkit, where one was found.
    pub cuda: Option<Cuda>,
    /// The GPU to generate code for when the user names none.
    pub arch: String,
    /// `clang++`: C++ is the language, and its library is linked.
    pub cxx: bool,
    /// What CUDA has dropped is wanted.
    pub legacy: bool,
    /// clang's tools for its newer offloading driver are not installed.
    pub old_driver: bool,
    /// lld is wanted and not installed.
    pub lacks_lld: bool,
}

/// Makes clang track source lines through the optimiser, for the report, without writing debug sections: it
/// does so when remarks are asked for. No pass has this name, so none are printed.
const TRACK_LINES: &str = "-Rpass-analysis=^mgb-lines$";

/// The header that refuses `__managed__`, which clang ignores.
const MANAGED: &str = "mgb_managed.h";

/// The whole new command line.
///
/// # Errors
/// When CUDA sources are to be linked statically, and when a whole program cannot be put together.
pub fn translate(line: &CommandLine, parts: &Parts) -> Result<Vec<OsString>> {
    let mut words: Vec<OsString> = Vec::new();
    if parts.cxx {
        words.push("--driver-mode=g++".into());
    }
    let front = front_end(line, parts);
    if !front.is_empty() {
        // An option of ours that a step does not use is not a fault of the user's.
        words.push("--start-no-unused-arguments".into());
        words.extend(front);
        words.push("--end-no-unused-arguments".into());
    }
    let runtime = runtime_library(parts);
    for argument in &line.arguments {
        words.extend(shared_runtime(argument, runtime));
    }
    words.extend(lto::link(line, parts.plugin.as_deref(), parts.lacks_lld)?);
    if line.links() {
        words.extend(libraries(line, parts)?);
    }
    Ok(words)
}

fn front_end(line: &CommandLine, parts: &Parts) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    if !line.compiles() {
        return words;
    }
    if let Some(plugin) = parts.plugin.as_ref().filter(|_| line.generates_code()) {
        words.push(joined("-fpass-plugin=", plugin));
        // At -O0 clang marks functions optnone, and nothing could be promoted or inlined for the analysis.
        words.extend(["-Xclang", "-disable-O0-optnone"].map(OsString::from));
        // The report speaks in the program's own names and lines.
        words.extend(["-fno-discard-value-names", TRACK_LINES].map(OsString::from));
    }
    if parts.legacy {
        words.extend(legacy::options(&parts.prefix));
        if !line.has_input(Language::Cuda) {
            // Before every other folder: its headers stand for CUDA's.
            words.push(joined("-I", parts.prefix.include().join("legacy")));
        }
    }
    if line.has_input(Language::Cuda) {
        words.extend([
            "-include".into(),
            parts.prefix.include().join(MANAGED).into_os_string(),
        ]);
        words.push("-Wno-unknown-cuda-version".into());
        if let Some(cuda) = parts.cuda.as_ref().filter(|_| !line.has(Meaning::CudaPath)) {
            words.push(joined("--cuda-path=", &cuda.root));
        }
        if !line.has(Meaning::GpuArch) {
            words.push(format!("--cuda-gpu-arch={}", parts.arch).into());
        }
        if parts.old_driver {
            words.push("--no-offload-new-driver".into());
        }
    }
    // After everything else, so that a header of the user's or of CUDA's own is found first.
    let mut after = |folder: PathBuf| words.extend(["-idirafter".into(), folder.into_os_string()]);
    if let Some(cuda) = &parts.cuda {
        after(cuda.root.join("include"));
        after(cuda.root.join("include/cccl"));
    }
    after(parts.prefix.include());
    after(parts.prefix.empty_headers());
    words
}

fn libraries(line: &CommandLine, parts: &Parts) -> Result<Vec<OsString>> {
    let mut words: Vec<OsString> = Vec::new();
    let cuda_source = line.has_input(Language::Cuda);
    if line.has(Meaning::Static) {
        if cuda_source {
            bail!(
                "failed to link statically: a program under MGB needs the shared CUDA runtime; leave -static away \
                 (-static-libstdc++ and -static-libgcc are fine)"
            );
        }
        return Ok(words);
    }
    let Some(cuda) = &parts.cuda else { return Ok(words) };
    if cuda_source && !parts.cxx {
        // CUDA is C++, and its host side calls the C++ library; nvcc links it too.
        words.extend(
            [
                "-Wl,--push-state,--as-needed",
                "-lstdc++",
                "-lm",
                "-Wl,--pop-state",
            ]
            .map(OsString::from),
        );
    }
    // A program that uses no CUDA stays without these libraries. Only GNU ld keeps a library that is needed
    // by another library alone, as libcudart is by libmgb_rt.
    let needed = if cuda_source || line.has(Meaning::Linker) || line.links_with_lld() {
        "--no-as-needed"
    } else {
        "--as-needed"
    };
    words.push(format!("-Wl,--push-state,{needed}").into());
    words.extend([joined("-L", parts.prefix.lib()), "-lmgb_rt".into()]);
    words.push(joined("-L", &cuda.lib));
    words.push(runtime_library(parts).into());
    words.push("-Wl,--pop-state".into());
    // RUNPATH, not RPATH: LD_LIBRARY_PATH must win, since that is how the software GPU is put in.
    words.push("-Wl,--enable-new-dtags".into());
    for folder in [parts.prefix.lib(), cuda.lib.clone()] {
        // Not -Wl,: the folder's name may hold a comma.
        words.extend([
            "-Xlinker".into(),
            "-rpath".into(),
            "-Xlinker".into(),
            folder.into_os_string(),
        ]);
    }
    Ok(words)
}

/// What links the shared runtime. Trees laid together from NVIDIA's Python wheels lack the plain name, and
/// beside a toolkit of CUDA 12 it may be that one's.
pub fn runtime_library(parts: &Parts) -> &'static str {
    let by_version = |cuda: &Cuda| !cuda.is_thirteen() || !cuda.lib.join("libcudart.so").exists();
    if parts.cuda.as_ref().is_some_and(by_version) {
        "-l:libcudart.so.13"
    } else {
        "-lcudart"
    }
}

/// The argument as it was, with the CUDA runtime by any name replaced by the shared one: kernels registered
/// in one runtime cannot be launched through another, so a process must hold exactly one.
fn shared_runtime(argument: &Argument, runtime: &str) -> Vec<OsString> {
    let word = argument.word.as_bytes();
    let value = argument.value.as_deref().map(OsStr::as_bytes);
    let shared = || vec![OsString::from(runtime)];
    match (argument.kind, value) {
        (ArgumentKind::Known(Meaning::Runtime), _) => shared(),
        (
            ArgumentKind::Known(Meaning::Library),
            Some(b"cudart" | b"cudart_static" | b":libcudart_static.a"),
        ) => shared(),
        (ArgumentKind::Known(Meaning::ToLinker), Some(value)) if is_runtime(value) => shared(),
        (ArgumentKind::Known(Meaning::ToLinker), None) => {
            let items: Vec<&[u8]> = word
                .split(|&byte| byte == b',')
                .map(|item| {
                    if is_runtime(item) {
                        runtime.as_bytes()
                    } else {
                        item
                    }
                })
                .collect();
            vec![OsString::from_vec(items.join(&b","[..]))]
        }
        (ArgumentKind::Input(Language::Linked), _) if is_runtime(word) => shared(),
        _ => [Some(argument.word.clone()), argument.value.clone()]
            .into_iter()
            .flatten()
            .collect(),
    }
}

fn is_runtime(word: &[u8]) -> bool {
    let file = word.rsplit(|&byte| byte == b'/').next().unwrap_or(word);
    matches!(word, b"-lcudart" | b"-lcudart_static" | b"-l:libcudart_static.a")
        || matches!(file, b"libcudart_static.a" | b"libcudart.so" | b"libcudart.so.12")
}

fn joined(option: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut word = OsString::from(option);
    word.push(value);
    word
}
