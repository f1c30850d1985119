//! cuBLAS on software GPUs: the library in `blas/`, called by programs that hold it against the host's own
//! loops, natively and under MGB, rebuilt or not.

use std::path::PathBuf;
use std::process::Command;

use mgb_tests::compiled;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{repository, softgpu_libraries};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::trace;

const PROGRAMS: [&str; 3] = ["vectors", "matrices", "order"];

/// A program, linked with the library by its plain name.
fn program(name: &str) -> PathBuf {
    let source = repository().join("tests/tests/blas").join(format!("{name}.cu"));
    let folder = format!("-L{}", softgpu_libraries().display());
    compiled::program(&source, &["-O1", "-std=c++17", &folder, "-lcublas"])
}

fn passes(command: &mut Command) {
    let output = RunningProgram::start(command).end().success();
    assert_eq!(output, "PASS\n");
}

#[test]
fn natively() {
    let node = PrivateNode::without_mgbd("1x256MiB");
    for name in PROGRAMS {
        passes(node.command(program(name), &[]).env("MGB", "off"));
    }
}

#[test]
fn under_mgb() {
    let node = PrivateNode::start("1x256MiB", "mgb");
    for name in PROGRAMS {
        passes(node.command(program(name), &[]).env("MGB", "require"));
    }
    node.wait_until_empty();
}

/// With the driver front before the software GPU's libraries: the calls are its.
#[test]
fn under_mgb_run() {
    let node = PrivateNode::start("2x256MiB", "mgb");
    let file = node.folder().join("trace");
    for name in PROGRAMS {
        let program = program(name).display().to_string();
        passes(node.mgb(&["run", &program]).env("MGB_TRACE", &file));
    }
    for process in trace::read(&file).unwrap() {
        assert_eq!(
            process.open.as_deref(),
            Some("libcublas.so.13 uses CUDA by itself")
        );
        let task = &process.tasks[0];
        assert!(task.launches > Some(20) && task.seen_peak > 0, "{process:?}");
    }
    let all = PROGRAMS.map(|name| {
        let program = program(name).display().to_string();
        RunningProgram::start(&mut node.mgb(&["run", &program]))
    });
    for running in all {
        assert_eq!(running.end().success(), "PASS\n");
    }
    node.wait_until_empty();
}

/// Each holds a half of what it wants when it asks for the other: some have to swap.
#[test]
fn products_are_right_while_memory_is_short() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = program("pressure").display().to_string();
    let all: Vec<RunningProgram> = (0..3)
        .map(|_| RunningProgram::start(&mut node.mgb(&["run", &program])))
        .collect();
    for running in all {
        assert_eq!(running.end().success(), "PASS\n");
    }
    node.wait_until_empty();
}

/// Where times depend on nothing but the work.
#[test]
fn device_time_grows_with_the_work() {
    let node = PrivateNode::without_mgbd("1x256MiB");
    let mut command = node.command(program("order"), &["times"]);
    passes(command.env("MGB", "off").env("SOFTGPU_SEED", "1"));
}

/// What a kernel of the library touches is checked as any kernel's.
#[test]
fn memory_that_is_not_there_is_a_fault_of_the_device() {
    let node = PrivateNode::without_mgbd("1x256MiB");
    let ended = run(node.command(program("order"), &["faults"]).env("MGB", "off"));
    assert_eq!(ended.stdout, "PASS\n", "{ended:?}");
    assert!(ended.stderr.contains("cublas: level3::gemm::Gemm"), "{ended:?}");
}

/// Programs that NVIDIA's library was linked with ask for functions of its version.
#[test]
fn functions_have_the_version_of_nvidias() {
    let library = softgpu_libraries().join("libcublas.so.13");
    let listed = run(Command::new("readelf")
        .args(["--dyn-syms", "--wide"])
        .arg(library));
    let listed = listed.success();
    let exported = |line: &&str| line.contains(" GLOBAL DEFAULT ") && !line.contains(" UND ");
    let functions: Vec<&str> = listed
        .lines()
        .filter(exported)
        .filter_map(|line| line.split_whitespace().nth(7))
        .collect();
    assert!(functions.iter().any(|name| name.starts_with("cublasSgemm_v2@")));
    for name in functions {
        let right =
            name == "libcublas.so.13" || name.starts_with("cublas") && name.ends_with("@@libcublas.so.13");
        assert!(right, "{name}");
    }
}
