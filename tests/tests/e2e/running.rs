//! `mgb run` and `mgb batch` where several processes are concerned: who starts mgbd, who sees which GPU, and
//! who ends when a batch is stopped.

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::process::{Pid, Signal, kill_process};

/// The mgbd that a command has started on this node.
fn started_mgbd(node: &PrivateNode) -> Option<Pid> {
    let ended = run(&mut node.mgb(&["status", "--json"]));
    let view: serde_json::Value = serde_json::from_str(&ended.stdout).ok()?;
    Pid::from_raw(view["mgbd_pid"].as_i64()? as i32)
}

#[test]
fn run_starts_an_mgbd_if_none_runs() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    let vecadd = built::program("vecadd");
    let program = vecadd.to_str().expect("paths of tests are UTF-8");
    let start = || RunningProgram::start(node.mgb(&["run", program, "1000"]).env("MGB", "require"));
    let running: Vec<RunningProgram> = (0..3).map(|_| start()).collect();
    for program in running {
        assert_eq!(program.end().success(), "vecadd: n=1000 PASS\n");
    }
    let mgbd = started_mgbd(&node).expect("an mgbd was started, and waits a while for more");
    kill_process(mgbd, Signal::TERM).expect("it is ours");
    wait::until("mgbd ends", || started_mgbd(&node).is_none().then_some(()));
}

#[test]
fn a_whole_process_sees_the_gpu_it_was_granted() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let show = "echo $CUDA_VISIBLE_DEVICES $MGB";
    let shown = run(&mut node.mgb(&["run", "--need", "8MiB", "sh", "-c", show])).success();
    let (uuid, mode) = shown.trim().split_once(' ').expect("two words");
    assert!(uuid.starts_with("GPU-"), "{shown}");
    assert_eq!(mode, "off");
    let vecadd = built::program("vecadd");
    let program = vecadd.to_str().expect("paths of tests are UTF-8");
    let output = run(&mut node.mgb(&["run", "--need", "8MiB", program, "1000"])).success();
    assert_eq!(output, "vecadd: n=1000 PASS\n");
    node.wait_until_empty();
}

#[test]
fn a_share_that_cannot_hold_starts_nothing() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let reason = ["25% holds by MPS, and mgbd runs without it", "leave --share"];
    run(&mut node.mgb(&["run", "--share", "25%", "echo", "started"])).failure(&reason);
    run(node.mgb(&["run", "echo", "started"]).env("MGB_SHARE", "25%")).failure(&reason);
    run(node.mgb(&["run", "true"]).env("MGB_SHARE", "")).success();
    run(node.mgb(&["run", "true"]).env("MGB_SHARE", "half")).failure(&["MGB_SHARE: half is no percentage"]);
    // All of a GPU is no bound.
    let said = run(&mut node.mgb(&["run", "--share", "100", "sh", "-c", "echo $MGB_SHARE"])).success();
    assert_eq!(said, "100%\n");
    run(&mut node.mgb(&["run", "--share", "0", "true"])).failure(&["no percentage from 1 to 100"]);
    let jobs = node.write("jobs.txt", "share=half true\n");
    let listed = ["batch", jobs.to_str().expect("paths of tests are UTF-8")];
    run(&mut node.mgb(&listed)).failure(&["share=half is no percentage"]);
    // A program that was started without `mgb run` says that it is not heeded.
    let vecadd = built::program("vecadd");
    let mut program = node.command(&vecadd, &["1000"]);
    let ended = run(program.env("MGB", "require").env("MGB_SHARE", "25%"));
    assert!(
        ended.code() == 0 && ended.stderr.contains("MGB_SHARE is not heeded"),
        "{ended:?}"
    );
}

#[test]
fn a_whole_process_keeps_its_room_until_it_ends() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let go = node.folder().join("go");
    let wait = format!("while ! test -e {}; do sleep 0.01; done", go.display());
    let first = RunningProgram::start(&mut node.mgb(&["run", "--need", "40MiB", "sh", "-c", &wait]));
    wait::until("the first holds its room", || {
        (node.view().tasks.len() == 1).then_some(())
    });
    let mut second = RunningProgram::start(&mut node.mgb(&["run", "--need", "40MiB", "true"]));
    wait::until("the second waits", || {
        (node.view().queue.len() == 1).then_some(())
    });
    assert!(second.runs());
    std::fs::write(&go, "").expect("a temporary file can be written");
    first.end().success();
    second.end().success();
    node.wait_until_empty();
}

#[test]
fn a_stopped_batch_stops_its_jobs_and_nothing_else() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let phases = built::program("phases").display().to_string();
    let neighbour = RunningProgram::start(&mut node.command(&phases, &["4", "6", "400", "wait", "4", "8"]));
    let jobs = node.write("jobs.txt", &format!("{phases} 4 600 100 wait 4 8\n").repeat(6));
    let batch = RunningProgram::start(node.mgb(&["batch", "-j", "3", "--json"]).arg(jobs));
    let pid = neighbour.pid();
    wait::until("three jobs hold room", || {
        let tasks = node.view().tasks;
        (tasks.iter().filter(|task| task.pid != pid).count() == 3).then_some(())
    });
    batch.signal(Signal::INT);
    let ended = batch.end();
    assert_eq!(ended.code(), 130, "{}", ended.stderr);
    let summary: serde_json::Value =
        serde_json::from_str(&ended.stdout).expect("the summary is printed all the same");
    let states: Vec<_> = summary["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| job["state"].as_str())
        .collect();
    assert_eq!(
        states.iter().filter(|state| **state == Some("stopped")).count(),
        3,
        "{states:?}"
    );
    assert_eq!(
        states
            .iter()
            .filter(|state| **state == Some("not_started"))
            .count(),
        3,
        "{states:?}"
    );
    assert!(neighbour.end().success().ends_with("PASS\n"));
    node.wait_until_empty();
}

#[test]
fn what_has_left_the_process_tree_is_charged_once() {
    let node = PrivateNode::start("1x128MiB:ctx=2MiB", "mgb");
    let [takes, ends] = ["takes", "ends"].map(|file| node.folder().join(file));
    // The daemon's parent ends at once, so that it is nobody's child in the task.
    let script = format!(
        "(setsid {} 32 32 {} {ends} &); while ! test -e {ends}; do sleep 0.01; done",
        built::program("workspace").display(),
        takes.display(),
        ends = ends.display(),
    );
    let first = RunningProgram::start(&mut node.mgb(&["run", "--need", "70MiB", "sh", "-c", &script]));
    std::fs::write(&takes, "").expect("a temporary file can be written");
    let free = || node.view().gpus[0].driver_free_bytes.unwrap_or(0) >> 20;
    wait::until("the daemon has its memory", || (free() < 64).then_some(()));
    // With both the task and the daemon's memory charged there would be no room.
    run(&mut node.mgb(&["run", "--need", "40MiB", "true"])).success();
    std::fs::write(&ends, "").expect("a temporary file can be written");
    first.end().success();
    // Without a client nobody looks at the GPUs.
    let look = || run(&mut node.mgb(&["status"])).success();
    wait::until("the daemon is gone", || {
        look();
        (free() > 100).then_some(())
    });
    node.wait_until_empty();
}
