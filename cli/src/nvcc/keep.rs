//! `mgb nvcc --keep-nvcc`: NVIDIA's own nvcc compiles the device code, for sources that clang does not take
//! as CUDA. Its host compiler is `mgb-clang++`, which loads the pass and links MGB's runtime. Everything else
//! of its command line stays as it was.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::prefix::Prefix;

use crate::clang::{gcc, response};
use crate::cuda::Cuda;
use crate::legacy;

/// The option that keeps NVIDIA's nvcc.
pub const OPTION: &str = "--keep-nvcc";
/// The variable that stands for it, for builds that name a compiler and no more.
const VARIABLE: &str = "MGB_KEEP_NVCC";
/// Where nvcc takes options from beside its command line.
pub const FLAGS: [&str; 2] = ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"];

/// Whether nvcc is to be kept, by these words or by the environment.
pub fn is_wanted(words: &[OsString]) -> bool {
    let switched_on = |value: OsString| !matches!(value.as_bytes(), b"" | b"0" | b"off");
    let among_flags = |name: &&str| {
        let text = env::var_os(name).unwrap_or_default();
        response::words(text.as_bytes()).iter().any(|word| word == OPTION)
    };
    words.iter().any(|word| word == OPTION)
        || env::var_os(VARIABLE).is_some_and(switched_on)
        || FLAGS.iter().any(among_flags)
}

/// Whether the environment says that nvcc compiles nothing.
pub fn is_ruled_out() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| matches!(value.as_bytes(), b"0" | b"off"))
}

/// Becomes nvcc. Returns only if that fails.
pub fn run(words: Vec<OsString>) -> CommandResult {
    let mut command = command(words).code(exit::NODE)?;
    let failed =
        anyhow!(command.exec()).context(format!("failed to run {}", command.get_program().display()));
    Err(failed).code(exit::NODE)
}

/// nvcc with these words, and with our host compiler.
///
/// # Errors
/// When there is none, or a part of MGB is missing.
pub fn command(words: Vec<OsString>) -> Result<Command> {
    let prefix = Prefix::find()?;
    let nvcc = find(&prefix)?;
    prefix.plugin()?;
    prefix.runtime()?;
    let mut command = Command::new(&nvcc.path);
    command.args(without_ours(words)).args(ours(&prefix));
    if legacy::is_wanted() {
        // nvcc includes it. What its host compiler gets has been through that.
        command
            .args(legacy::options(&prefix))
            .env_remove(legacy::VARIABLE);
    }
    command.env("CUDA_PATH", &nvcc.cuda.root);
    command.env(gcc::VARIABLE, "1");
    // A script of the user's that stands for nvcc may call mgb-nvcc: once is enough.
    command.env_remove(VARIABLE);
    for name in FLAGS {
        let words = response::words(env::var_os(name).unwrap_or_default().as_bytes());
        let kept = without_ours(words.clone());
        if kept != words {
            command.env(name, OsString::from_vec(response::quote(&kept)));
        }
    }
    Ok(command)
}

/// Where the nvcc is that would be run.
///
/// # Errors
/// When there is none, or its toolkit is none that MGB takes.
pub fn path(prefix: &Prefix) -> Result<PathBuf> {
    find(prefix).map(|nvcc| nvcc.path)
}

/// NVIDIA's nvcc, and the toolkit that it is of.
struct Nvcc {
    path: PathBuf,
    cuda: Cuda,
}

/// `$MGB_NVCC`, else the toolkit's, else the first in `$PATH` that is not this program.
fn find(prefix: &Prefix) -> Result<Nvcc> {
    if let Some(named) = env::var_os("MGB_NVCC").filter(|named| !named.is_empty()) {
        let path = PathBuf::from(named);
        if !path.is_file() || is_ours(&path) {
            bail!(
                "MGB_NVCC={} is not NVIDIA's nvcc; correct it, or unset it",
                path.display()
            );
        }
        return with_toolkit(path, prefix);
    }
    if let Ok(cuda) = Cuda::find(prefix) {
        let path = cuda.root.join("bin/nvcc");
        if path.is_file() && !is_ours(&path) {
            return Ok(Nvcc { path, cuda });
        }
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .map(|folder| folder.join("nvcc"))
        .find(|nvcc| nvcc.is_file() && !is_ours(nvcc));
    with_toolkit(found.context(
        "failed to find NVIDIA's nvcc for --keep-nvcc: neither the CUDA toolkit's bin nor PATH has it; set CUDA_PATH, or \
         MGB_NVCC to the program itself",
    )?, prefix)
}

fn with_toolkit(path: PathBuf, prefix: &Prefix) -> Result<Nvcc> {
    let real = path
        .canonicalize()
        .with_context(|| format!("failed to find {}", path.display()))?;
    let root = real.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let cuda = Cuda::named(root, prefix);
    let cuda = cuda.with_context(|| {
        format!(
            "{} belongs to no toolkit that MGB takes; name another by CUDA_PATH or MGB_NVCC",
            path.display()
        )
    })?;
    Ok(Nvcc { path, cuda })
}

/// Whether a file is this program under another name: it would call itself for ever.
fn is_ours(path: &Path) -> bool {
    let itself = env::current_exe().and_then(|path| path.canonicalize());
    matches!((itself, path.canonicalize()), (Ok(itself), Ok(other)) if itself == other)
}

/// What is added at the end, where it wins over what an options file says.
fn ours(prefix: &Prefix) -> Vec<OsString> {
    let compiler = prefix.path().join("bin/mgb-clang++");
    vec![
        "-ccbin".into(),
        compiler.into_os_string(),
        // nvcc knows clang only up to a version of its own time.
        "-allow-unsupported-compiler".into(),
        "-cudart".into(),
        "shared".into(),
    ]
}

/// The words without our own, and without those that choose the host compiler and the runtime: nvcc warns of
/// a second one.
fn without_ours(words: Vec<OsString>) -> Vec<OsString> {
    const CHOOSE: [&[u8]; 4] = [b"-ccbin", b"--compiler-bindir", b"-cudart", b"--cudart"];
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        let name = bytes.split(|&byte| byte == b'=').next().unwrap_or(bytes);
        if CHOOSE.contains(&name) {
            if name.len() == bytes.len() {
                words.next();
            }
        } else if !matches!(
            word.to_str(),
            Some(OPTION | "-allow-unsupported-compiler" | "--allow-unsupported-compiler")
        ) {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_command_line_stays() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        let kept = without_ours(words(
            "-O2 --keep-nvcc -ccbin g++-12 --cudart=static -Xcompiler -fPIC,-Wall -cudart none -o -x a.cu",
        ));
        assert_eq!(kept, words("-O2 -Xcompiler -fPIC,-Wall -o -x a.cu"));
        assert_eq!(without_ours(words("a.cu -ccbin")), words("a.cu"));
    }

    #[test]
    fn the_option_is_seen_wherever_it_stands() {
        assert!(is_wanted(&["-c".into(), OPTION.into()]));
        assert!(!is_wanted(&["-c".into(), "--keep".into()]));
    }
}
