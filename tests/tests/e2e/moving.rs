//! Tasks that go on, on another GPU.

use std::time::{Duration, Instant};

use mgb_probe::view::{Counts, TaskState};
use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::{trace, wait};

fn start(node: &PrivateNode, name: &str, arguments: &[&str]) -> RunningProgram {
    let mut command = node.command(built::program(name), arguments);
    RunningProgram::start(command.env("MGB", "require"))
}

fn is_right(running: RunningProgram) {
    let ended = running.end();
    assert!(ended.code() == 0 && ended.stdout.ends_with("PASS\n"), "{ended:?}");
}

/// The GPU of a process that holds so many MiB.
fn gpu_of(node: &PrivateNode, pid: u32, mib: u64) -> u32 {
    wait::until("it holds its memory", || {
        let tasks = node.view().tasks;
        let is_it = |task: &&mgb_probe::view::TaskView| task.pid == pid && task.held_bytes >= mib << 20;
        tasks.iter().find(is_it).map(|task| task.gpu)
    })
}

#[test]
fn a_person_moves_a_program_there_and_back() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let file = node.folder().join("trace.jsonl");
    let mut command = node.command(built::program("phases"), &["40", "5", "600", "wait", "10", "8"]);
    let program = RunningProgram::start(command.env("MGB", "require").env("MGB_TRACE", &file));
    let pid = program.pid().to_string();
    let first = gpu_of(&node, program.pid(), 40);
    let other = 1 - first;
    for gpu in [other, first, other] {
        let said = run(&mut node.mgb(&["move", &pid, &gpu.to_string()])).success();
        assert_eq!(said, format!("process {pid} goes on, on GPU {gpu}\n"));
        let view = node.view();
        assert_eq!(view.gpus[gpu as usize].reserved_bytes, 40 << 20);
        assert_eq!(view.gpus[1 - gpu as usize].reserved_bytes, 0);
    }
    let said = run(&mut node.mgb(&["move", &pid, &other.to_string(), "--json"])).success();
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["moved"], &said["was_there"]), (&true.into(), &true.into()));
    is_right(program);
    node.wait_until_empty();
    let counts = node.view().counts;
    assert_eq!((counts.moved, counts.moved_bytes), (3, 3 * (40 << 20)));
    let process = &trace::read(&file).expect("it has left a line")[0];
    let gpus: Vec<u32> = process.tasks[0].spans.iter().map(|span| span.gpu).collect();
    assert_eq!(gpus, [first, other, first, other]);
    let moved: Vec<_> = process.tasks[0].swaps.iter().map(|swap| &*swap.kind).collect();
    assert_eq!(moved, ["moved"; 3]);
}

#[test]
fn people_are_told_why_a_program_stays() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let said = run(&mut node.mgb(&["move", "1", "0"]));
    assert_eq!(said.code(), 1);
    assert!(said.stderr.contains("mgbd knows no process 1"), "{said:?}");
    let said = run(&mut node.mgb(&["move", "1", "7"]));
    assert_eq!(said.code(), 2);
    assert!(
        said.stderr.contains("mgbd shares no GPU 7: it has GPUs 0 to 1"),
        "{said:?}"
    );
    let two = [(); 2].map(|()| start(&node, "phases", &["40", "1", "3000", "wait", "10", "8"]));
    let at = two.each_ref().map(|one| gpu_of(&node, one.pid(), 40));
    assert_ne!(at[0], at[1]);
    let said = run(&mut node.mgb(&["move", &two[0].pid().to_string(), &at[1].to_string()]));
    assert_eq!(said.code(), 1);
    assert!(
        said.stderr
            .contains("it needs 40.2 MiB there, and 23.8 MiB are left"),
        "{said:?}"
    );
    two.into_iter().for_each(is_right);
    let tied = start(&node, "symbol", &["4096", "3000"]);
    let pid = tied.pid();
    wait::until("it has a task", || {
        node.view().tasks.iter().any(|task| task.pid == pid).then_some(())
    });
    let said = run(&mut node.mgb(&["move", &pid.to_string(), "1"]));
    assert_eq!(said.code(), 1);
    assert!(
        said.stderr.contains("none of its tasks can go on elsewhere"),
        "{said:?}"
    );
    drop(tied);
}

/// Two programs that each fill a GPU, on one of two: what mgbd counted.
fn two_on_one_gpu(options: &[&str]) -> Counts {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    node.start_mgbd_with("mgb", options);
    let two = [(); 2].map(|()| start(&node, "phases", &["4", "100", "1", "wait", "50", "1056"]));
    let at = two.each_ref().map(|one| gpu_of(&node, one.pid(), 4));
    assert_ne!(at[0], at[1]);
    run(&mut node.mgb(&["move", &two[0].pid().to_string(), &at[1].to_string()])).success();
    two.into_iter().for_each(is_right);
    node.wait_until_empty();
    node.view().counts
}

#[test]
fn an_idle_gpu_takes_over_work() {
    let counts = two_on_one_gpu(&[]);
    assert_eq!((counts.moved, counts.moves_failed), (2, 0), "{counts:?}");
    let counts = two_on_one_gpu(&["--no-move"]);
    assert_eq!((counts.moved, counts.moves_failed), (1, 0), "{counts:?}");
}

#[test]
fn a_task_moves_to_make_room_for_one_that_waits() {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    node.start_mgbd_with("mgb", &["--no-swap"]);
    // One on each GPU, and no room for a large one on either.
    let small = [(); 2].map(|()| start(&node, "phases", &["20", "4", "1500", "wait", "10", "8"]));
    for one in &small {
        gpu_of(&node, one.pid(), 20);
    }
    let large = start(&node, "phases", &["50", "1", "1", "wait", "10", "8"]);
    let waited = Instant::now();
    gpu_of(&node, large.pid(), 50);
    assert!(
        waited.elapsed() < Duration::from_secs(4),
        "{:?}",
        waited.elapsed()
    );
    // Once it has ended, a small one may move to the GPU that it left.
    let counts = node.view().counts;
    assert_eq!((counts.moved, counts.evicted), (1, 0), "{counts:?}");
    is_right(large);
    small.into_iter().for_each(is_right);
    node.wait_until_empty();
    assert_eq!(node.view().counts.evicted, 0);
}

#[test]
fn memory_comes_back_where_there_is_room() {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    // No more can leave for it: it has to go where there is room.
    node.start_mgbd_with("mgb", &["--swap-memory", "45MiB"]);
    let idle = start(&node, "phases", &["40", "2", "3000", "wait", "10", "8"]);
    let gpu = gpu_of(&node, idle.pid(), 40);
    // Neither GPU has room for it, so it leaves for the host.
    let other = start(&node, "phases", &["60", "1", "4500", "wait", "10", "8"]);
    gpu_of(&node, other.pid(), 60);
    let third = start(&node, "phases", &["60", "1", "8000", "wait", "10", "8"]);
    assert_eq!(gpu_of(&node, third.pid(), 60), gpu);
    wait::until("it is evicted", || {
        let tasks = node.view().tasks;
        let own = tasks.iter().find(|task| task.pid == idle.pid());
        own.filter(|task| task.state == TaskState::Evicted).map(drop)
    });
    is_right(other);
    let at = gpu_of(&node, idle.pid(), 40);
    assert_ne!(at, gpu);
    is_right(idle);
    is_right(third);
    node.wait_until_empty();
}

#[test]
fn a_drained_gpu_sends_its_tasks_to_another() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let busy = start(&node, "phases", &["40", "60", "1", "wait", "10", "8"]);
    let gpu = gpu_of(&node, busy.pid(), 40);
    let said = run(&mut node.mgb(&["drain", &gpu.to_string()])).success();
    assert!(said.starts_with(&format!("GPU {gpu} is drained")), "{said}");
    assert_eq!(gpu_of(&node, busy.pid(), 40), 1 - gpu);
    is_right(busy);
    assert_eq!(node.view().counts.evicted, 0);
}

/// Programs that are movable, and what makes them run for a while.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("lists", &["200", "100"]),
    ("phases", &["16", "40", "10", "compute", "4", "8"]),
    ("pauses", &["16", "30", "10", "4", "8"]),
    ("threads", &["60000", "40"]),
    ("twotasks", &["262144", "262144"]),
    ("stencil", &["20000", "300"]),
];

#[test]
fn nothing_is_lost_however_often_tasks_move_and_leave() {
    let mut node = PrivateNode::without_mgbd("3x128MiB");
    node.start_mgbd_with("mgb", &["--move-every", "2"]);
    for (name, arguments) in PROGRAMS {
        let all = [(); 3].map(|()| {
            let mut command = node.command(built::program(name), arguments);
            RunningProgram::start(command.env("MGB", "require").env("MGB_EVICT_EVERY", "10"))
        });
        for running in all {
            let ended = running.end();
            assert!(
                ended.code() == 0 && ended.stdout.contains("PASS"),
                "{name}: {ended:?}"
            );
        }
    }
    node.wait_until_empty();
    let counts = node.view().counts;
    assert!(counts.moved > 20 && counts.evicted == 0, "{counts:?}");
}

#[test]
fn room_on_both_gpus_comes_back_from_who_is_killed_on_the_way() {
    let mut node = PrivateNode::without_mgbd("2x64MiB");
    node.start_mgbd_with("mgb", &["--move-every", "1"]);
    let rounds = std::env::var("MGB_MOVE_ROUNDS").map_or(20, |text| text.parse().expect("a number"));
    for round in 0..rounds {
        let one = start(&node, "phases", &["40", "1000", "1", "wait", "10", "8"]);
        gpu_of(&node, one.pid(), 40);
        std::thread::sleep(Duration::from_millis(17 * round % 300));
        drop(one);
        node.wait_until_empty();
    }
    let counts = node.view().counts;
    assert!(counts.moved > 0 && counts.offenders == 0, "{counts:?}");
}

#[test]
fn programs_go_on_when_mgbd_is_killed_under_their_moves() {
    for round in 0..6 {
        let mut node = PrivateNode::without_mgbd("2x64MiB");
        node.start_mgbd_with("mgb", &["--move-every", "1"]);
        let one = start(&node, "phases", &["20", "40", "20", "wait", "10", "8"]);
        gpu_of(&node, one.pid(), 20);
        std::thread::sleep(Duration::from_millis(100 + 13 * round));
        node.kill_mgbd();
        is_right(one);
    }
}
