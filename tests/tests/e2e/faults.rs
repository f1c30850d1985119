//! A GPU that fails under a program: the program says so as it ends, whether it looks or not.

use std::process::Command;
use std::time::{Duration, Instant};

use mgb_tests::node::{PrivateNode, holds};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::{built, wait};

/// Launches once and ends as `END` says, with 0 in any case.
const SOURCE: &str = "__global__ void work(int *x) { x[threadIdx.x] += 1; }
int main() {
  int *x, y[32];
  cudaMalloc(&x, 128);
  work<<<1, 32>>>(x);
#if END == 1
  cudaMemcpy(y, x, 128, cudaMemcpyDeviceToHost);
#elif END == 2
  cudaMemcpy(y, x, 128, cudaMemcpyDeviceToHost);
  cudaDeviceReset();
#elif END == 3
  cudaMemcpy(y, x, 128, cudaMemcpyDeviceToHost);
  cudaDeviceReset();
  return cudaMalloc(&x, 128) || cudaMemset(x, 0, 128) || cudaMemcpy(y, x, 128, cudaMemcpyDeviceToHost);
#endif
  return 0;
}
";

fn with_failing<'a>(command: &'a mut Command, what: &str) -> &'a mut Command {
    command.env("SOFTGPU_FAIL", format!("{what}@kernel=1"))
}

#[test]
fn a_program_says_that_its_gpu_has_failed() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let source = node.write("careless.cu", SOURCE);
    let path = |of: &std::path::Path| of.to_str().expect("paths of tests are UTF-8").to_owned();
    // It never asks; it copies and does not look; it resets the device as it ends; it does so and begins
    // anew, and has so seen to it: all works again.
    for (end, says) in [(0, true), (1, true), (2, true), (3, false)] {
        let program = path(&node.folder().join(format!("careless{end}")));
        let define = format!("-DEND={end}");
        run(&mut node.mgb(&["clang++", "-O1", &define, &path(&source), "-o", &program])).success();
        for (what, error) in [("ecc", 214), ("mps", 806)] {
            let ended = run(with_failing(&mut node.mgb(&["run", &program]), what));
            assert_eq!(ended.code(), 0, "{end}: {ended:?}");
            let line = format!("mgb: the GPU failed under this program (CUDA error {error})");
            assert_eq!(ended.stderr.contains(&line), says, "{end}: {ended:?}");
        }
        let well = run(&mut node.mgb(&["run", &program]));
        assert!(!well.stderr.contains("failed"), "{end}: {well:?}");
    }
    node.wait_until_empty();
}

#[test]
fn a_gpu_that_is_lost_takes_nobody_until_it_is_back() {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    let lost = node.folder().join("lost");
    let fails = format!("device:1@file={}", lost.display());
    let mut mgbd = node.mgbd(&[]);
    node.start_mgbd_as(mgbd.env("SOFTGPU_FAIL", &fails));
    let phases = |rounds| {
        let mut command = node.command(
            built::program("phases"),
            &["40", rounds, "100", "wait", "10", "8"],
        );
        command.env("MGB", "require").env("SOFTGPU_FAIL", &fails);
        command
    };
    let both = [
        RunningProgram::start(&mut phases("8")),
        RunningProgram::start(&mut phases("8")),
    ];
    let [first, second] = both.each_ref().map(RunningProgram::pid);
    wait::until("both hold room", || {
        let view = node.view();
        (holds(&view, first) && holds(&view, second)).then_some(())
    });
    let gpu_of = |pid| {
        node.view()
            .tasks
            .iter()
            .find(|task| task.pid == pid)
            .map(|task| task.gpu)
    };
    let on_second = gpu_of(second) == Some(1);
    // It fits on the lost GPU alone, and waits for the other one.
    std::fs::write(&lost, "").unwrap();
    wait::until("it is seen", || node.view().gpus[1].lost.then_some(()));
    let third = RunningProgram::start(&mut phases("1"));
    wait::until("it waits", || (node.view().queue.len() == 1).then_some(()));
    let shown = run(&mut node.mgb(&["status"])).success();
    assert!(
        shown.contains("GPU 1 is lost: the driver cannot reach it"),
        "{shown}"
    );
    for (program, fails) in both.into_iter().zip([!on_second, on_second]) {
        let ended = program.end();
        assert_eq!(ended.code() != 0, fails, "only who was there is hit: {ended:?}");
    }
    let third = third.end();
    assert!(third.code() == 0 && third.stdout.contains("PASS"), "{third:?}");
    std::fs::remove_file(&lost).unwrap();
    let since = Instant::now();
    wait::until("it is shared again", || (!node.view().gpus[1].lost).then_some(()));
    assert!(since.elapsed() < Duration::from_secs(5));
    let both = [
        RunningProgram::start(&mut phases("2")),
        RunningProgram::start(&mut phases("2")),
    ];
    for program in both {
        let ended = program.end();
        assert!(ended.code() == 0 && ended.stdout.contains("PASS"), "{ended:?}");
    }
    node.wait_until_empty();
}

#[test]
fn an_mgbd_that_finds_a_gpu_lost_shares_the_others() {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    let lost = node.folder().join("lost");
    std::fs::write(&lost, "").unwrap();
    let fails = format!("device:0@file={}", lost.display());
    let mut mgbd = node.mgbd(&[]);
    node.start_mgbd_as(mgbd.env("SOFTGPU_FAIL", &fails));
    let view = node.view();
    assert_eq!((view.gpus.len(), view.gpus[0].gpu.node_index), (1, 1));
    let program = built::program("phases");
    let mut command = node.command(&program, &["20", "2", "100", "wait", "10", "8"]);
    let ended = run(command.env("MGB", "require").env("SOFTGPU_FAIL", &fails));
    assert!(ended.code() == 0 && ended.stdout.contains("PASS"), "{ended:?}");
    node.wait_until_empty();
    let none = PrivateNode::without_mgbd("1x64MiB");
    let refused = run(none.mgbd(&[]).env("SOFTGPU_FAIL", &fails));
    assert!(
        refused.code() != 0 && refused.stderr.contains("the driver cannot reach it"),
        "{refused:?}"
    );
}

#[test]
fn that_a_gpu_is_back_is_shown_though_nobody_is_there() {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    let lost = node.folder().join("lost");
    let mut mgbd = node.mgbd(&[]);
    node.start_mgbd_as(mgbd.env("SOFTGPU_FAIL", format!("device:1@file={}", lost.display())));
    std::fs::write(&lost, "").unwrap();
    let shown = run(&mut node.mgb(&["status"])).success();
    assert!(shown.contains("GPU 1 is lost"), "{shown}");
    wait::until("mgbd has shown that the observer has gone", || {
        let before = node.view().uptime_ms;
        std::thread::sleep(Duration::from_millis(300));
        (node.view().uptime_ms == before).then_some(())
    });
    std::fs::remove_file(&lost).unwrap();
    wait::until("it is shared again", || (!node.view().gpus[1].lost).then_some(()));
}

#[test]
fn a_batch_runs_again_what_a_lost_gpu_has_failed() {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    let lost = node.folder().join("lost");
    let fails = format!("device:1@file={}", lost.display());
    let mut mgbd = node.mgbd(&[]);
    node.start_mgbd_as(mgbd.env("SOFTGPU_FAIL", &fails));
    let line = format!("{} 20 6 100 wait 10 8\n", built::program("phases").display());
    let jobs = node.write("jobs.txt", &line.repeat(8));
    let mut batch = node.mgb(&["batch", "--again", jobs.to_str().unwrap()]);
    let batch = RunningProgram::start(batch.env("SOFTGPU_FAIL", &fails));
    wait::until("somebody is on it", || {
        let view = node.view();
        view.tasks.iter().any(|task| task.gpu == 1).then_some(())
    });
    std::fs::write(&lost, "").unwrap();
    let said = batch.end().success();
    assert_eq!(said.matches("  done ").count(), 8, "{said}");
    node.wait_until_empty();
}

#[test]
fn who_is_hit_by_a_fault_is_told_and_its_neighbours_are_not() {
    let node = PrivateNode::start("1x256MiB:ctx=2MiB", "mgb");
    let phases = built::program("phases");
    let start = |fails: Option<&str>| {
        let mut command = node.command(&phases, &["16", "4", "20", "wait", "50", "8"]);
        command.env("MGB", "require");
        if let Some(fails) = fails {
            command.env("SOFTGPU_FAIL", fails);
        }
        RunningProgram::start(&mut command)
    };
    let neighbours = [start(None), start(None)];
    let ecc = start(Some("ecc:0@kernel=2"));
    let out_of_memory = start(Some("oom@copy=2"));
    let slow = start(Some("slow:0@factor=3"));
    let ecc = ecc.end();
    assert!(
        ecc.code() != 0 && ecc.stderr.contains("the GPU failed under this program"),
        "{ecc:?}"
    );
    let ended = out_of_memory.end();
    assert!(
        ended.code() != 0 && ended.stderr.contains("cudaErrorMemoryAllocation"),
        "{ended:?}"
    );
    assert!(slow.end().success().contains("PASS"));
    for one in neighbours {
        assert!(one.end().success().contains("PASS"));
    }
    assert!(start(None).end().success().contains("PASS"), "a newcomer");
    node.wait_until_empty();
}
