//! The staged prefix: what `make build` lays out and users install.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The folder with `bin/mgb` and all that belongs to it: `$MGB_PREFIX`, else `build/` of this repository.
///
/// # Panics
///
/// When nothing is staged there.
pub fn prefix() -> PathBuf {
    let root = env::var_os("MGB_PREFIX").map_or_else(|| repository().join("build"), PathBuf::from);
    match fs::canonicalize(&root) {
        Ok(root) if root.join("bin/mgb").exists() => root,
        _ => panic!("nothing is staged in {}: run `make build` first", root.display()),
    }
}

/// The root of this repository.
pub fn repository() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package
        .parent()
        .expect("the package is a folder of the repository")
        .to_owned()
}

/// A program of the prefix.
pub fn bin(name: &str) -> PathBuf {
    prefix().join("bin").join(name)
}

/// The folder whose libraries stand in for NVIDIA's.
pub fn softgpu_libraries() -> PathBuf {
    prefix().join("lib/softgpu")
}
