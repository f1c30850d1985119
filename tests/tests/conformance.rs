//! The conformance set on softgpu: every case as a real GPU recorded it, natively and under MGB.

use std::fs;
use std::path::Path;
use std::process::Command;

use mgb_probe::Client;
use mgb_tests::conformance::{ConformanceProgram, ProgramOutput, parse, programs, with_table, wrong};
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{prefix, repository, softgpu_libraries};
use mgb_tests::process::RunningProgram;
use mgb_tests::{built, plain};

/// A case waits for nothing, and some programs have fifty.
const PROGRAM_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(240);

fn command(node: &PrivateNode, program: &ConformanceProgram, mode: &str, order: &str) -> Command {
    command_in(&built::conformance(), node, program, mode, order)
}

/// Of the programs in this folder.
fn command_in(
    folder: &Path,
    node: &PrivateNode,
    program: &ConformanceProgram,
    mode: &str,
    order: &str,
) -> Command {
    let path = folder.join(&program.name);
    let mut command = node.command(path, &[]);
    command.env("MGB", mode).env("SOFTGPU_TIME", "off");
    command.env("SOFTGPU_ORDER", order).envs(program.model());
    command
}

fn run(command: &mut Command) -> ProgramOutput {
    parse(
        &RunningProgram::start(command)
            .end_within(PROGRAM_TIMEOUT)
            .success(),
    )
}

fn check(command: impl Fn(&ConformanceProgram) -> Command) {
    let wrong: Vec<String> = programs()
        .iter()
        .flat_map(|program| wrong(program, &run(&mut command(program))))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn all(node: &PrivateNode, mode: &str, order: &str) {
    check(|program| command(node, program, mode, order));
}

/// The same, with the driver front before the software GPU's libraries: the runtime calls that.
fn all_behind_the_front(node: &PrivateNode, mode: &str) {
    let path = std::env::join_paths([prefix().join("lib/front"), softgpu_libraries()]).unwrap();
    check(|program| {
        let mut command = command(node, program, mode, "");
        command.env("LD_LIBRARY_PATH", &path);
        command
    });
}

#[test]
fn natively() {
    all(&PrivateNode::without_mgbd("1x2GiB"), "off", "");
}

#[test]
fn natively_behind_the_front() {
    all_behind_the_front(&PrivateNode::without_mgbd("1x2GiB"), "off");
}

#[test]
fn under_mgb_behind_the_front() {
    let node = PrivateNode::start("1x2GiB", "mgb");
    all_behind_the_front(&node, "require");
    node.wait_until_empty();
}

/// Programs that were not rebuilt, whose memory the front has in its arena. Those that ask the most of it.
#[test]
fn plain_programs_behind_the_front() {
    let node = PrivateNode::start("1x2GiB", "mgb");
    let path = std::env::join_paths([prefix().join("lib/front"), softgpu_libraries()]).unwrap();
    let asks = |program: &&ConformanceProgram| program.name.starts_with("api_");
    // mgbd shows what has changed before it greets one that looks.
    let granted = || {
        drop(Client::observe(&node.socket()).unwrap());
        node.view().counts.granted
    };
    for program in programs().iter().filter(asks) {
        let before = granted();
        let source = repository().join("tests/conformance").join(&program.name);
        let plain = plain::program(&source.with_extension("cu"), &["-O1"]);
        let mut command = node.command(plain, &[]);
        command.env("MGB", "require").env("SOFTGPU_TIME", "off");
        let wrong = wrong(program, &run(command.env("LD_LIBRARY_PATH", &path)));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(granted() > before, "{}: no session", program.name);
    }
    node.wait_until_empty();
}

/// Programs whose kernels have twins, which nobody runs.
#[test]
fn natively_with_twins() {
    let node = PrivateNode::without_mgbd("1x2GiB");
    let folder = built::conformance_with_twins();
    check(|program| command_in(&folder, &node, program, "off", ""));
}

/// Each kernel that has a twin is run by it, stopped and continued at random. The launch waits for its kernel
/// then: it reports a fault itself, and no stream is busy behind it.
#[test]
fn stopped_at_random() {
    const AT_THE_LAUNCH: [&str; 4] = ["trap", "assertion", "illegal_address", "busy_stream_is_not_ready"];
    let node = PrivateNode::start("1x2GiB", "mgb");
    let folder = built::conformance_with_twins();
    let mut all = programs();
    let wrong: Vec<String> = all
        .iter_mut()
        .flat_map(|program| {
            let mut command = command_in(&folder, &node, program, "require", "");
            let mut found = run(command.env("MGB_STOP_EVERY", "0.05"));
            for case in AT_THE_LAUNCH {
                found.remove(case);
                program
                    .recorded
                    .iter_mut()
                    .for_each(|recorded| drop(recorded.remove(case)));
            }
            wrong(program, &found)
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    node.wait_until_empty();
}

/// What is right on a GPU depends on no order.
#[test]
fn in_any_order() {
    for order in ["reverse", "1", "2"] {
        all(&PrivateNode::without_mgbd("1x2GiB"), "off", order);
    }
}

#[test]
fn under_mgb() {
    let node = PrivateNode::start("1x2GiB", "mgb");
    all(&node, "require", "");
    node.wait_until_empty();
}

#[test]
fn the_table_is_current() {
    let file = repository().join("docs/SOFTGPU.md");
    let kept = fs::read_to_string(&file).expect("docs/SOFTGPU.md can be read");
    assert_eq!(
        kept,
        with_table(&kept),
        "docs/SOFTGPU.md is not current: run `make support`"
    );
}
