//! Memory that libraries take beside a program's tasks: what they took once is there for them the next time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mgb_probe::view::GpuView;
use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;

const MIB: u64 = 1 << 20;

/// Has the program load the driver before anything else, so that MGB cannot put its front there: what is
/// allocated by the driver's calls is seen afterwards only.
fn past_the_front(command: &mut Command) -> &mut Command {
    command.env("LD_PRELOAD", "libcuda.so.1")
}

/// Starts the example with 32 MiB of its own and a workspace of 64 MiB, and gives the files that it waits
/// for.
fn start(node: &PrivateNode, turn: u32) -> (RunningProgram, [PathBuf; 2]) {
    let files = ["takes", "ends"].map(|file| node.folder().join(format!("{file}{turn}")));
    let mut command = node.command(built::program("workspace"), &["32", "64"]);
    command.args(&files).env("MGB", "require");
    (RunningProgram::start(past_the_front(&mut command)), files)
}

/// The mgbd that a command starts ends when it has been idle: what it learned must not end with it.
#[test]
fn the_next_mgbd_knows_what_a_library_took() {
    let mut node = PrivateNode::start("1x190MiB:ctx=2MiB", "mgb");
    let (first, files) = start(&node, 1);
    touch(&files[0]);
    wait::until("the overhead is seen", || {
        (gpu(&node).overhead_bytes >= 64 * MIB).then_some(())
    });
    touch(&files[1]);
    first.end().success();
    node.wait_until_empty();
    node.stop_mgbd();

    let kept = node.folder().join("mgbd.sock.past");
    let learned = fs::read(&kept).expect("mgbd keeps what it learned beside its socket");
    node.start_mgbd("mgb");
    let (second, files) = start(&node, 2);
    wait::until("it holds its memory", || {
        (gpu(&node).reserved_bytes >= 32 * MIB).then_some(())
    });
    assert!(gpu(&node).headroom_bytes >= 63 * MIB, "{:?}", gpu(&node));
    files.iter().for_each(|file| touch(file));
    second.end().success();
    node.wait_until_empty();
    node.stop_mgbd();

    // Half of a file, as a full disk leaves it.
    fs::write(&kept, &learned[..learned.len() / 2]).expect("a temporary folder can be written");
    node.start_mgbd("mgb");
    let (third, files) = start(&node, 3);
    wait::until("it holds its memory", || {
        (gpu(&node).reserved_bytes >= 32 * MIB).then_some(())
    });
    assert_eq!(gpu(&node).headroom_bytes, 0, "{:?}", gpu(&node));
    files.iter().for_each(|file| touch(file));
    third.end().success();
    let said = node.stop_mgbd();
    assert!(
        said.stderr.contains("cannot read what programs took before"),
        "{said:?}"
    );
    assert!(fs::read(&kept).is_ok_and(|kept| kept.ends_with(b"}")));
}

/// Takes a workspace as libraries do. Once the file is there, it wants more than can be had beside that with
/// all else swapped out.
const GREEDY: &str = r#"#include <cstdio>
#include <dlfcn.h>
#include <unistd.h>
__global__ void work(int *x) { x[threadIdx.x] += 1; }
int main(int, char **files) {
  int *x, *more;
  cudaMalloc(&x, 32 << 20);
  work<<<1, 32>>>(x);
  cudaDeviceSynchronize();
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  auto allocate = reinterpret_cast<int (*)(size_t *, size_t)>(dlsym(driver, "cuMemAlloc_v2"));
  size_t workspace;
  if (allocate(&workspace, 64 << 20) != 0)
    return 1;
  while (access(files[1], F_OK) != 0)
    usleep(1000);
  cudaError_t error = cudaMalloc(&more, 130 << 20);
  if (error == cudaSuccess) {
    work<<<1, 32>>>(more);
    error = cudaGetLastError();
  }
  work<<<1, 32>>>(x);
  cudaFree(x);
  puts(cudaGetErrorName(error));
  return 0;
}
"#;

fn touch(file: &Path) {
    fs::write(file, "").expect("a temporary folder can be written");
}

fn gpu(node: &PrivateNode) -> GpuView {
    node.view().gpus[0].clone()
}

#[test]
fn a_neighbour_does_not_take_what_a_library_will_need() {
    // The program and its workspace fit beside a neighbour of 50 MiB, and not beside one of 100.
    let node = PrivateNode::start("1x190MiB:ctx=2MiB", "mgb");
    let neighbour = |mib: &str| {
        let mut command = node.command(built::program("phases"), &[mib, "1", "0"]);
        command.env("MGB", "require");
        command
    };

    let (first, files) = start(&node, 1);
    touch(&files[0]);
    wait::until("the overhead is seen", || {
        (gpu(&node).overhead_bytes >= 64 * MIB).then_some(())
    });
    assert_eq!(gpu(&node).foreign_bytes / MIB, 0, "{:?}", gpu(&node));
    touch(&files[1]);
    first.end().success();
    node.wait_until_empty();

    let (second, files) = start(&node, 2);
    wait::until("it holds its memory", || {
        (gpu(&node).reserved_bytes >= 32 * MIB).then_some(())
    });
    assert!(gpu(&node).headroom_bytes >= 63 * MIB, "{:?}", gpu(&node));
    let waits = RunningProgram::start(&mut neighbour("100"));
    wait::until("the neighbour waits", || {
        (!node.view().queue.is_empty()).then_some(())
    });
    run(&mut neighbour("50")).success();
    touch(&files[0]);
    wait::until("it is taken", || (gpu(&node).headroom_bytes == 0).then_some(()));
    touch(&files[1]);
    second.end().success();
    waits.end().success();
    node.wait_until_empty();
}

/// Natively the allocation fails. Nobody else will ever give anything back, so that waiting would be for
/// ever.
#[test]
fn who_wants_the_room_of_its_own_library_is_told_that_there_is_none() {
    let node = PrivateNode::start("1x190MiB:ctx=2MiB", "mgb");
    let source = node.write("greedy.cu", GREEDY);
    let program = node.folder().join("greedy");
    run(node.mgb(&["clang++", "-O1"]).arg(source).arg("-o").arg(&program)).success();
    // Past the driver front its workspace is overhead. The front has it charged.
    let mut past = node.command(&program, &[]);
    past_the_front(&mut past);
    let alone = node.command(&program, &[]);
    let front = node.mgb(&["run", &program.display().to_string()]);
    for (name, mut command) in [("past", past), ("alone", alone), ("front", front)] {
        let file = node.folder().join(name);
        let running = RunningProgram::start(command.arg(&file));
        wait::until("the workspace is seen", || {
            let gpu = gpu(&node);
            let seen = if name == "past" {
                gpu.overhead_bytes
            } else {
                gpu.reserved_bytes
            };
            (seen >= 64 * MIB).then_some(())
        });
        touch(&file);
        assert_eq!(running.end().success(), "cudaErrorMemoryAllocation\n");
        node.wait_until_empty();
    }
}

/// An mgbd for which 16 MiB beside what was granted are too much.
fn with_limit(more: &[&str]) -> PrivateNode {
    let mut node = PrivateNode::without_mgbd("1x190MiB:ctx=2MiB");
    node.start_mgbd_with("mgb", &[&["--overhead-limit", "16MiB"], more].concat());
    node
}

const TOO_MUCH: &str = "a process has more GPU memory than it was granted and --overhead-limit allows";

#[test]
fn of_a_process_that_takes_more_than_it_says_the_log_tells() {
    let mut node = with_limit(&[]);
    let (first, files) = start(&node, 1);
    touch(&files[0]);
    wait::until("it is counted", || {
        (node.view().counts.offenders == 1).then_some(())
    });
    files.iter().for_each(|file| touch(file));
    first.end().success();
    node.wait_until_empty();
    let said = node.stop_mgbd();
    assert_eq!(said.stderr.matches(TOO_MUCH).count(), 1, "{said:?}");
    assert!(said.stderr.contains("it goes on"), "{said:?}");
}

#[test]
fn where_the_administrator_wants_it_such_a_process_is_ended() {
    let mut node = with_limit(&["--end-beyond"]);
    let (hides, files) = start(&node, 1);
    touch(&files[0]);
    let ended = hides.end();
    assert_eq!(ended.code(), 128 + 15, "{ended:?}");
    // A whole process that takes more than its own word.
    let phases = built::program("phases");
    let says_little = &[
        "run",
        "--need",
        "1MiB",
        &phases.to_string_lossy(),
        "40",
        "40",
        "100",
        "wait",
        "50",
        "8",
    ];
    let ended = run(&mut node.mgb(says_little));
    assert_eq!(ended.code(), 128 + 15, "{ended:?}");
    // A shell whose child does so: both end.
    let script = format!("{} 40 40 100 wait 50 8; exit 7", phases.display());
    let ended = run(&mut node.mgb(&["run", "--need", "1MiB", "sh", "-c", &script]));
    assert_eq!(ended.code(), 128 + 15, "{ended:?}");
    assert!(!ended.stdout.contains("PASS"), "{ended:?}");
    wait::until("all are counted", || {
        (node.view().counts.offenders == 3).then_some(())
    });
    let honest = run(node
        .command(built::program("vecadd"), &["1000"])
        .env("MGB", "require"));
    honest.success();
    node.wait_until_empty();
    let said = node.stop_mgbd();
    assert_eq!(said.stderr.matches(TOO_MUCH).count(), 3, "{said:?}");
}
