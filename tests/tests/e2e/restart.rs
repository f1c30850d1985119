//! mgbd is killed and comes again: programs that run go on, those that wait keep their place, those that
//! start find the new one.

use std::os::unix::fs::symlink;
use std::time::Duration;

use mgb_probe::Client;
use mgb_tests::built;
use mgb_tests::node::{PrivateNode, holds};
use mgb_tests::numbered::Numbered;
use mgb_tests::prefix::bin;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::process::Signal;

fn start(node: &PrivateNode, name: &str, arguments: &[&str]) -> RunningProgram {
    let mut command = node.command(built::program(name), arguments);
    RunningProgram::start(command.env("MGB", "require"))
}

fn is_right(running: RunningProgram) {
    let ended = running.end();
    assert!(ended.code() == 0 && ended.stdout.contains("PASS"), "{ended:?}");
}

#[test]
fn who_waits_keeps_his_place() {
    let mut node = PrivateNode::start("1x64MiB", "mgb");
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
    let mut node = PrivateNode::start("1x64MiB", "mgb");
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

/// Ends a node's mgbd, whose number is free afterwards, and waits for the next one; both numbers.
fn replace_and_reap(node: &mut PrivateNode) -> (u32, u32) {
    let old = node.mgbd_pid();
    node.kill_mgbd();
    let next = wait::until("another mgbd", || {
        let pid = Client::observe(&node.socket()).ok()?.hello().mgbd_pid;
        (pid != old).then_some(pid)
    });
    (old, next)
}

#[test]
fn a_third_one_comes_though_the_number_of_the_first_is_anothers() {
    let mut node = PrivateNode::start("1x64MiB", "mgb");
    let program = start(&node, "phases", &["20", "30", "100", "wait", "10", "8"]);
    wait::until("it holds room", || {
        holds(&node.view(), program.pid()).then_some(())
    });
    let (first, second) = replace_and_reap(&mut node);
    let Some(stranger) = Numbered::start(first) else {
        eprintln!("left out: only root can choose numbers of processes");
        return;
    };
    kill(second);
    let third = wait::until("a third mgbd", || {
        let pid = Client::observe(&node.socket()).ok()?.hello().mgbd_pid;
        (pid != second).then_some(pid)
    });
    assert!(stranger.runs());
    is_right(program);
    let third = rustix::process::Pid::from_raw(third as i32).expect("a process");
    rustix::process::kill_process(third, Signal::TERM).expect("it is there");
}

#[test]
fn a_socket_without_a_folder_in_its_name_is_gone_on_with() {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    node.start_mgbd_with("mgb", &["--socket", "mgbd.sock"]);
    let program = start(&node, "phases", &["20", "10", "100", "wait", "10", "8"]);
    wait::until("it holds room", || {
        holds(&node.view(), program.pid()).then_some(())
    });
    node.replace_mgbd(Signal::KILL);
    assert!(holds(&node.view(), program.pid()));
    is_right(program);
}

#[test]
fn the_next_build_is_found_by_the_name_that_mgbd_was_started_by() {
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    let at = |name: &str| node.folder().join(name);
    let (link, builds) = (at("mgbd"), [at("mgbd-1"), at("mgbd-2")]);
    for build in &builds {
        std::fs::copy(bin("mgbd"), build).expect("a file can be copied");
    }
    symlink(&builds[0], &link).expect("a link can be made");
    let mut command = node.command(&link, &[]);
    node.start_mgbd_as(&mut command);
    let program = start(&node, "phases", &["20", "10", "100", "wait", "10", "8"]);
    wait::until("it holds room", || {
        holds(&node.view(), program.pid()).then_some(())
    });
    std::fs::remove_file(&link).expect("it is there");
    symlink(&builds[1], &link).expect("a link can be made");
    node.replace_mgbd(Signal::KILL);
    let runs = std::fs::read_link(format!("/proc/{}/exe", node.mgbd_pid())).expect("it runs");
    assert_eq!(runs, builds[1]);
    is_right(program);
}

#[test]
fn a_lock_that_is_held_for_a_moment_keeps_nobody_down() {
    let node = PrivateNode::without_mgbd("1x64MiB");
    // As the holder of a killed one has it, which clears away.
    let path = mgb_probe::lock_path(&node.socket());
    let lock = std::fs::File::create(&path).expect("a file");
    lock.lock().expect("it is free");
    let has_it = |pid: u32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        let mut files = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        files.any(|file| file == path).then_some(())
    };
    let mut mgbd = RunningProgram::start(&mut node.mgbd(&[]));
    let pid = mgbd.pid();
    wait::until("it comes to the lock", || {
        has_it(pid).or_else(|| (!mgbd.runs()).then_some(()))
    });
    drop(lock);
    wait::until("it serves, or has ended", || {
        (Client::observe(&node.socket()).is_ok() || !mgbd.runs()).then_some(())
    });
    mgbd.signal(Signal::TERM);
    assert_eq!(mgbd.end().code(), 0);
}

#[test]
fn a_lock_file_that_is_removed_lets_no_second_one_in() {
    let mut node = PrivateNode::start("1x64MiB", "mgb");
    let program = start(&node, "phases", &["20", "10", "100", "wait", "10", "8"]);
    wait::until("it holds room", || {
        holds(&node.view(), program.pid()).then_some(())
    });
    std::fs::remove_file(mgb_probe::lock_path(&node.socket())).expect("it is there");
    let pid = node.mgbd_pid();
    let said = run(&mut node.mgbd(&[]));
    assert_eq!(said.code(), 3, "{said:?}");
    said.failure(&["already runs", &format!("(pid {pid})")]);
    is_right(program);
    node.replace_mgbd(Signal::KILL);
}

#[test]
fn a_suspension_ends_with_its_process_though_no_mgbd_saw_that() {
    let mut node = PrivateNode::start("1x64MiB", "mgb");
    let one = start(&node, "phases", &["20", "300", "400", "wait", "10", "8"]);
    let other = start(&node, "phases", &["20", "20", "200", "wait", "10", "8"]);
    for program in [&one, &other] {
        wait::until("it holds room", || {
            holds(&node.view(), program.pid()).then_some(())
        });
    }
    let pid = one.pid();
    run(&mut node.mgb(&["suspend", &pid.to_string()])).success();
    node.signal_mgbd(Signal::STOP);
    drop(one);
    node.replace_mgbd(Signal::KILL);
    // Another program has the number now.
    let vecadd = built::program("vecadd");
    let mut command = node.command(&vecadd, &[]);
    let Some(stranger) = Numbered::run(pid, command.env("MGB", "require")) else {
        eprintln!("left out: only root can choose numbers of processes");
        return;
    };
    assert!(stranger.ends_well(), "it is held back");
    is_right(other);
    node.wait_until_empty();
}

#[test]
fn nobody_is_started_for_nobody() {
    let mut node = PrivateNode::start("1x64MiB", "mgb");
    is_right(start(&node, "vecadd", &[]));
    node.wait_until_empty();
    node.kill_mgbd();
    std::thread::sleep(Duration::from_secs(1));
    let view = node.view_name();
    let lock = mgb_probe::lock_path(&node.socket());
    let file = std::fs::File::open(lock).expect("it is left");
    assert!(file.try_lock().is_ok(), "an mgbd runs");
    drop(file);
    let holder = node.folder().join("mgbd.sock.private/holder");
    wait::until("the holder ends", || (!holder.exists()).then_some(()));
    wait::until("nothing is left", || {
        let view = std::path::Path::new("/dev/shm").join(view.trim_start_matches('/'));
        (!view.exists() && !node.socket().exists()).then_some(())
    });
}

#[test]
fn what_people_want_holds_on() {
    let mut node = PrivateNode::start("2x64MiB", "mgb");
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
    let mut node = PrivateNode::start("2x64MiB", "mgb");
    let line = format!("{} 20 6 100 wait 10 8\n", built::program("phases").display());
    let jobs = node.write("jobs.txt", &line.repeat(8));
    let batch = RunningProgram::start(&mut node.mgb(&["batch", jobs.to_str().unwrap()]));
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
