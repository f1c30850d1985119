//! Sources that attack: written, built, and kept where they fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mgb_tests::generate::attack::{self, AttackSource, Features};
use mgb_tests::prefix::{bin, repository};
use mgb_tests::process::RunningProgram;

/// How long a compile may take on a busy machine.
const COMPILE_PATIENCE: Duration = Duration::from_secs(600);

/// A source that was built.
pub struct Built {
    pub seed: u64,
    pub level: &'static str,
    pub source: AttackSource,
    pub program: PathBuf,
    folder: PathBuf,
}

/// The level of optimisation of a seed's source.
pub fn level(seed: u64) -> &'static str {
    ["-O0", "-O2"][seed as usize % 2]
}

impl Built {
    /// Writes the source of a seed below `folder` and builds it; `assume` names what the pass does not prove
    /// in this compile.
    ///
    /// # Errors
    ///
    /// What the compiler said.
    pub fn new(folder: &Path, seed: u64, features: &Features, assume: Option<&str>) -> Result<Built, String> {
        let level = level(seed);
        let source = attack::source(seed, features);
        let folder = folder.join(format!("a{seed}{level}"));
        fs::create_dir_all(&folder).expect("a temporary folder can be written");
        let program = folder.join("program");
        let mut compiler = Command::new(bin("mgb-clang++"));
        compiler
            .args([
                "--offload-arch=sm_90",
                "-std=c++20",
                "-Wno-everything",
                level,
                "-I",
            ])
            .arg(repository().join("tests/generated"));
        compiler.env_remove("MGB_ASSUME");
        if let Some(assume) = assume {
            compiler.env("MGB_ASSUME", assume);
        }
        for (name, text) in [
            ("main.cu", Some(&source.main)),
            ("other.cu", source.other.as_ref()),
        ] {
            if let Some(text) = text {
                let path = folder.join(name);
                fs::write(&path, text).expect("a temporary file can be written");
                compiler.arg(path);
            }
        }
        compiler.arg("-o").arg(&program);
        let built = Built {
            seed,
            level,
            source,
            program,
            folder,
        };
        match RunningProgram::start(&mut compiler).try_end_within(COMPILE_PATIENCE) {
            Ok(ended) if ended.status.success() => Ok(built),
            Ok(ended) | Err(ended) => Err(built.keep(&format!("does not build: {}", ended.stderr))),
        }
    }

    /// Removes what was built.
    pub fn forget(self) {
        let _ = fs::remove_dir_all(&self.folder);
    }

    /// Copies the source and the program to where they stay, with `why`; what to say of it.
    pub fn keep(&self, why: &str) -> String {
        let place = failed().join(format!("a{}{}", self.seed, self.level));
        fs::create_dir_all(&place).expect("the target folder can be written");
        for file in ["main.cu", "other.cu", "program"] {
            let from = self.folder.join(file);
            if from.exists() {
                fs::copy(from, place.join(file)).expect("the target folder can be written");
            }
        }
        let (_, names) = crate::settings::features();
        let features: Vec<String> = self.source.features.iter().map(Features::to_string).collect();
        let text = format!(
            "seed {} at {}: {why}\nfeatures of its programs: {}\nkept in {}\nrepeat: MGB_GENERATED_FIRST={} MGB_GENERATED_SOURCES=1 \
             MGB_GENERATED_FEATURES={names} make attack-test\n",
            self.seed,
            self.level,
            features.join("; "),
            place.display(),
            self.seed,
        );
        fs::write(place.join("why.txt"), &text).expect("the target folder can be written");
        text
    }
}

/// The folder with the sources that failed.
fn failed() -> PathBuf {
    let program = std::env::current_exe().expect("has a path");
    let profile = program
        .parent()
        .and_then(Path::parent)
        .expect("lies in target/PROFILE/deps");
    profile.join("mgb-generated-failed")
}
