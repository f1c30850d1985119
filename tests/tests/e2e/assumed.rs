//! Programs built with proofs of the pass taken for granted (`MGB_ASSUME`), and played under evictions: what
//! a wrong proof costs shows.

use std::path::{Path, PathBuf};

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::bin;
use mgb_tests::process::{Ended, RunningProgram, command, run};

/// Builds a source of this folder.
pub fn build(node: &PrivateNode, source: &str, level: &str, assumed: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/e2e")
        .join(source);
    let name = source.file_stem().expect("a file has a name").to_string_lossy();
    let program = node.folder().join(format!("{name}{level}{assumed}"));
    let mut compile = command(bin("mgb-clang++"), &["--offload-arch=sm_90", "-std=c++17", level]);
    compile
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .env("MGB_ASSUME", assumed);
    run(&mut compile).success();
    program
}

/// Plays a way of the program, whose memory leaves the GPU every few milliseconds.
pub fn play(node: &PrivateNode, program: &Path, way: &str) -> Ended {
    let mut command = node.command(program, &[way]);
    RunningProgram::start(command.env("MGB", "require").env("MGB_EVICT_EVERY", "3")).end()
}
