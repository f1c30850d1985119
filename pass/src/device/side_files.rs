//! The files that the device run of the pass leaves for the host run of the same compile.
//!
//! clang compiles the device side of a source once per architecture, then its host side, as separate
//! processes that share nothing but the environment. `mgb clang` gives them a folder of their own in
//! `MGB_SIDE_DIR`. Both sides know the source by the same `source_filename`.
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

/// The environment variable that names the folder.
const VARIABLE: &str = "MGB_SIDE_DIR";

/// The folder of this compile; none if no translated kernels were asked for.
pub fn folder() -> Option<PathBuf> {
    env::var_os(VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// FNV-1a, 64 bits: spreads source names over file names; nothing depends on it being hard to invert.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What the files of one source start with.
fn prefix(source: &str) -> String {
    let stem = Path::new(source)
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or("module");
    let stem: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    format!("{:016x}-{stem}.", hash(source))
}

/// Keeps the bitcode of one device module, in one step: a reader sees all of it or none.
pub fn write(folder: &Path, source: &str, arch: &str, bitcode: &[u8]) -> io::Result<PathBuf> {
    let path = folder.join(format!("{}{arch}.bc", prefix(source)));
    let temporary = path.with_extension(format!("bc.{}", process::id()));
    fs::write(&temporary, bitcode)?;
    fs::rename(&temporary, &path).inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })?;
    Ok(path)
}

/// The bitcode of a source for the highest architecture it was compiled for.
///
/// With `-save-temps` the two sides read differently named preprocessed files: a folder that holds
/// the files of only one source holds the right ones, whatever they are called.
pub fn find(folder: &Path, source: &str) -> Option<PathBuf> {
    find_all(folder, source).pop()
}

/// The bitcode of a source for each architecture it was compiled for, the highest last; see [`find`].
pub fn find_all(folder: &Path, source: &str) -> Vec<PathBuf> {
    let files: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".bc"))
        .collect();
    let wanted = prefix(source);
    let group = |name: &String| name.split_once('.').map(|(group, _)| format!("{group}."));
    let of = |group_wanted: &str| {
        let mut found: Vec<&String> = files
            .iter()
            .filter(|name| name.starts_with(group_wanted))
            .collect();
        found.sort_by_key(|name| (arch_number(name), *name));
        found
    };
    let only = files
        .first()
        .and_then(group)
        .filter(|first| files.iter().all(|name| name.starts_with(first)));
    let mut found = of(&wanted);
    if let (true, Some(only)) = (found.is_empty(), only) {
        found = of(&only);
    }
    found.into_iter().map(|name| folder.join(name)).collect()
}

/// 90 for `...sm_90a.bc`; 0 when the name has none.
pub fn arch_number(name: &str) -> u32 {
    let digits = name.rsplit_once("sm_").map_or("", |(_, rest)| rest);
    digits
        .chars()
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_highest_architecture_of_the_right_source() {
        let folder = tempfile::tempdir().unwrap();
        for (source, arch) in [("a/x.cu", "sm_80"), ("a/x.cu", "sm_100"), ("b/x.cu", "sm_90a")] {
            write(folder.path(), source, arch, source.as_bytes()).unwrap();
        }
        let found = find(folder.path(), "a/x.cu").unwrap();
        assert!(found.to_str().unwrap().ends_with(".sm_100.bc"));
        assert_eq!(fs::read(found).unwrap(), b"a/x.cu");
        assert_eq!(
            fs::read(find(folder.path(), "b/x.cu").unwrap()).unwrap(),
            b"b/x.cu"
        );
        assert_eq!(
            find(folder.path(), "c/x.cu"),
            None,
            "two sources, none of them this one"
        );
    }

    #[test]
    fn takes_the_only_source_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            "x-cuda-nvptx64-nvidia-cuda-sm_90.cui",
            "sm_90",
            b"x",
        )
        .unwrap();
        assert!(find(folder.path(), "x-host-x86_64-unknown-linux-gnu.cui").is_some());
        assert_eq!(find(Path::new("/nonexistent"), "x"), None);
    }
}
