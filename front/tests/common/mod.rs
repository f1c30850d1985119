//! What tests of the front share: programs in C, built against the front, and a node to run them on.

// Each test program uses its own part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mgb_probe::Client;
use mgb_probe::view::NodeView;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{prefix, softgpu_libraries};
use mgb_tests::process::{RunningProgram, run};

/// The folder with the front, as `mgb run` puts it first.
pub fn front() -> PathBuf {
    prefix().join("lib/front")
}

/// A file of `tests/programs`.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

/// Builds a C source; `output` is a path below this test's folder. Each test builds what it needs in a folder
/// of its own, so that none waits for another.
pub fn compile(name: &str, output: &Path, flags: &[&str]) {
    std::fs::create_dir_all(output.parent().expect("a folder")).unwrap();
    let done = run(Command::new("cc")
        .args(["-O1", "-Wall", "-Werror", "-Wno-deprecated-declarations", "-I"])
        .arg(prefix().join("cuda/include"))
        .arg(source(name))
        .args(flags)
        .arg("-o")
        .arg(output));
    assert_eq!(done.code(), 0, "{done:?}");
}

/// The folder of a test.
pub fn folder(test: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("front").join(test)
}

/// A program linked with the front, as one that was linked with the driver's stub is.
pub fn program(name: &str, folder: &Path) -> PathBuf {
    let output = folder.join(name.trim_end_matches(".c"));
    let library = front().join("libcuda.so.1").display().to_string();
    compile(name, &output, &[&library, "-ldl", "-lpthread"]);
    output
}

/// A program with the front first, on a node with software GPUs and an mgbd.
pub fn on(node: &PrivateNode, program: &Path, arguments: &[&str]) -> Command {
    on_behind(node, program, arguments, &front())
}

/// A program on a node, with `first` before the software GPUs' libraries.
pub fn on_behind(node: &PrivateNode, program: &Path, arguments: &[&str], first: &Path) -> Command {
    let path = std::env::join_paths([first.to_owned(), softgpu_libraries()]).unwrap();
    let mut command = node.command(program, arguments);
    command.env("LD_LIBRARY_PATH", path).stdin(Stdio::null());
    command
}

/// The node as it is now: mgbd shows what has changed before it greets one that looks.
pub fn view(node: &PrivateNode) -> NodeView {
    drop(Client::observe(&node.socket()).unwrap());
    node.view()
}

/// Whoever needs more than is free waits for it instead of failing: the program takes memory in a way, as
/// `holds.c` does.
pub fn waits_for_room(program: &Path, way: &str) {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let start = |mode| {
        let mut command = on(&node, program, &[way, "1", "40", "600"]);
        RunningProgram::start(command.env("MGB", mode))
    };
    let natively = [start("off"), start("off")].map(|running| running.end().code());
    assert!(natively.contains(&1), "both fit natively, so this shows nothing");
    for ended in [start("require"), start("require"), start("require")].map(RunningProgram::end) {
        assert!(ended.stdout.ends_with("PASS\n"), "{ended:?}");
    }
    node.wait_until_empty();
}
