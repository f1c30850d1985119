//! Whole programs: what `-flto` means to the wrapper.
//!
//! With clang's own `-flto`, compiles leave the pass's work to the link, where lld runs it over all files at
//! once. `-flto=thin` looks at files one by one even at link, so that the pass looks at each as it is
//! compiled, as without.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Result, bail};

use super::language::Language;
use super::parse::{ArgumentKind, CommandLine};
use super::table::Meaning;

/// How far link time optimisation is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lto {
    /// Not at all.
    Off,
    /// File by file.
    Thin,
    /// Over the whole program.
    Full,
}

/// Printed at a link with `-flto=thin`.
pub const THIN: &str =
    "mgb clang: -flto=thin looks at files one by one, and so does MGB; -flto lets it see the whole program";

/// What every bitcode file begins with.
pub const BITCODE: [u8; 4] = *b"BC\xc0\xde";

impl CommandLine {
    /// How far link time optimisation is asked for: the last option counts, as for clang.
    pub fn lto(&self) -> Lto {
        let asked = self
            .arguments
            .iter()
            .rev()
            .find_map(|argument| match argument.kind {
                ArgumentKind::Known(Meaning::Lto) => Some(match argument.word.as_bytes() {
                    b"-fno-lto" => Lto::Off,
                    b"-flto=thin" => Lto::Thin,
                    _ => Lto::Full,
                }),
                _ => None,
            });
        asked.unwrap_or(Lto::Off)
    }

    /// Whether the linker runs, be it for another object.
    pub fn runs_linker(&self) -> bool {
        let relocatable =
            self.has(Meaning::Relocatable) && !self.has(Meaning::FrontEnd) && !self.has(Meaning::NoLink);
        self.links()
            || (relocatable
                && self
                    .arguments
                    .iter()
                    .any(|one| matches!(one.kind, ArgumentKind::Input(_))))
    }

    /// Whether the user chose lld; none where no linker is chosen.
    fn chose_lld(&self) -> Option<bool> {
        let chosen = self.joined(Meaning::Linker)?;
        let name = Path::new(chosen).file_name().unwrap_or(chosen);
        Some(name.as_bytes().windows(3).any(|part| part == b"lld"))
    }

    /// Whether a whole program is put together: `-flto` says so, and so does an object that has been left to
    /// the link, since CMake gives the options of CUDA to compiles alone.
    fn is_whole(&self) -> bool {
        self.lto() == Lto::Full || (self.lto() == Lto::Off && self.has_bitcode())
    }

    /// Whether lld links.
    pub fn links_with_lld(&self) -> bool {
        self.runs_linker() && self.chose_lld().unwrap_or_else(|| self.is_whole())
    }

    fn has_bitcode(&self) -> bool {
        let linked = self
            .arguments
            .iter()
            .filter(|one| one.kind == ArgumentKind::Input(Language::Linked));
        linked.into_iter().any(|one| is_bitcode(Path::new(&one.word)))
    }
}

/// What has lld run the pass over what it merges; nothing where another linker links.
///
/// # Errors
/// When a whole program cannot be put together so.
pub fn link(line: &CommandLine, plugin: Option<&Path>, lacks_lld: bool) -> Result<Vec<OsString>> {
    check(line)?;
    let mut words: Vec<OsString> = Vec::new();
    let Some(plugin) = plugin.filter(|_| line.links_with_lld()) else {
        return Ok(words);
    };
    if line.chose_lld().is_none() {
        if lacks_lld {
            bail!(
                "failed to find lld beside clang, which links what compiles with -flto leave to the link: install the Debian \
                 package lld-22, or leave -flto away everywhere"
            );
        }
        words.push("-fuse-ld=lld".into());
    }
    if line.lto() == Lto::Off && line.has_bitcode() {
        words.push("-flto".into());
    }
    // Not -Wl,: the plugin's path may hold a comma.
    let mut load = OsString::from("--load-pass-plugin=");
    load.push(plugin);
    words.extend(["-Xlinker".into(), load]);
    Ok(words)
}

fn check(line: &CommandLine) -> Result<()> {
    if line.lto() == Lto::Full && line.has(Meaning::FatObjects) {
        bail!(
            "-ffat-lto-objects: the code beside the bitcode would be without MGB; leave it away, or leave -flto away"
        );
    }
    if line.runs_linker() && line.chose_lld() == Some(false) && line.is_whole() {
        let linker = line.joined(Meaning::Linker).unwrap_or_default();
        bail!(
            "-fuse-ld={}: what was compiled with -flto only lld can link; leave it away, or leave -flto away everywhere",
            linker.to_string_lossy()
        );
    }
    Ok(())
}

/// Whether a file holds bitcode; false where it cannot be read.
pub fn is_bitcode(file: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == BITCODE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> CommandLine {
        CommandLine::parse(text.split_whitespace().map(OsString::from))
    }

    fn refused(text: &str) -> String {
        link(&line(text), Some(Path::new("/p.so")), false)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn the_last_option_counts() {
        assert_eq!(line("-O2 a.cu").lto(), Lto::Off);
        assert_eq!(line("-flto=thin -flto a.cu").lto(), Lto::Full);
        assert_eq!(line("-flto=auto a.cu").lto(), Lto::Full);
        assert_eq!(line("-flto -flto=thin a.cu").lto(), Lto::Thin);
        assert_eq!(line("-flto -fno-lto a.cu").lto(), Lto::Off);
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_way_out() {
        let error = refused("-flto -fuse-ld=mold a.o");
        assert!(
            error.starts_with("-fuse-ld=mold: ") && error.contains("leave it away"),
            "{error}"
        );
        let error = refused("-flto -ffat-lto-objects -c a.cu");
        assert!(error.starts_with("-ffat-lto-objects: "), "{error}");
        let error = link(&line("-flto a.o"), Some(Path::new("/p.so")), true)
            .unwrap_err()
            .to_string();
        assert!(error.contains("lld-22"), "{error}");
        assert!(
            link(
                &line("-flto -fuse-ld=/opt/bin/ld.lld a.o"),
                Some(Path::new("/p.so")),
                true
            )
            .is_ok()
        );
        assert!(link(&line("-flto -c a.cu"), Some(Path::new("/p.so")), true).is_ok());
    }

    #[test]
    fn objects_left_to_the_link_are_linked_by_lld_without_being_asked() {
        let folder = tempfile::tempdir().unwrap();
        let object = folder.path().join("a.o");
        std::fs::write(&object, b"BC\xc0\xde....").unwrap();
        let words = |text: &str| {
            let line = line(&format!("{text} {}", object.display()));
            link(&line, Some(Path::new("/p.so")), false).unwrap()
        };
        assert_eq!(
            words("-o a"),
            ["-fuse-ld=lld", "-flto", "-Xlinker", "--load-pass-plugin=/p.so"]
        );
        assert_eq!(
            words("-fuse-ld=lld"),
            ["-flto", "-Xlinker", "--load-pass-plugin=/p.so"]
        );
        assert!(words("-c").is_empty());
    }
}
