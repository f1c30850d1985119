//! The driver front under programs in the runtime API that were not built with MGB, on software GPUs. The
//! software GPU's runtime goes through the driver's functions where a front is before it, as NVIDIA's does.

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::softgpu_libraries;
use mgb_tests::process::{Ended, RunningProgram, run};
use mgb_tests::wait;

use common::{compile, folder, front, on_behind};

const TWO: &str = "2x64MiB";

/// The folder of a test.
fn runtime_folder(test: &str) -> PathBuf {
    folder(&format!("runtime-{test}"))
}

/// A program linked with the runtime alone.
fn program(name: &str, folder: &Path, flags: &[&str]) -> PathBuf {
    let output = folder.join(name.trim_end_matches(".c"));
    let library = softgpu_libraries().join("libcudart.so.13").display().to_string();
    compile(name, &output, &[&[library.as_str()], flags].concat());
    output
}

/// Has the null stream be the thread's own default stream.
const OWN: &str = "-DCUDA_API_PER_THREAD_DEFAULT_STREAM";

/// What the program does where there is no front.
fn natively(node: &PrivateNode, program: &Path) -> Ended {
    let ended = run(node.command(program, &[]).env("MGB", "off"));
    assert_eq!(ended.code(), 0, "{ended:?}");
    ended
}

fn same_behind_the_front(test: &str, flags: &[&str]) {
    let program = program("runtime.c", &runtime_folder(test), flags);
    let node = PrivateNode::start(TWO, "mgb");
    let expected = natively(&node, &program);
    let passed_on = run(on_behind(&node, &program, &[], &front()).env("MGB", "off"));
    assert_eq!(passed_on.stdout, expected.stdout);
    assert_eq!((passed_on.code(), &passed_on.stderr), (0, &expected.stderr));
    let charged = run(on_behind(&node, &program, &[], &front()).env("MGB", "require"));
    assert_eq!(charged.stdout, expected.stdout);
    assert_eq!(charged.code(), 0, "{charged:?}");
    node.wait_until_empty();
}

#[test]
fn the_runtime_does_the_same_behind_the_front() {
    same_behind_the_front("same", &[]);
}

#[test]
fn the_runtime_does_the_same_with_own_default_streams() {
    same_behind_the_front("same-own", &[OWN]);
}

/// The functions that have no form for the thread's own default stream.
const WITHOUT_STREAM: [&str; 31] = [
    "cuArray3DCreate",
    "cuArrayDestroy",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxReset",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceSetMemPool",
    "cuDriverGetVersion",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuInit",
    "cuIpcCloseMemHandle",
    "cuIpcGetEventHandle",
    "cuIpcGetMemHandle",
    "cuIpcOpenEventHandle",
    "cuIpcOpenMemHandle",
    "cuMemAlloc",
    "cuMemAllocManaged",
    "cuMemAllocPitch",
    "cuMemFree",
    "cuMemGetInfo",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolGetAttribute",
    "cuMemPoolSetAccess",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuStreamDestroy",
];

/// The functions that have one.
const WITH_STREAM: [&str; 32] = [
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuLaunchCooperativeKernel",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemcpy",
    "cuMemcpy2DAsync",
    "cuMemcpy2DUnaligned",
    "cuMemcpy3D",
    "cuMemcpy3DAsync",
    "cuMemcpy3DPeer",
    "cuMemcpy3DPeerAsync",
    "cuMemcpyAsync",
    "cuMemcpyDtoD",
    "cuMemcpyDtoDAsync",
    "cuMemcpyDtoH",
    "cuMemcpyDtoHAsync",
    "cuMemcpyHtoD",
    "cuMemcpyHtoDAsync",
    "cuMemcpyPeer",
    "cuMemcpyPeerAsync",
    "cuMemsetD2D8",
    "cuMemsetD2D8Async",
    "cuMemsetD8",
    "cuMemsetD8Async",
    "cuStreamBeginCapture",
    "cuStreamEndCapture",
    "cuStreamQuery",
    "cuStreamSynchronize",
];

/// What the runtime calls of a front that counts.
fn called(test: &str, flags: &[&str]) -> BTreeSet<String> {
    let folder = runtime_folder(test);
    let program = program("runtime.c", &folder, flags);
    let counting = folder.join("counting");
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-ldl"];
    compile("notes.c", &counting.join("libcuda.so.1"), &shared);
    let node = PrivateNode::without_mgbd(TWO);
    let expected = natively(&node, &program);
    let notes = folder.join("notes");
    let ended = run(on_behind(&node, &program, &[], &counting)
        .env("NOTES", &notes)
        .env("BEHIND", softgpu_libraries().join("libcuda.so.1")));
    assert_eq!(ended.stdout, expected.stdout);
    let notes = std::fs::read_to_string(notes).unwrap();
    let names = notes
        .lines()
        .map(|line| line.rsplit_once(' ').expect("a name and a count").0);
    names.map(str::to_owned).collect()
}

fn names<'a>(all: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    all.into_iter().map(str::to_owned).collect()
}

#[test]
fn every_family_of_calls_goes_through_the_driver() {
    // The last one is what the program asks the runtime for.
    let all = WITHOUT_STREAM
        .into_iter()
        .chain(WITH_STREAM)
        .chain(["cuDeviceTotalMem"]);
    assert_eq!(called("calls", &[]), names(all));
}

#[test]
fn own_default_streams_go_through_their_own_forms() {
    let called = called("calls-own", &[OWN]);
    // The header has no such forms of the copies that name devices, and the runtime waits for the legacy
    // stream in them.
    let legacy = ["cuMemcpyPeer", "cuMemcpyPeerAsync"];
    let own: Vec<String> = WITH_STREAM
        .iter()
        .filter(|name| !legacy.contains(name))
        .map(|name| format!("{name} own"))
        .collect();
    let all = WITHOUT_STREAM
        .into_iter()
        .chain(legacy)
        .chain(own.iter().map(String::as_str))
        .chain(["cuDeviceTotalMem own"]);
    assert_eq!(called, names(all));
}

/// A library of the driver's name that is no front of the software GPU is left alone.
#[test]
fn another_driver_is_no_front() {
    let folder = runtime_folder("another");
    let program = program("runtime.c", &folder, &[]);
    let other = folder.join("other");
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-ldl"];
    compile("other.c", &other.join("libcuda.so.1"), &shared);
    let node = PrivateNode::without_mgbd(TWO);
    let expected = natively(&node, &program);
    let ended = run(on_behind(&node, &program, &[], &other).env("MGB", "off"));
    assert_eq!((ended.code(), &ended.stdout), (0, &expected.stdout));
    assert_eq!(ended.stderr, expected.stderr);
}

fn waits_for_room(way: &str) {
    let folder = runtime_folder(&format!("room-{way}"));
    common::waits_for_room(&program("takes.c", &folder, &["-lpthread"]), way);
}

/// Graphs that allocate share the memory of their device: what they take together is no sum.
#[test]
fn graphs_that_allocate_are_charged_what_they_hold() {
    let graphs = program("graphs.c", &runtime_folder("graphs"), &[]);
    let node = PrivateNode::start("1x64MiB", "mgb");
    for mode in ["off", "require"] {
        let ended = run(on_behind(&node, &graphs, &["20", "8"], &front()).env("MGB", mode));
        assert_eq!(
            (ended.code(), ended.stdout.as_str()),
            (0, "PASS\n"),
            "{mode}: {ended:?}"
        );
    }
    node.wait_until_empty();
}

/// What mgbd has granted for a graph the driver has a moment later: what others freed is on its way back.
#[test]
fn a_graph_waits_for_what_the_driver_does_not_have_yet() {
    let graphs = program("graphs.c", &runtime_folder("lacks"), &[]);
    let node = PrivateNode::start("1x64MiB", "mgb");
    let mut command = on_behind(&node, &graphs, &["1", "8"], &front());
    command.env("MGB", "require");
    let ended = run(command.env("SOFTGPU_FAIL", "oom@alloc=1,oom@alloc=1,oom@alloc=1"));
    assert_eq!((ended.code(), ended.stdout.as_str()), (0, "PASS\n"), "{ended:?}");
    node.wait_until_empty();
}

#[test]
fn allocations_of_the_runtime_wait_for_room() {
    waits_for_room("malloc");
}

#[test]
fn pitched_allocations_of_the_runtime_wait_for_room() {
    waits_for_room("pitch");
}

#[test]
fn threads_make_their_first_call_of_the_runtime_at_once() {
    let takes = program("takes.c", &runtime_folder("threads"), &["-lpthread"]);
    let node = PrivateNode::start(TWO, "mgb");
    for mode in ["off", "require"] {
        for _ in 0..5 {
            let mut command = on_behind(&node, &takes, &["threads", "24", "1", "0"], &front());
            let ended = RunningProgram::start(command.env("MGB", mode)).end();
            assert!(ended.stdout.ends_with("PASS\n"), "{ended:?}");
        }
    }
    node.wait_until_empty();
}

#[test]
fn what_the_runtime_holds_is_reserved_and_given_back() {
    let takes = program("takes.c", &runtime_folder("back"), &["-lpthread"]);
    let node = PrivateNode::start("1x64MiB", "mgb");
    for way in ["malloc", "reset"] {
        let mut command = on_behind(&node, &takes, &[way, "5", "8", "300"], &front());
        let mut child = command
            .env("MGB", "require")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait::until("the program holds its memory", || {
            let view = node.view();
            let task = view.tasks.iter().find(|task| task.pid == child.id())?;
            (task.reserved_bytes >= 40 << 20 && view.gpus[0].resident_bytes >= 40 << 20).then_some(())
        });
        wait::until("the program has freed all but what it keeps spare", || {
            let view = node.view();
            let task = view.tasks.iter().find(|task| task.pid == child.id())?;
            let resident = view.gpus[0].resident_bytes;
            (resident == 0 && task.reserved_bytes <= 32 << 20).then_some(())
        });
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        node.wait_until_empty();
    }
}

/// mgbd chooses the first device, and the runtime counts from it.
#[test]
fn the_runtime_has_the_chosen_gpu_first() {
    let takes = program("takes.c", &runtime_folder("order"), &["-lpthread"]);
    let node = PrivateNode::start(TWO, "mgb");
    let start = || {
        let mut command = on_behind(&node, &takes, &["malloc", "1", "40", "1500"], &front());
        RunningProgram::start(command.env("MGB", "require"))
    };
    let both = [start(), start()];
    let gpus = wait::until("both hold their memory", || {
        let view = node.view();
        let gpus: Vec<u32> = view.tasks.iter().map(|task| task.gpu).collect();
        let held = view.gpus.iter().all(|gpu| gpu.resident_bytes >= 40 << 20);
        (held && gpus.len() == 2).then_some(gpus)
    });
    assert_ne!(gpus[0], gpus[1]);
    let places = both.map(|running| {
        let ended = running.end();
        assert!(ended.stdout.ends_with("PASS\n"), "{ended:?}");
        ended.stdout.lines().next().expect("where it is").to_owned()
    });
    assert_ne!(places[0], places[1]);
    node.wait_until_empty();
}
