//! Real GPUs or software GPUs: decided once per command, then the same for mgbd and for every program.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use mgb_catalogue::nvml;
use mgb_core::libraries::{self, NVML};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, ReadCache};

use crate::node;
use crate::prefix::Prefix;

/// Where the dynamic linker looks first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// Which GPUs programs see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Machine {
    /// NVIDIA's driver and runtime.
    Real {
        /// How many the driver lists.
        gpus: u32,
    },
    /// The software GPU's libraries, in this folder.
    Soft {
        /// Their folder, which goes into `LD_LIBRARY_PATH`.
        libraries: PathBuf,
        /// Why no real GPUs are used.
        why: String,
    },
}

impl Machine {
    /// `MGB_SOFTGPU=1` or `SOFTGPU_DEVICES` choose software GPUs, `MGB_SOFTGPU=0` real ones; else real ones
    /// if the driver lists any.
    pub fn find(prefix: &Prefix) -> Result<Self> {
        Self::choose(prefix, node::gpu_count)
    }

    /// As [`Machine::find`], where somebody else counts the real GPUs: how many answer, or why none does.
    pub fn choose(prefix: &Prefix, count: impl FnOnce() -> Result<u32, String>) -> Result<Self> {
        let soft = |why: String| {
            let libraries = prefix.softgpu().context("failed to put software GPUs in")?;
            Ok(Self::Soft { libraries, why })
        };
        match variable("MGB_SOFTGPU")
            .map(|value| value.to_string_lossy().into_owned())
            .as_deref()
        {
            Some("1" | "on" | "yes" | "true") => return soft("MGB_SOFTGPU is set".to_owned()),
            Some("0" | "off" | "no" | "false") => {
                return match count() {
                    Ok(gpus) => Ok(Self::Real { gpus }),
                    Err(why) => bail!(
                        "no GPU at all: {why}; install NVIDIA's driver (a container gets it by --device nvidia.com/gpu=all), or \
                         unset MGB_SOFTGPU to run on software GPUs"
                    ),
                };
            }
            Some(other) => bail!("MGB_SOFTGPU={other} is neither 1 nor 0"),
            None => {}
        }
        if variable("SOFTGPU_DEVICES").is_some() {
            return soft("SOFTGPU_DEVICES is set".to_owned());
        }
        match count() {
            Ok(gpus) => Ok(Self::Real { gpus }),
            Err(why) => soft(why),
        }
    }

    /// Gives a program these GPUs.
    pub fn apply(&self, command: &mut Command) {
        self.apply_behind(&[], command);
    }

    /// Gives a program these GPUs, through the driver front in this folder.
    pub fn apply_with_front(&self, front: &Path, command: &mut Command) {
        let nvml = self.may_be_exchanged().then(|| self.nvml_of(front)).flatten();
        let folders: Vec<&Path> = [front].into_iter().chain(nvml.as_deref()).collect();
        self.apply_behind(&folders, command);
    }

    /// Whether two GPUs may have changed places in a job.
    fn may_be_exchanged(&self) -> bool {
        !matches!(self, Self::Real { gpus: 1 })
    }

    /// The folder in which the front is NVML's library. None where NVIDIA's has functions that the front
    /// lacks: programs of a later driver, nvidia-smi above all, may need them.
    fn nvml_of(&self, front: &Path) -> Option<PathBuf> {
        let real = match self {
            Self::Real { .. } => libraries::of_driver(NVML).into_iter().next()?,
            Self::Soft { libraries, .. } => libraries.join(NVML),
        };
        has_only(&real, &nvml::all().collect()).then(|| front.join("nvml"))
    }

    fn apply_behind(&self, first: &[&Path], command: &mut Command) {
        // Said aloud, so that a command started by this one need not ask the driver again.
        command.env("MGB_SOFTGPU", if self.is_soft() { "1" } else { "0" });
        if let Some(path) = self.library_path(first) {
            command.env(LIBRARY_PATH, path);
        }
    }

    /// What `LD_LIBRARY_PATH` becomes for a program on these GPUs, with these folders before all others;
    /// `None`: it stays as it is.
    pub fn library_path(&self, first: &[&Path]) -> Option<OsString> {
        let own = match self {
            Self::Real { .. } => None,
            Self::Soft { libraries, .. } => Some(libraries.as_path()),
        };
        let folders: Vec<&Path> = first.iter().copied().chain(own).collect();
        (!folders.is_empty()).then(|| first_in_path(&folders, env::var_os(LIBRARY_PATH)))
    }

    /// Whether these are software GPUs.
    pub fn is_soft(&self) -> bool {
        matches!(self, Self::Soft { .. })
    }

    /// Says once that programs run on software GPUs, unless the user asked for them.
    pub fn notice(&self) {
        if let Self::Soft { why, .. } = self
            && variable("SOFTGPU_DEVICES").is_none()
            && variable("MGB_SOFTGPU").is_none()
        {
            mgb_stderr::say!("mgb: running on software GPUs ({why}); they show function, not speed");
        }
    }
}

/// Whether a library exports only these of NVML's functions.
fn has_only(library: &Path, known: &BTreeSet<&str>) -> bool {
    let Ok(file) = File::open(library) else {
        return false;
    };
    let file = ReadCache::new(file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&file) else {
        return false;
    };
    elf.dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .all(|symbol| {
            let name = symbol.name().unwrap_or_default();
            !name.starts_with("nvml") || known.contains(name)
        })
}

/// A variable of the environment; an empty one counts as unset.
pub fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// `folders:rest`, with each of the folders only once.
fn first_in_path(folders: &[&Path], rest: Option<OsString>) -> OsString {
    let rest = rest.unwrap_or_default();
    let is_other = |entry: &PathBuf| !folders.contains(&entry.as_path()) && !entry.as_os_str().is_empty();
    let others = env::split_paths(&rest).filter(is_other);
    let own = folders.iter().map(|folder| folder.to_path_buf());
    // Fails only for a folder with a colon in its name, of which there is none (`Prefix::find`).
    env::join_paths(own.chain(others)).unwrap_or(rest.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_with_a_function_of_a_later_driver_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let known = BTreeSet::from(["nvmlInit", "nvmlShutdown"]);
        for (text, expected) in [
            (
                "int nvmlInit(void) { return 0; } int other(void) { return 0; }",
                true,
            ),
            (
                "int nvmlInit(void) { return 0; } int nvmlLater(void) { return 0; }",
                false,
            ),
            (
                "int nvmlLater(void); int nvmlInit(void) { return nvmlLater(); }",
                true,
            ),
        ] {
            let (source, library) = (folder.path().join("nvml.c"), folder.path().join("nvml.so"));
            std::fs::write(&source, text).unwrap();
            let mut cc = Command::new("cc");
            cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
            assert!(cc.status().unwrap().success());
            assert_eq!(has_only(&library, &known), expected, "{text}");
        }
        assert!(!has_only(&folder.path().join("none.so"), &known));
    }

    #[test]
    fn the_folder_comes_first_and_once() {
        let [front, softgpu] = ["/mgb/lib/front", "/mgb/lib/softgpu"].map(Path::new);
        assert_eq!(first_in_path(&[softgpu], None), "/mgb/lib/softgpu");
        let rest = || Some("/a::/mgb/lib/softgpu:/b".into());
        assert_eq!(first_in_path(&[softgpu], rest()), "/mgb/lib/softgpu:/a:/b");
        assert_eq!(
            first_in_path(&[front, softgpu], rest()),
            "/mgb/lib/front:/mgb/lib/softgpu:/a:/b"
        );
    }
}
