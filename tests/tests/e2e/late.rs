//! Tasks that have their memory for longer than their user may.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use mgb_probe::view::TaskView;
use mgb_tests::built;
use mgb_tests::node::{PrivateNode, holds};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::process::{Signal, geteuid};

use crate::users::{SharedNode, USERS, is_right};

const TOO_LONG: &str = "a task has had its GPU memory for longer than its user may";

/// A node whose mgbd has these quotas, and its log.
fn node(devices: &str, quotas: &str) -> (PrivateNode, PathBuf) {
    let mut node = PrivateNode::without_mgbd(devices);
    let (quotas, log) = (node.write("quotas.toml", quotas), node.folder().join("log"));
    let options = [
        "--quotas",
        quotas.to_str().unwrap(),
        "--log",
        log.to_str().unwrap(),
    ];
    node.start_mgbd_with("mgb", &options);
    (node, log)
}

/// Works until it is ended.
fn endless(node: &PrivateNode, before: &[&str]) -> Command {
    let phases = built::program("phases");
    let words = [
        before,
        &[phases.to_str().unwrap(), "8", "1000000", "20", "wait", "10", "8"],
    ]
    .concat();
    let mut command = node.command(words[0], &words[1..]);
    command.env("MGB", "require");
    command
}

fn task_of(node: &PrivateNode, pid: u32) -> Option<TaskView> {
    node.view().tasks.into_iter().find(|task| task.pid == pid)
}

#[test]
fn who_is_late_is_shown_and_told_of_once_and_goes_on_also_under_the_next_mgbd() {
    let own = geteuid().as_raw();
    let (mut node, log) = node("1x64MiB", &format!("[users.{own}]\ntime = \"1s\"\n"));
    let mut late = RunningProgram::start(&mut endless(&node, &[]));
    let pid = late.pid();
    let before = wait::until("it is late", || task_of(&node, pid).filter(TaskView::is_late));
    assert!(
        before.age_ms >= before.time_ms && before.most_time_ms == Some(1000),
        "{before:?}"
    );
    let told = || {
        fs::read_to_string(&log)
            .unwrap_or_default()
            .matches(TOO_LONG)
            .count()
    };
    wait::until("the log tells of it", || (told() == 1).then_some(()));
    let status = run(&mut node.mgb(&["status", "--wide"])).success();
    assert!(status.contains(" of 1.0 s, late  "), "{status}");
    let status = run(&mut node.mgb(&["status"])).success();
    assert!(status.contains("running, late  "), "{status}");
    let status = run(&mut node.mgb(&["status", "--json"])).success();
    assert!(status.contains("\"most_time_ms\": 1000"), "{status}");
    let quota = run(&mut node.mgb(&["quota"])).success();
    assert!(quota.contains("a task has its memory for 1.0 s\n"), "{quota}");
    node.replace_mgbd(Signal::KILL);
    // It has looked at times by then.
    wait::until("the next one knows it", || {
        let task = task_of(&node, pid)?;
        assert!(
            task.age_ms >= before.age_ms && task.time_ms >= before.time_ms,
            "{task:?}"
        );
        (node.view().uptime_ms >= 1500).then_some(())
    });
    assert!(task_of(&node, pid).is_some_and(|task| task.is_late()) && late.runs());
    assert_eq!(told(), 1);
    assert!(
        fs::read_to_string(&log).is_ok_and(|log| log.contains("it goes on") && !log.contains("end-late"))
    );
    late.signal(Signal::KILL);
    late.end();
    node.wait_until_empty();
}

#[test]
fn where_the_administrator_wants_it_who_is_late_is_ended_and_nobody_else() {
    let [first, second] = USERS;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (log, quotas) = (folder.path().join("log"), folder.path().join("quotas.toml"));
    fs::write(
        &quotas,
        format!("[users.{first}]\ntime = \"1s\"\nend-late = true\n"),
    )
    .unwrap();
    let options = [
        "--serve",
        "all",
        "--log",
        log.to_str().unwrap(),
        "--quotas",
        quotas.to_str().unwrap(),
    ];
    let Some(shared) = SharedNode::start("1x256MiB", &options) else {
        return;
    };
    let start = |uid: u32, rounds: &str| {
        let arguments = ["8", rounds, "20", "wait", "10", "8"];
        RunningProgram::start(shared.command(uid, "phases", &arguments).env("MGB", "require"))
    };
    let (late, other) = (start(first, "1000000"), start(second, "150"));
    let pid = late.pid();
    wait::until("the other one is there", || {
        holds(&shared.node.view(), other.pid()).then_some(())
    });
    // It does not listen to who asks it to end.
    let phases = shared.path("phases");
    let script = format!("trap '' TERM; exec {} 8 1000000 20 wait 10 8", phases.display());
    let mut deaf = shared.command(first, "phases", &[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(shared.node.folder());
    for (name, value) in deaf.env("MGB", "require").get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    std::os::unix::process::CommandExt::uid(&mut shell, first);
    std::os::unix::process::CommandExt::gid(&mut shell, first);
    let deaf = RunningProgram::start(&mut shell);
    let ended = late.end();
    assert_eq!(ended.code(), 128 + 15, "{ended:?}");
    let why = "mgb: mgbd ends this program: a task of it has had its GPU memory for longer than its user may";
    assert!(ended.stderr.contains(why), "{ended:?}");
    let ended = deaf.end();
    assert_eq!(ended.code(), 128 + 9, "{ended:?}");
    is_right(other);
    let log = fs::read_to_string(&log).expect("there is a log");
    let line = format!("audit order=\"end-late\" of=\"process {pid}\" whose={first}");
    assert_eq!(log.matches(&line).count(), 1, "{log}");
    assert_eq!(log.matches("audit order=\"end-late\"").count(), 3, "{log}");
    assert!(!log.contains(&format!("uid={second} task")), "{log}");
    shared.node.wait_until_empty();
}

#[test]
fn a_whole_process_is_ended_with_what_it_has_started() {
    let own = geteuid().as_raw();
    let (node, log) = node(
        "1x64MiB",
        &format!("[users.{own}]\ntime = \"1s\"\nend-late = true\n"),
    );
    let phases = built::program("phases");
    // The shell is told first: it does not go on with its next command.
    let script = format!("{} 8 1000000 20 wait 10 8; exit 7", phases.display());
    let ended = run(&mut node.mgb(&["run", "--need", "16MiB", "sh", "-c", &script]));
    assert_eq!(ended.code(), 128 + 15, "{ended:?}");
    assert!(fs::read_to_string(&log).is_ok_and(|log| log.contains("it is told to end")));
    node.wait_until_empty();
}

/// A task again and again until the file is there.
const LOOP: &str = r#"#include <cstdio>
#include <unistd.h>
__global__ void work(int *x) { x[threadIdx.x] += 1; }
static void once() {
  int *x;
  cudaMalloc(&x, 1 << 20);
  work<<<1, 32>>>(x);
  cudaFree(x);
}
int main(int, char **files) {
  unsigned long runs = 0;
  for (; access(files[1], F_OK) != 0; runs++) {
    once();
    usleep(1000);
  }
  printf("%s %lu\n", cudaGetErrorName(cudaGetLastError()), runs);
  return 0;
}
"#;

#[test]
fn runs_of_a_loop_that_share_a_grant_have_a_time_each() {
    let own = geteuid().as_raw();
    let (node, log) = node(
        "1x64MiB",
        &format!("[users.{own}]\ntime = \"5s\"\nend-late = true\n"),
    );
    let (source, program, file) = (
        node.write("loop.cu", LOOP),
        node.folder().join("loop"),
        node.folder().join("end"),
    );
    run(node.mgb(&["clang++", "-O1"]).arg(source).arg("-o").arg(&program)).success();
    let mut loops = RunningProgram::start(node.command(&program, &[]).arg(&file).env("MGB", "require"));
    let begun = node.view().uptime_ms;
    wait::until("it has gone on for longer", || {
        assert!(loops.runs());
        let tasks = node.view().tasks;
        assert!(tasks.iter().all(|task| !task.is_late()), "{tasks:?}");
        (node.view().uptime_ms >= begun + 8000).then_some(())
    });
    let granted = node.view().counts.granted;
    fs::write(&file, "").unwrap();
    let said = loops.end().success();
    let runs = said.trim().strip_prefix("cudaSuccess ").map(str::parse);
    let Some(Ok(runs)) = runs else { panic!("{said}") };
    assert!(
        2 * granted < runs,
        "{runs} runs have shared grants, of which there were {granted}"
    );
    assert!(!fs::read_to_string(&log).unwrap().contains(TOO_LONG));
    node.wait_until_empty();
}
