//! Where MGB's own parts are: the folder that holds `bin`, `lib`, `include` and `share`. Where files cannot
//! be links, as in a wheel of Python's or a container, the programs themselves are where links to them would
//! be: two folders above, in `bin`.

use std::env;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// MGB's own folder, from the one above its programs, where these are not in it.
const BESIDE_PROGRAMS: &str = "lib/mgb";
/// The driver front, which tells MGB's own folder from others of that name.
const FRONT: &str = "lib/front/libcuda.so.1";

/// The folder that MGB is installed or staged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(PathBuf);

impl Prefix {
    /// `$MGB_PREFIX`, else the folder above the one that this executable really lies in.
    pub fn find() -> Result<Self> {
        Self::look()?.if_it_can_be_named()
    }

    /// Itself, unless no search path can have it: programs would run without MGB, and nobody would say so.
    fn if_it_can_be_named(self) -> Result<Self> {
        if self
            .0
            .as_os_str()
            .as_bytes()
            .iter()
            .any(|byte| b":;".contains(byte))
        {
            bail!(
                "MGB lies in {}, and LD_LIBRARY_PATH can name no folder with a colon or semicolon: move it",
                self.0.display()
            );
        }
        Ok(self)
    }

    fn look() -> Result<Self> {
        if let Some(path) = env::var_os("MGB_PREFIX").filter(|path| !path.is_empty()) {
            return Ok(Self(std::path::absolute(path)?));
        }
        let executable = env::current_exe().and_then(|path| path.canonicalize()).context(
            "failed to find mgb's own executable; set MGB_PREFIX to the folder that holds bin/mgb",
        )?;
        let above = executable.parent().and_then(Path::parent);
        let above = above.context("mgb lies in no bin folder; set MGB_PREFIX")?;
        Ok(Self::above_programs(above))
    }

    /// The one that the programs in `above/bin` belong to.
    fn above_programs(above: &Path) -> Self {
        let own = above.join(BESIDE_PROGRAMS);
        let is_own = own.join(FRONT).exists() && !above.join(FRONT).exists();
        Self(if is_own { own } else { above.to_owned() })
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
        self.program("mgbd")
    }

    /// `bin/mgb`: this program, as the demo starts it again.
    pub fn mgb(&self) -> Result<PathBuf> {
        self.program("mgb")
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

    fn program(&self, name: &str) -> Result<PathBuf> {
        let beside = self.0.join("../../bin").join(name);
        let is_beside = self.0.ends_with(BESIDE_PROGRAMS) && beside.exists();
        self.part(&format!("bin/{name}"))
            .or_else(|missing| beside.canonicalize().ok().filter(|_| is_beside).ok_or(missing))
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

    fn put(file: &Path) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }

    #[test]
    fn programs_are_in_the_folder_or_where_its_links_would_be() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        put(&root.join("bin/mgbd"));
        // Somebody else's, or a part of one.
        put(&root.join("lib/mgb/README"));
        assert_eq!(Prefix::above_programs(&root), Prefix::at(&root));
        put(&root.join("lib/mgb").join(FRONT));
        let prefix = Prefix::above_programs(&root);
        assert_eq!(prefix, Prefix::at(root.join("lib/mgb")));
        assert_eq!(prefix.mgbd().unwrap(), root.join("bin/mgbd"));
        assert!(prefix.mgb().is_err());
        put(&root.join("lib/mgb/bin/mgbd"));
        assert_eq!(prefix.mgbd().unwrap(), root.join("lib/mgb/bin/mgbd"));
        // A folder of another name has nothing to do with the programs above it.
        put(&root.join("opt/own").join(FRONT));
        assert!(Prefix::at(root.join("opt/own")).mgbd().is_err());
        put(&root.join(FRONT));
        assert_eq!(Prefix::above_programs(&root), Prefix::at(&root));
    }

    #[test]
    fn a_folder_that_no_search_path_can_have_is_refused() {
        for (folder, is_fine) in [("/opt/mgb 2", true), ("/opt/a:b", false), ("/opt/a;b", false)] {
            let found = Prefix::at(folder).if_it_can_be_named();
            assert_eq!(found.is_ok(), is_fine, "{folder}");
        }
    }

    #[test]
    fn a_missing_part_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let error = Prefix::at(folder.path()).plugin().unwrap_err().to_string();
        assert!(error.contains("lib/libmgb_pass.so is missing"), "{error}");
        assert!(error.contains("make build"), "{error}");
    }
}
