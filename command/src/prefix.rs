//! Where MGB's own parts are: the folder that holds `bin`, `lib`, `include` and `share`.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The driver front, below the folder.
const FRONT: &str = "lib/front/libcuda.so.1";

/// The folder that MGB is installed or staged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(PathBuf);

impl Prefix {
    /// `$MGB_PREFIX`, else the folder above the one that this executable really lies in.
    pub fn find() -> Result<Self> {
        if let Some(path) = env::var_os("MGB_PREFIX").filter(|path| !path.is_empty()) {
            return Ok(Self(std::path::absolute(path)?));
        }
        let executable = env::current_exe().and_then(|path| path.canonicalize()).context(
            "failed to find mgb's own executable; set MGB_PREFIX to the folder that holds bin/mgb",
        )?;
        let prefix = executable.parent().and_then(Path::parent);
        let prefix = prefix.context("mgb lies in no bin folder; set MGB_PREFIX")?;
        // In a container mgb itself lies where an installation has a link to it.
        let installed = prefix.join("lib/mgb");
        let is_mounted = !prefix.join(FRONT).exists() && installed.join(FRONT).exists();
        Ok(Self(if is_mounted { installed } else { prefix.to_owned() }))
    }

    /// The folder that is known to be it.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// `bin/mgbd`, or what to do if it is not there.
    pub fn mgbd(&self) -> Result<PathBuf> {
        self.part("bin/mgbd")
    }

    /// `bin/mgb`: this program, as the demo starts it again.
    pub fn mgb(&self) -> Result<PathBuf> {
        self.part("bin/mgb")
    }

    /// The pass that clang loads.
    pub fn plugin(&self) -> Result<PathBuf> {
        self.part("lib/libmgb_pass.so")
    }

    /// The runtime that programs are linked with.
    pub fn runtime(&self) -> Result<PathBuf> {
        self.part("lib/libmgb_rt.so")
    }

    /// The folder of the software GPU's libraries.
    pub fn softgpu(&self) -> Result<PathBuf> {
        self.part("lib/softgpu/libcudart.so.13")
            .map(|library| self.parent_of(&library))
    }

    /// The folder of the driver front.
    pub fn front(&self) -> Result<PathBuf> {
        self.part(FRONT).map(|library| self.parent_of(&library))
    }

    /// The plugin that Slurm loads, before `mgb cluster plugin` has made it that of a version.
    pub fn spank(&self) -> Result<PathBuf> {
        self.part("lib/mgb_spank.so")
    }

    /// The folder of `libmgb_rt.so`.
    pub fn lib(&self) -> PathBuf {
        self.0.join("lib")
    }

    /// The folder of `mgb.h`.
    pub fn include(&self) -> PathBuf {
        self.0.join("include")
    }

    /// A folder with an empty `curand_mtgp32_kernel.h`: clang includes that header whether cuRAND is there or
    /// not.
    pub fn empty_headers(&self) -> PathBuf {
        self.0.join("share/empty")
    }

    /// The CUDA tree that MGB was set up with.
    pub fn cuda(&self) -> PathBuf {
        self.0.join("cuda")
    }

    fn part(&self, relative: &str) -> Result<PathBuf> {
        let path = self.0.join(relative);
        if !path.exists() {
            bail!(
                "{} is missing: {} is not a complete MGB folder; run `make build`, or set MGB_PREFIX \
                 to where MGB is",
                path.display(),
                self.0.display()
            );
        }
        Ok(path)
    }

    fn parent_of(&self, path: &Path) -> PathBuf {
        path.parent().unwrap_or(&self.0).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_part_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let error = Prefix::at(folder.path()).plugin().unwrap_err().to_string();
        assert!(error.contains("lib/libmgb_pass.so is missing"), "{error}");
        assert!(error.contains("make build"), "{error}");
    }
}
