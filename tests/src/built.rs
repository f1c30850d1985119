//! The examples, built with the wrapper. They are kept from one test run to the next, until the wrapper, the
//! pass or a source changes.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use std::{collections::BTreeMap, env};

use crate::directives::Directives;
use crate::prefix::{bin, prefix, repository};
use crate::process::{RunningProgram, run};

/// Every optimisation level. To the pass, which runs first, all but `-O0` look much alike.
pub const LEVELS: [&str; 4] = ["-O0", "-O1", "-O2", "-O3"];

/// How long building all examples may take, on a machine that is busy with other things.
const BUILD_PATIENCE: Duration = Duration::from_secs(600);

/// An example's source.
#[derive(Debug, Clone)]
pub struct Example {
    /// Its name, which is its program's as well.
    pub name: String,
    /// The file that carries the directives.
    pub source: PathBuf,
    /// What it says.
    pub directives: Directives,
}

/// All examples that tests run, in the order of their names.
///
/// # Panics
///
/// When one carries directives that cannot be read.
pub fn examples() -> Vec<Example> {
    let folder = repository().join("examples");
    let mut sources = BTreeMap::new();
    for entry in fs::read_dir(&folder).expect("examples/ can be read") {
        let path = entry.expect("examples/ can be read").path();
        let name = path
            .file_stem()
            .expect("has a name")
            .to_string_lossy()
            .into_owned();
        if path.extension().is_some_and(|e| e == "cu") {
            sources.insert(name, path);
        } else if path.join("main.cu").exists() {
            sources.insert(name, path.join("main.cu"));
        }
    }
    let mut examples = Vec::new();
    for (name, source) in sources {
        let directives = Directives::read(&source).unwrap_or_else(|e| panic!("{e:#}"));
        if !directives.cases.is_empty() {
            examples.push(Example {
                name,
                source,
                directives,
            });
        }
    }
    examples
}

/// The folder with all examples built at `level`. Built at the first call of any test.
///
/// # Panics
///
/// When the build fails; the message has make's output.
pub fn at(level: &'static str) -> PathBuf {
    static DONE: OnceLock<Mutex<BTreeMap<&'static str, PathBuf>>> = OnceLock::new();
    let mut done = DONE
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(|e| e.into_inner());
    if let Some(folder) = done.get(level) {
        return folder.clone();
    }
    let folder = cache("mgb-examples").join(level.trim_start_matches('-'));
    build(&folder, &mut make("examples", level, &folder));
    done.insert(level, folder.clone());
    folder
}

/// One example built at the default level.
pub fn program(name: &str) -> PathBuf {
    at("-O1").join(name)
}

/// The folder with the programs of the conformance set. Built at the first call of any test.
///
/// # Panics
///
/// When the build fails; the message has make's output.
pub fn conformance() -> PathBuf {
    static DONE: OnceLock<PathBuf> = OnceLock::new();
    DONE.get_or_init(|| conformance_as("mgb-conformance", "-O1"))
        .clone()
}

/// The compiler's flags for AddressSanitizer.
pub const ASAN: &str = "-O1 -g -fsanitize=address -fno-omit-frame-pointer";

/// The same, instrumented by AddressSanitizer.
///
/// # Panics
///
/// When the build fails; the message has make's output.
pub fn conformance_with_asan() -> PathBuf {
    conformance_as("mgb-conformance-asan", ASAN)
}

/// The same, whose kernels have twins.
///
/// # Panics
///
/// When the build fails; the message has make's output.
pub fn conformance_with_twins() -> PathBuf {
    conformance_as("mgb-conformance-twins", "-O1 --mgb-parts")
}

/// The folder with the interpreters of random programs. Built at the first call of a test.
///
/// # Panics
///
/// When the build fails; the message has make's output.
pub fn random() -> PathBuf {
    let folder = cache("mgb-random");
    build(&folder, &mut make("tests/random", "-O1", &folder));
    folder
}

/// The folder with the matrix's program in its three kinds. Built at the first call of a test.
///
/// # Panics
///
/// When the build fails; the message has make's output.
pub fn matrix() -> PathBuf {
    let folder = cache("mgb-matrix");
    build(&folder, &mut make("tests/matrix", "-O1", &folder));
    folder
}

/// The folder with the programs of Thrust and CUB; none where this CUDA lacks their headers. Built at the
/// first call of a test.
///
/// # Panics
///
/// When the build fails; the message has make's output.
pub fn libraries() -> Option<PathBuf> {
    if !prefix().join("cuda/include/cccl/thrust").exists() {
        return None;
    }
    let folder = cache("mgb-libraries");
    // Of the others only real GPUs can run the code.
    build(
        &folder,
        make("tests/libraries", "-O1", &folder).args(["ONLY=thrust cub", "CUDA_LIBRARIES=/nonexistent"]),
    );
    Some(folder)
}

/// The folder with the workloads of the evaluation. Built at the first call of a test.
///
/// # Panics
///
/// When the build fails; the message has make's output.
pub fn workloads() -> PathBuf {
    static DONE: OnceLock<PathBuf> = OnceLock::new();
    DONE.get_or_init(|| {
        let folder = cache("mgb-workloads");
        build(&folder, &mut make("benches", "-O2", &folder));
        folder
    })
    .clone()
}

fn conformance_as(name: &str, flags: &str) -> PathBuf {
    let folder = cache(name);
    build(&folder, &mut make("tests/conformance", flags, &folder));
    folder
}

/// A program of the driver front's tests, in the driver API and without MGB, built in the folder.
///
/// # Panics
///
/// When the build fails.
pub fn driver_program(name: &str, folder: &Path) -> PathBuf {
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-I"]).arg(prefix().join("cuda/include"));
    cc.arg(repository().join(format!("front/tests/programs/{name}.c")));
    cc.arg(prefix().join("lib/front/libcuda.so.1"));
    run(cc.args(["-ldl", "-lpthread", "-o"]).arg(&program)).success();
    program
}

/// A make command on programs of this repository, with the wrapper as the compiler.
pub fn make(sources: &str, flags: &str, folder: &Path) -> Command {
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(repository().join(sources))
        .args(["-j2", "--no-print-directory"]);
    make.arg(format!("CXX={}", bin("mgb-clang++").display()));
    make.arg(format!("CXXFLAGS={flags}"))
        .arg(format!("OUT={}", folder.display()));
    // A jobserver or flags of an outer `make test` are not for this one.
    make.env_remove("MAKEFLAGS")
        .env_remove("MAKELEVEL")
        .env_remove("MFLAGS");
    make
}

fn build(folder: &Path, make: &mut Command) {
    fs::create_dir_all(folder).expect("the target folder can be written");
    let stamp = folder.join(".compiler");
    let lock = File::create(folder.join(".lock")).expect("the target folder can be written");
    lock.lock().expect("can be locked");
    let compiler = fingerprint();
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&compiler) {
        remove_programs(folder);
        fs::write(&stamp, &compiler).expect("the target folder can be written");
    }
    RunningProgram::start(make).end_within(BUILD_PATIENCE).success();
}

/// Removes everything but the lock.
fn remove_programs(folder: &Path) {
    for entry in fs::read_dir(folder).expect("can be read") {
        let path = entry.expect("can be read").path();
        if path.is_file() && path.file_name().is_some_and(|n| n != ".lock") {
            fs::remove_file(path).expect("can be removed");
        }
    }
}

/// Changes whenever the wrapper or the pass does. `make build` leaves files alone that are as they were, with
/// their times.
pub(crate) fn fingerprint() -> String {
    let mut hasher = DefaultHasher::new();
    for file in ["bin/mgb", "lib/libmgb_pass.so"] {
        let path = prefix().join(file);
        let metadata = fs::metadata(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let changed = metadata.modified().expect("files have times here");
        (metadata.len(), changed).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// A folder of cargo's target folder, found from where this test program lies in it.
pub(crate) fn cache(name: &str) -> PathBuf {
    let program = env::current_exe().expect("has a path");
    let profile = program
        .parent()
        .and_then(Path::parent)
        .expect("lies in target/PROFILE/deps");
    profile.join(name)
}
