//! Finds the CUDA toolkit: headers, ptxas, libdevice and the shared runtime.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::prefix::Prefix;

/// The file name of the runtime that a program built with MGB loads.
pub const RUNTIME: &str = "libcudart.so.13";

/// A CUDA toolkit that has what MGB needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuda {
    /// The folder for `--cuda-path`.
    pub root: PathBuf,
    /// The folder that holds `libcudart.so.13`.
    pub lib: PathBuf,
}

impl Cuda {
    /// The toolkit at `root`, if it holds CUDA 13's headers and shared runtime.
    pub fn at(root: &Path) -> Option<Self> {
        if !root.join("include/cuda_runtime.h").exists() {
            return None;
        }
        let folders = ["lib64", "targets/x86_64-linux/lib", "lib"];
        let lib = folders
            .iter()
            .map(|folder| root.join(folder))
            .find(|lib| lib.join(RUNTIME).exists())?;
        Some(Self {
            root: root.to_owned(),
            lib,
        })
    }

    /// Looks in `$CUDA_PATH`, `$CUDA_HOME`, `/usr/local/cuda`, above `nvcc` in `$PATH`, and in MGB's own folder.
    ///
    /// # Errors
    /// When there is none, or when a variable names a folder that is none: the user meant that one.
    pub fn find(prefix: &Prefix) -> Result<Self> {
        Self::search(|name| env::var_os(name), prefix)
    }

    fn search(variable: impl Fn(&str) -> Option<OsString>, prefix: &Prefix) -> Result<Self> {
        for name in ["CUDA_PATH", "CUDA_HOME"] {
            let Some(value) = variable(name).filter(|value| !value.is_empty()) else {
                continue;
            };
            match Self::at(Path::new(&value)) {
                Some(cuda) => return Ok(cuda),
                None => bail!(
                    "{name}={} is no CUDA 13 toolkit (include/cuda_runtime.h and {RUNTIME} are needed); \
                     correct it, or unset it to let mgb look elsewhere",
                    value.to_string_lossy()
                ),
            }
        }
        let of_nvcc = variable("PATH").and_then(|path| {
            let nvcc = env::split_paths(&path)
                .map(|folder| folder.join("nvcc"))
                .find(|nvcc| nvcc.is_file())?;
            Some(nvcc.canonicalize().ok()?.parent()?.parent()?.to_owned())
        });
        let places = [
            Some(PathBuf::from("/usr/local/cuda")),
            of_nvcc,
            Some(prefix.cuda()),
        ];
        match places.into_iter().flatten().find_map(|root| Self::at(&root)) {
            Some(cuda) => Ok(cuda),
            None => bail!(
                "failed to find CUDA 13: neither CUDA_PATH, CUDA_HOME, /usr/local/cuda, nvcc in PATH nor {} leads to \
                 it; install it, set CUDA_PATH, or run `make setup`, which fetches it",
                prefix.cuda().display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn toolkit(root: &Path, lib: &str) {
        fs::create_dir_all(root.join("include")).unwrap();
        fs::create_dir_all(root.join(lib)).unwrap();
        fs::write(root.join("include/cuda_runtime.h"), "").unwrap();
        fs::write(root.join(lib).join(RUNTIME), "").unwrap();
    }

    #[test]
    fn the_variable_comes_first_and_must_be_right() {
        let folder = tempfile::tempdir().unwrap();
        toolkit(&folder.path().join("mine"), "targets/x86_64-linux/lib");
        toolkit(&folder.path().join("prefix/cuda"), "lib64");
        let prefix = Prefix::at(folder.path().join("prefix"));
        let with = |value: &str| {
            let value = OsString::from(value);
            Cuda::search(|name| (name == "CUDA_PATH").then(|| value.clone()), &prefix)
        };
        let mine = folder.path().join("mine");
        let found = with(mine.to_str().unwrap()).unwrap();
        assert_eq!(found.root, mine);
        assert!(found.lib.ends_with("targets/x86_64-linux/lib"));
        let error = with("/nowhere").unwrap_err().to_string();
        assert!(
            error.starts_with("CUDA_PATH=/nowhere is no CUDA 13 toolkit"),
            "{error}"
        );
    }
}
