//! `mgb drain`: a GPU takes nobody any more, and empties.

use mgb_probe::view::{HeldBack, TaskState};
use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;

fn phases(node: &PrivateNode, arguments: &[&str]) -> RunningProgram {
    let mut command = node.command(built::program("phases"), arguments);
    RunningProgram::start(command.env("MGB", "require"))
}

fn is_right(running: RunningProgram) {
    let ended = running.end();
    assert!(ended.code() == 0 && ended.stdout.ends_with("PASS\n"), "{ended:?}");
}

/// The GPU that holds memory of the process.
fn gpu_of(node: &PrivateNode, pid: u32) -> u32 {
    wait::until("it holds its memory", || {
        let tasks = node.view().tasks;
        let own = tasks
            .iter()
            .find(|task| task.pid == pid && task.held_bytes >= 40 << 20);
        own.map(|task| task.gpu)
    })
}

#[test]
fn a_drained_gpu_empties_and_others_take_the_programs() {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    // Its task would go on, on the other GPU.
    node.start_mgbd_with("mgb", &["--no-move"]);
    let idle = phases(&node, &["40", "2", "2000", "wait", "10", "8"]);
    let gpu = gpu_of(&node, idle.pid());
    let number = gpu.to_string();
    let said = run(&mut node.mgb(&["drain", &number])).success();
    assert!(said.starts_with(&format!("GPU {gpu} is drained")), "{said}");
    let view = node.view();
    let drained = &view.gpus[gpu as usize];
    assert_eq!((drained.drained, drained.reserved_bytes), (true, 0));
    let own = view.tasks.iter().find(|task| task.pid == idle.pid());
    let own = own.expect("it lives");
    assert_eq!((own.state, own.evicted_bytes), (TaskState::Evicted, 40 << 20));
    let shown = run(&mut node.mgb(&["status"])).success();
    assert!(shown.contains(&format!("GPU {gpu} is drained\n")), "{shown}");
    // Both fit on the other GPU one after the other only.
    let two = [(); 2].map(|()| phases(&node, &["40", "1", "1", "wait", "10", "8"]));
    two.into_iter().for_each(is_right);
    // It is back on the same GPU only after the drain.
    wait::until("it wants to go on", || {
        let queue = node.view().queue;
        let own = queue.iter().find(|wait| wait.pid == idle.pid());
        own.filter(|wait| wait.held_back == Some(HeldBack::Drained))
            .map(drop)
    });
    assert_eq!(node.view().gpus[gpu as usize].reserved_bytes, 0);
    let said = run(&mut node.mgb(&["drain", &number, "--end"])).success();
    assert_eq!(said, format!("GPU {gpu} is used again\n"));
    let said = run(&mut node.mgb(&["drain", &number, "--end"])).success();
    assert_eq!(said, format!("GPU {gpu} was not drained\n"));
    is_right(idle);
    node.wait_until_empty();
}

#[test]
fn programs_at_work_go_on_and_are_listed() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    // Its room is its own for as long as it lives.
    let go = node.folder().join("go");
    let script = format!("while ! test -e {}; do sleep 0.01; done; echo PASS", go.display());
    let works = RunningProgram::start(&mut node.mgb(&["run", "--need", "40MiB", "sh", "-c", &script]));
    wait::until("it holds its room", || {
        (node.view().tasks.len() == 1).then_some(())
    });
    let said = run(&mut node.mgb(&["drain", "0", "--no-wait"])).success();
    assert!(said.contains("GPU 0 is draining: 40.0 MiB left"), "{said}");
    assert!(
        said.contains(&format!("40.0 MiB of process {} are still on GPU 0", works.pid())),
        "{said}"
    );
    let json = run(&mut node.mgb(&["drain", "0", "--no-wait", "--json"])).success();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["drained"], &json["left_bytes"]),
        (&false.into(), &(40 << 20).into())
    );
    assert_eq!(json["leaving"][0]["pid"], works.pid());
    let late = run(&mut node.mgb(&["drain", "0", "--timeout", "1"]));
    assert_eq!(late.code(), 1, "{late:?}");

    // All GPUs are drained: what comes now waits, and is not refused.
    let waits = phases(&node, &["40", "1", "1", "wait", "10", "8"]);
    wait::until("it waits for the end of the drain", || {
        let queue = node.view().queue;
        (queue.first()?.held_back == Some(HeldBack::Drained)).then_some(())
    });
    let jobs = node.write(
        "jobs.txt",
        &format!("{} 2 1 1 wait 10 8\n", built::program("phases").display()),
    );
    let jobs = jobs.to_str().expect("paths of tests are UTF-8");
    let batch = RunningProgram::start(&mut node.mgb(&["batch", "-j", "1", jobs]));
    wait::until("the batch waits as well", || {
        (node.view().queue.len() == 2).then_some(())
    });
    let shown = run(&mut node.mgb(&["status"])).success();
    assert!(shown.contains("new, GPU drained"), "{shown}");

    let drained = RunningProgram::start(&mut node.mgb(&["drain", "0"]));
    std::fs::write(go, "").expect("a file of the test's own");
    assert_eq!(works.end().success(), "PASS\n");
    assert_eq!(
        drained.end().success(),
        "GPU 0 is drained; `mgb drain 0 --end` has it used again\n"
    );
    run(&mut node.mgb(&["drain", "0", "--end"])).success();
    is_right(waits);
    batch.end().success();
    node.wait_until_empty();
}

#[test]
fn a_gpu_that_is_not_there_is_named() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let ended = run(&mut node.mgb(&["drain", "1"]));
    assert_eq!(ended.code(), 2);
    ended.failure(&["mgbd shares no GPU 1: it has GPU 0 only"]);
}
