//! Single sources, compiled with the wrapper once and shared by all tests: each test runs in a process of its
//! own, and several may want the same program at the same time.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::built::{cache, fingerprint};
use crate::prefix::bin;
use crate::process::RunningProgram;

/// The program that `mgb clang++` makes of `source` with `flags`. It is kept until the wrapper, the pass, the
/// flags or a file of the source's folder change.
///
/// # Panics
///
/// When it cannot be compiled; the message has what the compiler said.
pub fn program<F: AsRef<OsStr>>(source: &Path, flags: &[F]) -> PathBuf {
    let compiler = current();
    let folder = compiler.join(format!("{:016x}", key(source, flags)));
    let program = folder.join(source.file_stem().expect("a source has a name"));
    fs::create_dir_all(&folder).expect("the target folder can be written");
    let lock = File::create(folder.join(".lock")).expect("the target folder can be written");
    lock.lock().expect("can be locked");
    if !program.exists() {
        // Half a program, of a test that was killed, has another name.
        let half = folder.join(".new");
        let mut compile = Command::new(bin("mgb-clang++"));
        compile.arg(source).arg("-o").arg(&half).args(flags);
        RunningProgram::start(&mut compile).end().success();
        fs::rename(&half, &program).expect("the target folder can be written");
    }
    program
}

/// The folder of what this compiler has made. What another one made is removed when it is new.
fn current() -> PathBuf {
    let all = cache("mgb-compiled");
    let folder = all.join(fingerprint());
    if !folder.exists() {
        fs::create_dir_all(&all).expect("the target folder can be written");
        let lock = File::create(all.join(".lock")).expect("the target folder can be written");
        lock.lock().expect("can be locked");
        if !folder.exists() {
            for entry in fs::read_dir(&all).expect("can be read").flatten() {
                if entry.path().is_dir() {
                    fs::remove_dir_all(entry.path()).expect("can be removed");
                }
            }
            fs::create_dir(&folder).expect("the target folder can be written");
        }
    }
    folder
}

/// Changes with everything but the compiler that the program is made from. Headers lie beside sources.
fn key<F: AsRef<OsStr>>(source: &Path, flags: &[F]) -> u64 {
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    for flag in flags {
        flag.as_ref().hash(&mut hasher);
    }
    let beside = fs::read_dir(source.parent().expect("a source is in a folder")).expect("can be read");
    let is_part = |path: &PathBuf| path == source || path.extension().is_some_and(|e| e == "h" || e == "cuh");
    let mut parts: Vec<PathBuf> = beside
        .flatten()
        .map(|entry| entry.path())
        .filter(is_part)
        .collect();
    parts.sort();
    for part in parts {
        fs::read(&part)
            .unwrap_or_else(|e| panic!("{}: {e}", part.display()))
            .hash(&mut hasher);
    }
    hasher.finish()
}
