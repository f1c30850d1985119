//! mgbd is killed and comes again: programs that run go on, those that wait keep their place, those that
//! start find the new one.

use std::time::Duration;

use mgb_tests::built;
use mgb_tests::node::{Node, holds};
use mgb_tests::process::{Running, run};
use mgb_tests::wait;
use rustix::process::Signal;

fn start(node: &Node, name: &str, arguments: &[&str]) -> Running {
    let mut command = node.command(built::program(name), arguments);
    Running::start(command.env("MGB", "require"))
}

fn is_right(running: Running) {
    let ended = running.end();
    assert!(ended.code() == 0 && ended.stdout.contains("PASS"), "{ended:?}");
}

#[test]
fn who_waits_keeps_his_place() {
    let mut node = Node::start("1x64MiB", "mgb");
    let first = start(&node, "phases", &["40", "2", "4000", "wait", "10", "8"]);
    wait::until("it holds room", || holds(&node.view(), first.pid()).then_some(()));
    let mut others = Vec::new();
    for _ in 0..3 {
        let next = start(&node, "phases", &["40", "1", "10", "wait", "1", "8"]);
        let pid = next.pid();
        wait::until("it waits", || {
            let queue = node.view().queue;
            queue.iter().any(|waiting| waiting.pid == pid).then_some(())
        });
        others.push(next);
    }
    let before = node.view();
    node.replace_mgbd(Signal::KILL);
    // A second time, so that what was taken over is taken over in turn.
    node.replace_mgbd(Signal::USR1);
    let after = node.view();
    let held = |view: &mgb_probe::view::NodeView| {
        let gpu = &view.gpus[0];
        (gpu.reserved_bytes, gpu.contexts_bytes, gpu.processes)
    };
    assert_eq!(held(&after), held(&before));
    let queue =
        |view: &mgb_probe::view::NodeView| -> Vec<u32> { view.queue.iter().map(|wait| wait.pid).collect() };
    assert_eq!(queue(&after), queue(&before));
    for (then, now) in before.queue.iter().zip(&after.queue) {
        assert!(now.waited_ms >= then.waited_ms, "{before:?} {after:?}");
    }
    is_right(first);
    others.into_iter().for_each(is_right);
    node.wait_until_empty();
    assert_eq!(node.view().counts.offenders, 0);
}

#[test]
fn who_starts_while_there_is_none_finds_the_next_one() {
    let mut node = Node::start("1x64MiB", "mgb");
    let old = node.mgbd_pid();
    kill(old);
    // Nobody needs it until this one comes.
    let ended = start(&node, "vecadd", &[]).end();
    let log = std::fs::read_to_string(node.folder().join("mgbd.sock.log")).unwrap_or_default();
    assert!(
        ended.code() == 0 && ended.stdout.contains("PASS"),
        "{ended:?}\n{log}"
    );
    node.replace_mgbd(Signal::KILL);
    assert_ne!(node.mgbd_pid(), old);
}

#[test]
fn nobody_is_started_for_nobody() {
    let mut node = Node::start("1x64MiB", "mgb");
    is_right(start(&node, "vecadd", &[]));
    node.wait_until_empty();
    node.kill_mgbd();
    std::thread::sleep(Duration::from_secs(1));
    let view = node.view_name();
    let lock = mgb_probe::lock_path(&node.socket());
    let file = std::fs::File::open(lock).expect("it is left");
    assert!(file.try_lock().is_ok(), "an mgbd runs");
    drop(file);
    let holder = node.folder().join("mgbd.sock.holder");
    wait::until("the holder ends", || (!holder.exists()).then_some(()));
    wait::until("nothing is left", || {
        let view = std::path::Path::new("/dev/shm").join(view.trim_start_matches('/'));
        (!view.exists() && !node.socket().exists()).then_some(())
    });
}

#[test]
fn what_people_want_holds_on() {
    let mut node = Node::start("2x64MiB", "mgb");
    let one = start(&node, "phases", &["20", "3", "400", "wait", "10", "8"]);
    wait::until("it holds room", || holds(&node.view(), one.pid()).then_some(()));
    run(&mut node.mgb(&["drain", "1"])).success();
    let pid = one.pid().to_string();
    run(&mut node.mgb(&["suspend", &pid])).success();
    node.replace_mgbd(Signal::KILL);
    let view = node.view();
    assert_eq!(
        view.gpus.iter().map(|gpu| gpu.drained).collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(view.suspended.len(), 1, "{view:?}");
    assert_eq!(view.gpus[0].reserved_bytes + view.gpus[1].reserved_bytes, 0);
    run(&mut node.mgb(&["resume", &pid])).success();
    is_right(one);
    node.wait_until_empty();
}

#[test]
fn a_batch_goes_on() {
    let mut node = Node::start("2x64MiB", "mgb");
    let line = format!("{} 20 6 100 wait 10 8\n", built::program("phases").display());
    let jobs = node.write("jobs.txt", &line.repeat(8));
    let batch = Running::start(&mut node.mgb(&["batch", jobs.to_str().unwrap()]));
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(500));
        node.replace_mgbd(Signal::KILL);
    }
    let said = batch.end().success();
    assert!(said.contains("8 jobs on 2 GPUs"), "{said}");
    assert_eq!(said.matches("  done ").count(), 8, "{said}");
    node.wait_until_empty();
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    rustix::process::kill_process(pid, Signal::KILL).expect("it is there");
}
