//! Programs with several devices, under MGB as natively.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, repository};
use mgb_tests::process::run;
use mgb_tests::trace::{self, TracedTask};

/// A program of these files of this folder.
fn build(node: &PrivateNode, sources: &[&str]) -> PathBuf {
    let folder = repository().join("tests/tests/e2e/devices");
    let program = node.folder().join("program");
    let mut compile = node.command(bin("mgb-clang++"), &["-O1", "-o"]);
    compile.arg(&program).arg("-ldl");
    compile.args(sources.iter().map(|source| folder.join(source)));
    run(&mut compile).success();
    program
}

/// Runs one natively and under MGB, where it is right both times. The tasks that it had.
fn passes(node: &PrivateNode, sources: &[&str], arguments: &[&str]) -> Vec<TracedTask> {
    let program = build(node, sources);
    let file = node.folder().join("trace");
    for mode in ["off", "require"] {
        let _ = std::fs::remove_file(&file);
        let mut command = node.command(&program, arguments);
        let ended = run(command.env("MGB", mode).env("MGB_TRACE", &file));
        assert_eq!(ended.success(), "PASS\n", "with MGB={mode}");
    }
    let mut processes = trace::read(&file).expect("the trace can be read");
    processes.pop().expect("there is a line").tasks
}

/// The GPUs that these tasks were on.
fn gpus<'a>(tasks: impl IntoIterator<Item = &'a TracedTask>) -> BTreeSet<u32> {
    tasks.into_iter().filter_map(|task| task.gpu).collect()
}

#[test]
fn handles_outlive_the_reset_of_another_device() {
    passes(&PrivateNode::start("2x256MiB", "mgb"), &["handles.cu"], &[]);
}

#[test]
fn an_open_process_has_a_gpu_for_each_device() {
    let tasks = passes(&PrivateNode::start("2x256MiB", "mgb"), &["open.cu"], &[]);
    assert_eq!(gpus(&tasks).len(), 2, "{tasks:?}");
}

#[test]
fn a_loop_over_devices_has_a_gpu_for_each() {
    for devices in [2, 4] {
        let tasks = passes(
            &PrivateNode::start(&format!("{devices}x256MiB"), "mgb"),
            &["loops.cu"],
            &[],
        );
        assert_eq!(gpus(&tasks).len(), devices, "{tasks:?}");
    }
}

/// What the pass takes for one task on one device: at run time each device has its own part of it.
#[test]
fn a_device_chosen_in_another_file_has_a_gpu_of_its_own() {
    for megabytes in ["8", "150"] {
        let sources = ["elsewhere/main.cu", "elsewhere/choose.cu"];
        let tasks = passes(&PrivateNode::start("2x256MiB", "mgb"), &sources, &[megabytes]);
        assert_eq!(gpus(&tasks).len(), 2, "{tasks:?}");
    }
}

#[test]
fn static_tasks_under_two_devices_are_on_two_gpus() {
    let tasks = passes(&PrivateNode::start("2x256MiB", "mgb"), &["apart.cu"], &[]);
    let fixed: Vec<&TracedTask> = tasks.iter().filter(|task| !task.lazy).collect();
    assert_eq!(fixed.len(), 2, "{tasks:?}");
    assert_eq!(gpus(fixed).len(), 2, "{tasks:?}");
}

/// Devices that one thread drives in turn work at once: their modelled time is as natively.
#[test]
fn one_thread_has_two_devices_work_at_once() {
    let node = PrivateNode::start("2x256MiB", "mgb");
    let program = build(&node, &["turns.cu"]);
    for copy in ["default", "peer", "push"] {
        let [natively, shared] = ["off", "require"].map(|mode| {
            let mut command = node.command(&program, &["2", copy]);
            let printed = run(command.env("MGB", mode).env("SOFTGPU_SEED", "1")).success();
            let (sum, time) = printed.trim().split_once(' ').expect("two figures");
            (sum.to_owned(), time.parse::<f64>().expect("milliseconds"))
        });
        assert_eq!(shared.0, natively.0, "{copy}");
        assert!(
            shared.1 < 1.4 * natively.1,
            "{copy}: {} ms under MGB, {} natively",
            shared.1,
            natively.1
        );
    }
}

/// Where mgbd shares one GPU of two, a program has that one device. With two on one GPU, one's variables
/// would be the other's.
#[test]
fn a_program_has_no_more_devices_than_mgbd_shares() {
    let mut node = PrivateNode::without_mgbd("2x256MiB");
    let mut mgbd = node.mgbd(&["--policy", "mgb"]);
    node.start_mgbd_as(mgbd.env("CUDA_VISIBLE_DEVICES", "1"));
    let source = node.write(
        "count.cu",
        "#include <cstdio>\nint main() { int n = -1; cudaFree(0); cudaGetDeviceCount(&n); printf(\"%d\\n\", n); \
         printf(\"%d\\n\", cudaSetDevice(1)); }\n",
    );
    let program = node.folder().join("count");
    let mut compile = node.command(bin("mgb-clang++"), &["-O1", "-o"]);
    run(compile.arg(&program).arg(&source)).success();
    for (mode, printed) in [("off", "2\n0\n"), ("require", "1\n101\n")] {
        let mut command = node.command(&program, &[]);
        assert_eq!(
            run(command.env("MGB", mode)).success(),
            printed,
            "with MGB={mode}"
        );
    }
}
