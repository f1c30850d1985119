//! Finds clang 22, and chooses the GPU to compile for.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use mgb_command::node;

/// What the pass is built against; clang refuses plugins of another version.
const VERSION: &str = "22";

/// The GPU to compile for where no real one answers: the one this project is measured on.
const DEFAULT_ARCH: &str = "sm_90";

/// `$MGB_CLANG`, else `clang-22` in `$PATH`, else `clang` if it is version 22.
pub fn find_clang() -> Result<PathBuf> {
    if let Some(clang) = env::var_os("MGB_CLANG").filter(|clang| !clang.is_empty()) {
        let named = PathBuf::from(clang);
        let found = if named.components().count() > 1 {
            named.is_file().then(|| named.clone())
        } else {
            in_path(&named)
        };
        return match found {
            Some(clang) => Ok(clang),
            None => bail!(
                "MGB_CLANG={} is not a file; correct it, or unset it",
                named.display()
            ),
        };
    }
    if let Some(clang) = in_path(Path::new("clang-22")) {
        return Ok(clang);
    }
    match in_path(Path::new("clang")).filter(|clang| is_version_22(clang)) {
        Some(clang) => Ok(clang),
        None => bail!(
            "failed to find clang {VERSION}: neither clang-{VERSION} nor a clang of that version is in PATH; install the \
             Debian packages clang-{VERSION} and clang-tools-{VERSION} (`make setup` does), or set MGB_CLANG"
        ),
    }
}

/// Whether a tool that `clang` calls, such as the `clang-linker-wrapper` of its newer offloading driver, is
/// missing beside it.
pub fn lacks_beside(tool: &str, clang: &Path) -> bool {
    let folder = clang
        .canonicalize()
        .ok()
        .and_then(|clang| Some(clang.parent()?.to_owned()));
    !folder.is_some_and(|folder| folder.join(tool).exists())
}

/// `$MGB_CUDA_ARCH`, else the first real GPU's, else sm_90.
pub fn default_arch() -> String {
    let chosen = env::var("MGB_CUDA_ARCH").ok().filter(|arch| !arch.is_empty());
    chosen
        .or_else(node::first_gpu_arch)
        .unwrap_or_else(|| DEFAULT_ARCH.to_owned())
}

/// Whether kernels get host code, on which software GPUs run them: unless `$MGB_HOST_KERNELS` is `off`.
pub fn wants_host_kernels() -> bool {
    env::var_os("MGB_HOST_KERNELS").is_none_or(|wanted| wanted != "off")
}

fn in_path(name: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn is_version_22(clang: &Path) -> bool {
    let output = Command::new(clang).arg("-dumpversion").output();
    output.is_ok_and(|output| output.stdout.starts_with(b"22."))
}
