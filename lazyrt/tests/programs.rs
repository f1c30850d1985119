//! The runtime under real programs, on software GPUs: CUDA's own rules one by one, tasks in all
//! arrangements, and programs drawn at random against a model of every byte. What holds natively is checked
//! natively too, so that the programs themselves are right.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use mgb_tests::node::Node;
use mgb_tests::prefix::bin;
use mgb_tests::process::Running;

/// One of `tests/programs`, built with the wrapper.
fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lazyrt-programs");
        std::fs::create_dir_all(&folder).expect("the test's folder can be made");
        for name in ["semantics", "tasks", "devices", "random"] {
            let mut command = Command::new(bin("mgb-clang++"));
            command.args(["--offload-arch=sm_90", "-O1", "-std=c++17"]);
            command.arg(sources.join(name).with_extension("cu"));
            command.arg("-o").arg(folder.join(name));
            Running::start(&mut command).end().success();
        }
        folder
    });
    folder.join(name)
}

/// Runs a case under MGB, and natively where it holds there too.
fn case(program_name: &str, name: &str, natively: bool) {
    let program = program(program_name);
    let node = Node::start("2x64MiB", "mgb");
    let run = |mode| {
        let mut command = node.command(&program, &[name]);
        Running::start(command.env("MGB", mode)).end().success()
    };
    if natively {
        run("off");
    }
    run("require");
    node.wait_until_empty();
}

macro_rules! cases {
    ($($program:ident: $($name:ident $(($native:ident))?),*;)*) => { $($(
        #[test]
        fn $name() {
            case(stringify!($program), stringify!($name), cases!(@ $($native)?));
        }
    )*)* };
    (@ native) => { true };
    (@) => { false };
}

cases! {
    semantics: addresses (native), recorded (native), copies (native), devices (native), streams (native),
        symbols (native), reset (native), forks (native), small_objects, information;
    tasks: loops (native), threads (native), beside (native), by_hand (native), refused;
    devices: spread (native), variables (native), workers (native), attributes (native), reset_one (native);
}

/// Plenty of memory: one process at a time, one thread and three.
#[test]
fn random_programs_keep_every_byte() {
    let program = program("random");
    let node = Node::start("2x256MiB", "mgb");
    for seed in 1..=6 {
        let threads = if seed % 2 == 0 { "3" } else { "1" };
        let mut command = node.command(&program, &[&seed.to_string(), "150", threads]);
        Running::start(command.env("MGB", "require")).end().success();
    }
    node.wait_until_empty();
}

/// Memory short: six at once on two small devices swap each other out and in.
#[test]
fn random_programs_that_swap_each_other_out_keep_every_byte() {
    let program = program("random");
    let node = Node::start("2x64MiB", "mgb");
    let running: Vec<Running> = (20..26)
        .map(|seed| {
            let mut command = node.command(&program, &[&seed.to_string(), "120", "2"]);
            Running::start(command.env("MGB", "require"))
        })
        .collect();
    for program in running {
        program.end().success();
    }
    node.wait_until_empty();
}
