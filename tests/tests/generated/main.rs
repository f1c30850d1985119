//! Generated sources (`mgb_tests::generate`) through the wrapper, at every level of optimisation: their
//! checksums under MGB are those of the same sources as programs without CUDA. Natively they are as well, so
//! that a difference is MGB's.
//!
//! `make test` plays a few sources, `make random-test` forty, of five programs each
//! (`MGB_GENERATED_SOURCES`).
//!
//! `attacks` plays sources that attack the pass, `mutations` shows that they find what the pass does not prove.

mod arrangements;
mod attacks;
mod mutations;
mod settings;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mgb_tests::built::LEVELS;
use mgb_tests::generate;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, repository};
use mgb_tests::process::RunningProgram;

const STEP_TIMEOUT: Duration = Duration::from_secs(300);
/// So many tasks have moved at the end.
const MOVES: u64 = 4;

fn compile(compiler: &mut Command, source: &Path, program: &Path) {
    compiler
        .args(["-std=c++17", "-Wno-everything", "-I"])
        .arg(repository().join("tests/generated"))
        .arg(source)
        .arg("-o")
        .arg(program);
    RunningProgram::start(compiler).end_within(STEP_TIMEOUT).success();
}

/// Builds a source both ways; what it must print, and the program.
fn build(folder: &Path, seed: u64) -> (String, PathBuf) {
    let source = folder.join(format!("g{seed}.cu"));
    fs::write(&source, generate::source(seed)).expect("a temporary file can be written");
    let on_host = folder.join(format!("h{seed}"));
    compile(
        Command::new("clang++-22").args(["-x", "c++", "-DON_HOST", "-O1"]),
        &source,
        &on_host,
    );
    let expected = RunningProgram::start(&mut Command::new(&on_host))
        .end_within(STEP_TIMEOUT)
        .success();
    let program = folder.join(format!("g{seed}"));
    let level = LEVELS[seed as usize % LEVELS.len()];
    compile(
        Command::new(bin("mgb-clang++")).args(["--offload-arch=sm_90", level]),
        &source,
        &program,
    );
    (expected, program)
}

#[test]
fn generated_sources_give_their_checksums() {
    let sources = settings::sources(4);
    let node = PrivateNode::start("2x128MiB", "mgb");
    // Kernels of microseconds would end before anything moves.
    let mut moving = PrivateNode::without_mgbd("2x128MiB:slow=80");
    moving.start_mgbd_with("mgb", &["--move-every", "1"]);
    let moving = &moving;
    let built = Mutex::new(Vec::new());
    let move_about = |(seed, expected, program): &(u64, String, PathBuf)| {
        let mut command = moving.command(program, &[]);
        let output = RunningProgram::start(command.env("MGB", "require")).end_within(STEP_TIMEOUT);
        assert_eq!(&output.success(), expected, "seed {seed} while its tasks move");
    };
    let next = AtomicU64::new(1);
    // Two at a time: most of it is compiling.
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > sources {
                        break;
                    }
                    let (expected, program) = build(node.folder(), seed);
                    let run = |what: &str, command: &mut Command| {
                        let output = RunningProgram::start(command).end_within(STEP_TIMEOUT).success();
                        assert_eq!(output, expected, "seed {seed} {what}");
                    };
                    let plain = |mode: &str| {
                        let mut command = node.command(&program, &[]);
                        command.env("MGB", mode).env("SOFTGPU_TIME", "off");
                        command
                    };
                    run("natively", &mut plain("off"));
                    run("under MGB", &mut plain("require"));
                    run(
                        "while its memory leaves",
                        plain("require").env("MGB_EVICT_EVERY", "4"),
                    );
                    // Apart from that: memory that has left has nothing to move.
                    let program = (seed, expected, program);
                    move_about(&program);
                    built.lock().unwrap().push(program);
                }
            });
        }
    });
    node.wait_until_empty();
    // Whether an order to move reaches a task before it ends is chance, on a busy host a rare one.
    let built = built.into_inner().unwrap();
    let since = Instant::now();
    let moved = || moving.view().counts.moved;
    while moved() < MOVES && since.elapsed() < STEP_TIMEOUT {
        built.iter().for_each(move_about);
    }
    moving.wait_until_empty();
    let counts = moving.view().counts;
    assert!(counts.moved >= MOVES, "{counts:?}");
}
