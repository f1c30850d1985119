//! Classes of programs, as people say and see them.

use std::path::{Path, PathBuf};

use mgb_probe::Class;
use mgb_probe::view::TaskView;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, prefix};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;

/// Says that others wait for it, before its first call of CUDA or in the middle of its work, and works
/// until a file is there.
const SERVER: &str = r#"
#include <cuda_runtime.h>
#include <mgb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
__global__ void set(int *x, int to) { *x = to; }
int main(int, char **arguments) {
  bool early = strcmp(arguments[1], "early") == 0;
  if (early) MGB_LATENCY();
  int *x, result;
  cudaMalloc(&x, 1 << 20);
  for (int i = 0; access(arguments[2], F_OK) != 0; ++i) {
    set<<<1, 1>>>(x, i);
    usleep(3000);
    cudaDeviceSynchronize();
    cudaMemcpy(&result, x, sizeof result, cudaMemcpyDeviceToHost);
    if (result != i) return 1;
    if (!early && i > 5) MGB_LATENCY();
    usleep(2000);
  }
  cudaFree(x);
  puts("PASS");
}
"#;

/// A node whose quotas are these, as one user's.
fn node(quotas: &str) -> PrivateNode {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    let quotas = node.write("quotas.toml", quotas);
    node.start_mgbd_with("mgb", &["--quotas", quotas.to_str().unwrap()]);
    node
}

fn server(node: &PrivateNode) -> PathBuf {
    let source = node.write("server.cu", SERVER);
    let program = node.folder().join("server");
    let mut compile = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90", "-O1"]);
    run(compile.arg(&source).arg("-o").arg(&program)).success();
    program
}

fn start(node: &PrivateNode, program: &Path, when: &str) -> RunningProgram {
    let until = node.folder().join("until");
    let mut command = node.command(program, &[when, until.to_str().unwrap()]);
    RunningProgram::start(command.env("MGB", "require"))
}

fn task_of(node: &PrivateNode, pid: u32) -> Option<TaskView> {
    node.view().tasks.into_iter().find(|task| task.pid == pid)
}

#[test]
fn a_program_says_in_its_source_that_others_wait_for_it() {
    let node = node("");
    let program = server(&node);
    let explained = run(node.mgb(&["explain"]).arg(&program)).success();
    assert!(explained.contains("1 task (1 static, 0 lazy)"), "{explained}");
    for when in ["early", "late"] {
        let process = start(&node, &program, when);
        wait::until("it is a latency program", || {
            (task_of(&node, process.pid())?.class == Class::Latency).then_some(())
        });
        let status = run(&mut node.mgb(&["status", "--wide"])).success();
        assert!(status.contains("latency"), "{status}");
        let until = node.write("until", "");
        let ended = process.end();
        assert!(ended.code() == 0 && ended.stderr.is_empty(), "{ended:?}");
        std::fs::remove_file(until).unwrap();
    }
}

/// Begins tasks by hand; the second one says what the process is.
const BY_HAND: &str = r#"
#include <mgb.h>
#include <unistd.h>
int main(int, char **arguments) {
  mgb_need need = {sizeof need, 0, 1 << 20};
  mgb_task first = mgb_task_begin(0, &need);
  need.flags = MGB_NEED_LATENCY;
  mgb_task second = mgb_task_begin(0, &need);
  while (access(arguments[1], F_OK) != 0) usleep(2000);
  mgb_task_end(second);
  mgb_task_end(first);
}
"#;

#[test]
fn a_flag_of_a_need_says_the_same() {
    let node = node("");
    let source = node.write("by_hand.cu", BY_HAND);
    let program = node.folder().join("by_hand");
    let mut compile = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90"]);
    run(compile.arg(&source).arg("-o").arg(&program)).success();
    let until = node.folder().join("until");
    let mut command = node.command(&program, &[until.to_str().unwrap()]);
    let process = RunningProgram::start(command.env("MGB", "require"));
    wait::until("both tasks are a latency program's", || {
        let tasks = node.view().tasks;
        (tasks.len() == 2 && tasks.iter().all(|task| task.class == Class::Latency)).then_some(())
    });
    node.write("until", "");
    assert_eq!(process.end().code(), 0);
}

#[test]
fn whose_user_may_run_no_latency_programs_is_told_so_once() {
    let node = node("[default]\nlatency = false\n");
    let program = server(&node);
    node.write("until", "");
    for when in ["early", "late"] {
        std::fs::remove_file(node.folder().join("until")).unwrap();
        let process = start(&node, &program, when);
        wait::until("it runs", || task_of(&node, process.pid()));
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert_eq!(task_of(&node, process.pid()).unwrap().class, Class::Batch);
        node.write("until", "");
        let ended = process.end();
        let told = ended.stderr.matches("may run no latency programs").count();
        assert!(ended.code() == 0 && told == 1, "{ended:?}");
    }
}

#[test]
fn a_compiler_without_mgb_makes_nothing_of_it() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let source = node.write(
        "plain.c",
        "#include <mgb.h>\nint main(void) { MGB_LATENCY(); return 0; }\n",
    );
    for position in [&["-pie", "-fPIE"], &["-no-pie", "-fno-pie"]] {
        let program = node.folder().join("plain");
        let mut compile = node.command("cc", position);
        compile.arg("-I").arg(prefix().join("include"));
        compile.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"]);
        run(compile.arg(&source).arg("-o").arg(&program)).success();
        run(&mut node.command(&program, &[])).success();
    }
}

#[test]
fn people_see_how_long_bursts_take_and_for_whom_others_are_held() {
    let node = node("");
    let program = server(&node);
    // It begins before the latency program, and launches all the time.
    let batch = phases(&node);
    wait::until("it runs", || task_of(&node, batch.pid()));
    let trace = node.folder().join("trace");
    let until = node.folder().join("until");
    let mut command = node.command(&program, &["early", until.to_str().unwrap()]);
    let latency = RunningProgram::start(command.env("MGB", "require").env("MGB_TRACE", &trace));
    let bursts = wait::until("twenty bursts", || {
        let bursts = task_of(&node, latency.pid())?.latency?;
        (bursts.count >= 20).then_some(bursts)
    });
    assert!(0 < bursts.p50_us && bursts.p50_us <= bursts.p99_us, "{bursts:?}");
    let held = wait::until("a hold", || {
        task_of(&node, batch.pid()).filter(|task| task.paused_ms > 0)
    });
    assert!(held.latency.is_none() && held.pace.is_some(), "{held:?}");
    let status = run(&mut node.mgb(&["status", "--wide"])).success();
    for head in ["p50", "p99", "note", "no MPS"] {
        assert!(status.contains(head), "{head}: {status}");
    }
    let why = |pid: u32| run(&mut node.mgb(&["why", &pid.to_string()])).success();
    let told = why(batch.pid());
    assert!(
        told.contains(&format!("process {}", latency.pid())) && told.contains("held for"),
        "{told}"
    );
    assert!(
        told.contains("class      batch") && told.contains("on GPU 0"),
        "{told}"
    );
    let told = why(latency.pid());
    assert!(
        told.contains("class      latency") && told.contains(" bursts, "),
        "{told}"
    );
    assert!(told.contains("lacks      priority over others"), "{told}");
    let json = run(&mut node.mgb(&["why", "--json", &latency.pid().to_string()])).success();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["tasks"][0]["lacks"][0], "no_mps");
    assert!(json["tasks"][0]["latency"]["p99_us"].as_u64() > Some(0), "{json}");
    let nobody = run(&mut node.mgb(&["why", &std::process::id().to_string()]));
    assert!(nobody.code() == 1 && !nobody.stderr.is_empty(), "{nobody:?}");
    node.write("until", "");
    assert_eq!(latency.end().code(), 0);
    let line: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    assert!(line["latency"]["count"].as_u64() >= Some(20), "{line}");
    batch.signal(rustix::process::Signal::TERM);
    batch.end();
}

#[test]
fn people_see_why_a_program_waits() {
    let node = node("");
    let first = phases(&node);
    wait::until("it runs", || task_of(&node, first.pid()));
    let second = phases(&node);
    wait::until("the other waits", || {
        node.view()
            .queue
            .iter()
            .any(|wait| wait.pid == second.pid())
            .then_some(())
    });
    let told = run(&mut node.mgb(&["why", &second.pid().to_string()])).success();
    let holder = format!("held by process {}", first.pid());
    assert!(
        told.contains("waits      to begin since ") && told.contains(&holder),
        "{told}"
    );
    for process in [first, second] {
        process.signal(rustix::process::Signal::TERM);
        process.end();
    }
}

/// A program that holds more than half of the GPU, and launches again and again.
fn phases(node: &PrivateNode) -> RunningProgram {
    let program = mgb_tests::built::program("phases");
    let mut command = node.command(&program, &["40", "1000000", "2", "wait", "2", "8"]);
    RunningProgram::start(command.env("MGB", "require"))
}

#[test]
fn a_batch_shows_how_long_bursts_of_its_jobs_took() {
    let node = node("");
    let program = server(&node);
    let until = node.folder().join("until").display().to_string();
    let job = format!(
        "sh: (sleep 1; touch {until}) & exec {} early {until}\n",
        program.display()
    );
    let jobs = node.write("jobs.txt", &job);
    let summary = run(node.mgb(&["batch", "-j", "1", "--json"]).arg(&jobs)).success();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert!(
        summary["jobs"][0]["latency"]["count"].as_u64() > Some(1),
        "{summary}"
    );
}
