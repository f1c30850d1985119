//! `mgb suspend` and `mgb resume`: a program leaves the GPUs until a person lets it go on.

use std::time::Duration;

use mgb_probe::view::{HeldBack, NodeView, TaskState};
use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;

/// MiB, rounds, milliseconds of each host phase, its kind, steps and blocks of each kernel: hardly any idle
/// time.
const AT_WORK: [&str; 6] = ["40", "40", "50", "wait", "10", "8"];

fn phases(node: &PrivateNode, arguments: &[&str]) -> RunningProgram {
    let mut command = node.command(built::program("phases"), arguments);
    RunningProgram::start(command.env("MGB", "require"))
}

fn is_right(running: RunningProgram) {
    let ended = running.end();
    assert!(ended.code() == 0 && ended.stdout.ends_with("PASS\n"), "{ended:?}");
}

fn until_it_holds_40_mib(node: &PrivateNode) {
    wait::until("it holds its memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
}

/// What `mgb` prints, as lines; it succeeds.
fn said(node: &PrivateNode, arguments: &[&str]) -> Vec<String> {
    let text = run(&mut node.mgb(arguments)).success();
    text.lines().map(str::to_owned).collect()
}

fn state(view: &NodeView, pid: u32) -> Option<TaskState> {
    let own = view.tasks.iter().find(|task| task.pid == pid);
    own.map(|task| task.state)
}

#[test]
fn a_suspended_program_leaves_the_gpu_and_ends_right_after_it_is_resumed() {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    // Nobody is evicted for others here: who comes next has room by the suspension alone.
    node.start_mgbd_with("mgb", &["--no-swap"]);
    let mut first = phases(&node, &AT_WORK);
    until_it_holds_40_mib(&node);
    let pid = first.pid().to_string();
    assert_eq!(
        said(&node, &["suspend", &pid]),
        [
            format!("process {pid} is suspended; in host memory now: 40.0 MiB from GPU 0"),
            format!("nothing is granted until `mgb resume {pid}`"),
        ]
    );
    let view = node.view();
    assert_eq!(view.gpus[0].reserved_bytes, 0);
    assert_eq!(state(&view, first.pid()), Some(TaskState::Suspended));
    let shown = said(&node, &["status"]).join("\n");
    assert!(
        shown.contains(&format!("process {pid} is suspended, for ")),
        "{shown}"
    );

    is_right(phases(&node, &["60", "1", "1", "wait", "10", "8"]));
    // It has come to its next kernel long since, and there is room.
    let held = wait::until("it wants to go on", || node.view().queue.first().cloned());
    assert_eq!(
        (held.pid, held.held_back),
        (first.pid(), Some(HeldBack::Suspended))
    );
    std::thread::sleep(Duration::from_millis(300));
    assert!(first.runs() && node.view().gpus[0].reserved_bytes == 0);
    assert_eq!(said(&node, &["resume", &pid]), [format!("process {pid} goes on")]);
    is_right(first);
    node.wait_until_empty();
    assert!(node.view().suspended.is_empty());
}

#[test]
fn a_program_that_waits_is_not_served_while_it_is_suspended() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let first = phases(&node, &AT_WORK);
    until_it_holds_40_mib(&node);
    let waits = phases(&node, &["40", "1", "1", "wait", "10", "8"]);
    wait::until("it waits", || (node.view().queue.len() == 1).then_some(()));
    let pid = waits.pid().to_string();
    assert_eq!(
        said(&node, &["suspend", &pid])[0],
        format!("process {pid} is suspended; none of its memory was on a GPU")
    );
    assert_eq!(node.view().queue[0].held_back, Some(HeldBack::Suspended));
    let shown = said(&node, &["status"]).join("\n");
    assert!(shown.contains("new, suspended"), "{shown}");
    // Nobody made room for it, and it does not begin in the room that is there now.
    is_right(first);
    let view = node.view();
    assert_eq!((view.counts.evicted, view.queue.len()), (0, 1), "{view:#?}");
    said(&node, &["resume", &pid]);
    is_right(waits);
    node.wait_until_empty();
}

#[test]
fn a_job_is_suspended_as_a_whole() {
    let node = PrivateNode::start("1x128MiB", "mgb");
    let program = built::program("phases");
    let program = program.to_str().expect("paths of tests are UTF-8");
    let [size, rest @ ..] = AT_WORK;
    let one = format!("{program} {size} {}", rest.join(" "));
    let script = format!("{one} & {one} & wait");
    let job = RunningProgram::start(node.mgb(&["run", "sh", "-c", &script]).env("MGB", "require"));
    wait::until("both hold their memory", || {
        (node.view().gpus[0].resident_bytes >= 80 << 20).then_some(())
    });
    let other = phases(&node, &["20", "2", "1", "wait", "10", "8"]);
    let pids: Vec<u32> = node.view().tasks.iter().map(|task| task.pid).collect();
    let one = pids
        .iter()
        .find(|&&pid| pid != other.pid())
        .expect("one of the job")
        .to_string();
    let json = run(&mut node.mgb(&["suspend", "--job", &one, "--json"])).success();
    let said_json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let processes = said_json["processes"].as_array().expect("a list");
    assert_eq!(
        (&said_json["complete"], processes.len()),
        (&true.into(), 2),
        "{json}"
    );
    for process in processes {
        assert_eq!(process["evicted_bytes"][0], 40 << 20, "{json}");
    }
    is_right(other);
    // By the job's number as well.
    let number = processes[0]["job"].as_str().expect("a job");
    assert_eq!(
        said(&node, &["resume", number]),
        [format!("job {number} goes on")]
    );
    let ended = job.end();
    assert_eq!(
        (ended.code(), ended.stdout.matches("PASS\n").count()),
        (0, 2),
        "{ended:?}"
    );
    node.wait_until_empty();
}

#[test]
fn a_suspended_program_that_is_killed_is_forgotten() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let first = phases(&node, &AT_WORK);
    until_it_holds_40_mib(&node);
    said(&node, &["suspend", &first.pid().to_string()]);
    let view = node.view();
    assert_eq!(view.suspended[0].evicted_bytes, [40 << 20]);
    assert_eq!(
        view.tasks.iter().map(|task| task.evicted_bytes).sum::<u64>(),
        40 << 20
    );
    drop(first);
    node.wait_until_empty();
    wait::until("it is forgotten", || {
        node.view().suspended.is_empty().then_some(())
    });
    is_right(phases(&node, &["60", "1", "1", "wait", "10", "8"]));
}

#[test]
fn who_is_not_there_or_not_suspended_is_named() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    // No process has this number: the kernel's limit is lower.
    for command in ["suspend", "resume"] {
        let ended = run(&mut node.mgb(&[command, "999999999"]));
        assert_eq!(ended.code(), 1);
        ended.failure(&["mgbd knows no process 999999999: it has ended"]);
        let ended = run(&mut node.mgb(&[command, "00000000000000ff"]));
        ended.failure(&["mgbd knows no job 00000000000000ff"]);
        assert_eq!(run(&mut node.mgb(&[command, "firefox"])).code(), 2);
    }
    let program = phases(&node, &["40", "2", "300", "wait", "10", "8"]);
    until_it_holds_40_mib(&node);
    let pid = program.pid().to_string();
    run(&mut node.mgb(&["suspend", "--job", &pid])).failure(&["belongs to no job"]);
    assert_eq!(
        said(&node, &["resume", &pid]),
        [format!("process {pid} was not suspended")]
    );
    is_right(program);
}

#[test]
fn what_cannot_leave_is_said_with_the_reason() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let runs = RunningProgram::start(&mut node.mgb(&["run", "--need", "40MiB", "sleep", "60"]));
    wait::until("it holds its room", || {
        (node.view().tasks.len() == 1).then_some(())
    });
    let pid = runs.pid().to_string();
    let ended = run(&mut node.mgb(&["suspend", &pid]));
    assert_eq!(ended.code(), 1);
    ended.failure(&[
        &format!("40.0 MiB of process {pid} are still on GPU 0 (declared with --need"),
        "stays suspended",
        &format!("mgb resume {pid}"),
    ]);
    assert_eq!(state(&node.view(), runs.pid()), Some(TaskState::Suspending));
}
