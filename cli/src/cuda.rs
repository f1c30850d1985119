//! Finds the CUDA toolkit: headers, ptxas, libdevice and the shared runtime.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mgb_command::prefix::Prefix;

/// The file name of the runtime that a program built with MGB loads.
pub const RUNTIME: &str = "libcudart.so.13";

/// A CUDA toolkit that has what MGB needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuda {
    /// The folder for `--cuda-path`.
    pub root: PathBuf,
    /// The folder that holds `libcudart.so.13`: the toolkit's own, or for CUDA 12 another toolkit's.
    pub lib: PathBuf,
    /// The version of its headers: major and minor.
    pub version: (u32, u32),
}

impl Cuda {
    /// The toolkit at `root`, if it holds CUDA 13's headers and shared runtime.
    pub fn at(root: &Path) -> Option<Self> {
        let version = version(root)?;
        let folders = ["lib64", "targets/x86_64-linux/lib", "lib"];
        let lib = folders
            .iter()
            .map(|folder| root.join(folder))
            .find(|lib| lib.join(RUNTIME).exists())?;
        Some(Self {
            root: root.to_owned(),
            lib,
            version,
        })
    }

    /// The toolkit at `root`, which the user named: also one of CUDA 12, if CUDA 13's runtime is found
    /// elsewhere.
    ///
    /// # Errors
    /// When it is neither.
    pub fn named(root: &Path, prefix: &Prefix) -> Result<Self> {
        if let Some(cuda) = Self::at(root) {
            return Ok(cuda);
        }
        let version = version(root).filter(|(major, _)| *major == 12).with_context(|| {
            format!(
                "{} is not a CUDA 13 toolkit (include/cuda_runtime.h and {RUNTIME} are needed), nor one of \
                 CUDA 12",
                root.display()
            )
        })?;
        let (major, minor) = version;
        let runtime = Self::installed(prefix).with_context(|| {
            format!(
                "{} is CUDA {major}.{minor}, whose programs run with CUDA 13's runtime under MGB, and {RUNTIME} is neither in \
                 /usr/local/cuda nor in {}: install CUDA 13, or run `make setup`, which fetches it",
                root.display(),
                prefix.cuda().display()
            )
        })?;
        Ok(Self {
            root: root.to_owned(),
            lib: runtime.lib,
            version,
        })
    }

    /// Whether the headers are those of the runtime; if not, the pass turns what differs.
    pub fn is_thirteen(&self) -> bool {
        self.version.0 == 13
    }

    /// Looks in `$CUDA_PATH`, `$CUDA_HOME`, `/usr/local/cuda`, above `nvcc` in `$PATH`, and in MGB's own
    /// folder.
    ///
    /// # Errors
    /// When there is none, or when a variable names a folder that is none: the user meant that one.
    pub fn find(prefix: &Prefix) -> Result<Self> {
        Self::search(|name| env::var_os(name), prefix)
    }

    /// The one in `/usr/local/cuda`, else that in MGB's own folder, whatever variables say.
    pub fn installed(prefix: &Prefix) -> Option<Self> {
        [PathBuf::from("/usr/local/cuda"), prefix.cuda()]
            .iter()
            .find_map(|root| Self::at(root))
    }

    fn search(variable: impl Fn(&str) -> Option<OsString>, prefix: &Prefix) -> Result<Self> {
        for name in ["CUDA_PATH", "CUDA_HOME"] {
            let Some(value) = variable(name).filter(|value| !value.is_empty()) else {
                continue;
            };
            return Self::named(Path::new(&value), prefix)
                .with_context(|| format!("{name} is to be corrected, or unset to let mgb look elsewhere"));
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

/// The version of a toolkit's headers; none where there are none of CUDA 12 or later.
fn version(root: &Path) -> Option<(u32, u32)> {
    if !root.join("include/cuda_runtime.h").exists() {
        return None;
    }
    let header = fs::read_to_string(root.join("include/cuda_runtime_api.h")).ok()?;
    let line = header
        .lines()
        .find_map(|line| line.strip_prefix("#define CUDART_VERSION "))?;
    let number: u32 = line.trim().parse().ok()?;
    Some((number / 1000, number % 1000 / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolkit(root: &Path, lib: &str) {
        fs::create_dir_all(root.join("include")).unwrap();
        fs::create_dir_all(root.join(lib)).unwrap();
        fs::write(root.join("include/cuda_runtime.h"), "").unwrap();
        fs::write(
            root.join("include/cuda_runtime_api.h"),
            "#define CUDART_VERSION  13000\n",
        )
        .unwrap();
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
        let error = format!("{:#}", with("/nowhere").unwrap_err());
        assert!(
            error.starts_with("CUDA_PATH is to be corrected")
                && error.contains("/nowhere is not a CUDA 13 toolkit"),
            "{error}"
        );
    }

    #[test]
    fn headers_of_twelve_go_with_the_runtime_of_thirteen() {
        let folder = tempfile::tempdir().unwrap();
        let (older, prefix) = (folder.path().join("older"), folder.path().join("prefix"));
        toolkit(&older, "lib64");
        fs::remove_file(older.join("lib64").join(RUNTIME)).unwrap();
        fs::write(
            older.join("include/cuda_runtime_api.h"),
            "#define CUDART_VERSION  12040\n",
        )
        .unwrap();
        toolkit(&prefix.join("cuda"), "lib64");
        let cuda = Cuda::named(&older, &Prefix::at(&prefix)).unwrap();
        assert_eq!((cuda.version, cuda.is_thirteen()), ((12, 4), false));
        assert!(cuda.lib.join(RUNTIME).exists() && cuda.root == older);
        fs::write(
            older.join("include/cuda_runtime_api.h"),
            "#define CUDART_VERSION  11080\n",
        )
        .unwrap();
        let error = Cuda::named(&older, &Prefix::at(&prefix)).unwrap_err().to_string();
        assert!(error.contains("is not a CUDA 13 toolkit"), "{error}");
    }
}
