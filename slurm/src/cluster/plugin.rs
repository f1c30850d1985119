//! `mgb cluster plugin`: the SPANK plugin for this node's Slurm. Slurm loads plugins of its own version
//! alone, and one word in the file says which: it is written here, so that one build serves all of them.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use mgb_command::exit::{self, CommandResult, WithCode};
use mgb_command::out;
use mgb_command::prefix::Prefix;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

/// The symbol of that word.
const SYMBOL: &str = "plugin_version";

/// Write the SPANK plugin for a version of Slurm.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mgb cluster plugin --out /etc/slurm/mgb_spank.so
  mgb cluster plugin --slurm 24.11.5 --out mgb_spank.so

Exit code: 0, 2 if the version or the file cannot be used, 3 if MGB is not complete.")]
pub struct Args {
    /// Slurm's version [default: what `sinfo --version` says].
    #[arg(long, value_name = "VERSION")]
    slurm: Option<Version>,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// A version of Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The year of the release.
    pub major: u8,
    /// The month of the release.
    pub minor: u8,
    /// Its number among the corrections.
    pub micro: u8,
}

impl Version {
    /// As `SLURM_VERSION_NUMBER` has it.
    pub fn number(self) -> u32 {
        u32::from_be_bytes([0, self.major, self.minor, self.micro])
    }

    /// Of such a number.
    pub fn of(number: u32) -> Version {
        let [_, major, minor, micro] = number.to_be_bytes();
        Version { major, minor, micro }
    }

    /// Whether Slurm of this version loads a plugin of the other.
    pub fn takes(self, plugin: Version) -> bool {
        (self.major, self.minor) == (plugin.major, plugin.minor)
    }
}

impl FromStr for Version {
    type Err = String;

    /// `22.05.8`, also `slurm 22.05.8` and `24.11.5-4`.
    fn from_str(text: &str) -> Result<Version, String> {
        let wrong = || format!("{text} is no version of Slurm, such as 22.05.8");
        let words = text
            .trim()
            .trim_start_matches("slurm")
            .trim_start_matches("-wlm")
            .trim();
        let mut numbers = words.split(['.', '-']).map(|number| number.parse::<u8>().ok());
        let mut next = || numbers.next().flatten();
        let (major, minor) = next().zip(next()).ok_or_else(wrong)?;
        Ok(Version {
            major,
            minor,
            micro: next().unwrap_or(0),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}.{:02}.{}", self.major, self.minor, self.micro)
    }
}

/// Runs the command.
pub fn run(args: &Args) -> CommandResult {
    let built = Prefix::find()
        .and_then(|prefix| prefix.spank())
        .code(exit::NODE)?;
    let version = match args.slurm {
        Some(version) => version,
        None => installed().code(exit::USAGE)?,
    };
    let read = std::fs::read(&built).with_context(|| format!("failed to read {}", built.display()));
    let mut file = read.code(exit::NODE)?;
    stamp(&mut file, version)
        .with_context(|| format!("{} is not MGB's plugin", built.display()))
        .code(exit::NODE)?;
    // slurmd may have the old one in use.
    out::replace(&args.out, |new| new.write_all(&file))
        .with_context(|| format!("failed to write {}", args.out.display()))
        .code(exit::USAGE)?;
    out::print(&format!("{}: for Slurm {version}\n", args.out.display()));
    Ok(exit::OK)
}

/// The version of the Slurm that is installed here.
pub fn installed() -> Result<Version> {
    let way_out = "say which with --slurm VERSION";
    // Without a slurm.conf sinfo looks for one in the network first; slurmd and srun know by themselves.
    for program in ["sinfo", "srun", "slurmd"] {
        let Ok(output) = Command::new(program).arg("-V").output() else {
            continue;
        };
        let said = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            return said
                .parse()
                .map_err(|error| anyhow!("{program} -V: {error}; {way_out}"));
        }
    }
    bail!("no Slurm answers here (sinfo -V, srun -V, slurmd -V); {way_out}")
}

/// Where in the file the version stands.
fn place(file: &[u8]) -> Result<usize> {
    let elf = ElfFile64::<Endianness, _>::parse(file).context("no ELF file")?;
    let symbol = elf
        .dynamic_symbols()
        .find(|symbol| symbol.is_definition() && symbol.name() == Ok(SYMBOL))
        .with_context(|| format!("it has no symbol {SYMBOL}"))?;
    let index = symbol.section_index().context("the symbol is in no section")?;
    let section = elf.section_by_index(index).context("no such section")?;
    let (offset, bytes) = section.file_range().context("the section is not in the file")?;
    let at = symbol
        .address()
        .checked_sub(section.address())
        .filter(|at| at + 4 <= bytes);
    let at = at.context("the symbol lies outside its section")?;
    Ok(usize::try_from(offset + at)?)
}

/// Writes the version into the plugin.
fn stamp(file: &mut [u8], version: Version) -> Result<()> {
    let at = place(file)?;
    let word = file
        .get_mut(at..at + 4)
        .context("the file ends before the symbol")?;
    word.copy_from_slice(&version.number().to_le_bytes());
    Ok(())
}

/// The version that a plugin is for.
pub fn stamped(file: &[u8]) -> Result<Version> {
    let at = place(file)?;
    let word = file.get(at..at + 4).context("the file ends before the symbol")?;
    Ok(Version::of(u32::from_le_bytes(word.try_into()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_slurm_says_them() {
        for (text, wanted) in [
            ("slurm 22.05.8", Some("22.05.8")),
            ("slurm-wlm 22.05.8\n", Some("22.05.8")),
            ("24.11", Some("24.11.0")),
            ("24.11.5-4", Some("24.11.5")),
            ("22.05.0rc1", Some("22.05.0")),
            ("slurm", None),
            ("22", None),
        ] {
            let read = text.parse::<Version>().ok().map(|version| version.to_string());
            assert_eq!(read.as_deref(), wanted, "{text}");
        }
        let version: Version = "22.05.8".parse().unwrap();
        assert_eq!(version.number(), 0x0016_0508);
        assert_eq!(Version::of(version.number()), version);
    }

    #[test]
    fn a_plugin_gets_a_version() {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("p.c"), folder.path().join("p.so"));
        std::fs::write(
            &source,
            "const char other[] = \"x\"; const unsigned plugin_version = 7;",
        )
        .unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        assert!(cc.status().unwrap().success());
        let mut file = std::fs::read(&library).unwrap();
        assert_eq!(stamped(&file).unwrap(), Version::of(7));
        let version: Version = "24.11.5".parse().unwrap();
        stamp(&mut file, version).unwrap();
        assert_eq!(stamped(&file).unwrap(), version);
        assert!(stamp(&mut file[..100], version).is_err());
    }
}
