//! Memory that the driver takes by itself, for graphs and pools, and memory that goes to other processes: under
//! the front, on software GPUs.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::softgpu_libraries;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;

use common::{compile, folder, front, on, on_behind, program, view};

const MIB: u64 = 1 << 20;

/// A program that says which stage it has come to, and waits there until it is told to go on.
struct Staged {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Staged {
    fn start(command: &mut Command) -> Staged {
        let command = command.env("MGB", "require").stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Staged { child, output }
    }

    #[track_caller]
    fn comes_to(&mut self, stage: &str) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), stage);
    }

    fn goes_on(&mut self) {
        self.child
            .stdin
            .as_mut()
            .expect("piped")
            .write_all(b"\n")
            .unwrap();
    }

    #[track_caller]
    fn ends(mut self) {
        self.comes_to("PASS");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reserved and resident bytes of GPUs, in MiB.
fn charged(node: &PrivateNode) -> Vec<(u64, u64)> {
    let gpus = view(node).gpus;
    gpus.iter()
        .map(|gpu| (gpu.reserved_bytes / MIB, gpu.resident_bytes / MIB))
        .collect()
}

/// A graph takes what its nodes have, however these came into it, once there is room: beside a program that leaves
/// too little it waits. What it takes is charged, until it is trimmed.
#[test]
fn graphs_wait_for_what_their_nodes_take() {
    let folder = folder("nodes");
    let (nodes, holds) = (program("nodes.c", &folder), program("holds.c", &folder));
    for way in [
        "node", "any", "child", "clone", "captured", "update", "upload", "params",
    ] {
        // mgbd would remember how far it grows.
        let mut node = PrivateNode::without_mgbd("1x96MiB");
        node.start_mgbd_with("mgb", &["--no-swap"]);
        let mut command = on(&node, &holds, &["alloc", "1", "70", "600000"]);
        let other = RunningProgram::start(command.env("MGB", "require"));
        wait::until("the other holds its memory", || {
            (charged(&node)[0].1 >= 70).then_some(())
        });
        let mut graph = Staged::start(&mut on(&node, &nodes, &[way, "4", "10"]));
        let pid = graph.child.id();
        wait::until("the graph waits for room", || {
            view(&node)
                .queue
                .iter()
                .any(|waits| waits.pid == pid)
                .then_some(())
        });
        drop(other);
        graph.comes_to("taken");
        wait::until("what the graph holds is charged, and no more", || {
            (charged(&node)[0] == (40, 40)).then_some(())
        });
        graph.goes_on();
        graph.comes_to("trimmed");
        wait::until("what was trimmed is given back", || {
            (charged(&node)[0] == (0, 0)).then_some(())
        });
        graph.goes_on();
        graph.ends();
        node.wait_until_empty();
    }
}

/// Nodes count as they are added, where a driver does not list them.
#[test]
fn nodes_that_no_driver_lists_count() {
    let folder = folder("unlisted");
    let (nodes, driver) = (program("nodes.c", &folder), folder.join("driver/libcuda.so.1"));
    let soft = softgpu_libraries().display().to_string();
    let (path, run_path) = (format!("-L{soft}"), format!("-Wl,-rpath,{soft}"));
    let flags = [
        "-shared",
        "-fPIC",
        "-Wl,--no-as-needed",
        &path,
        "-l:libcudart.so.13",
        &run_path,
    ];
    compile("unlisted.c", &driver, &flags);
    for way in ["node", "any"] {
        let node = PrivateNode::start("1x96MiB", "mgb");
        let mut command = on(&node, &nodes, &[way, "4", "10"]);
        let mut graph = Staged::start(command.env("MGB_DRIVER", &driver));
        graph.comes_to("taken");
        wait::until("what the graph holds is charged", || {
            (charged(&node)[0] == (40, 40)).then_some(())
        });
        graph.goes_on();
        graph.comes_to("trimmed");
        graph.goes_on();
        graph.ends();
        node.wait_until_empty();
    }
}

/// A program never waits for memory that its own graphs keep and do not use, as it does not natively.
#[test]
fn graphs_that_do_not_run_make_room_for_their_own_program() {
    let nodes = program("nodes.c", &folder("turns"));
    for _ in 0..4 {
        let node = PrivateNode::start("1x64MiB", "mgb");
        let mut command = on(&node, &nodes, &["turns", "4", "10"]);
        let ended = RunningProgram::start(command.env("MGB", "require")).end();
        assert_eq!((ended.code(), ended.stdout.as_str()), (0, "PASS\n"), "{ended:?}");
        assert!(ended.stderr.is_empty(), "{ended:?}");
        node.wait_until_empty();
    }
}

#[test]
fn pools_of_host_memory_are_not_charged() {
    let pools = program("pools.c", &folder("host-pools"));
    let node = PrivateNode::start("1x64MiB", "mgb");
    // More than the GPU has.
    let mut host = Staged::start(&mut on(&node, &pools, &["host", "200"]));
    host.comes_to("taken");
    assert_eq!(charged(&node), [(0, 0)]);
    for stage in ["destroyed", "freed"] {
        host.goes_on();
        host.comes_to(stage);
    }
    host.goes_on();
    host.ends();
    node.wait_until_empty();
}

#[test]
fn a_pool_is_charged_on_its_own_device() {
    let pools = program("pools.c", &folder("other-pools"));
    let node = PrivateNode::start("2x64MiB", "mgb");
    let mut other = Staged::start(&mut on(&node, &pools, &["other", "20"]));
    other.comes_to("taken");
    let first = view(&node)
        .tasks
        .first()
        .map(|task| task.gpu)
        .expect("it has a task");
    wait::until("the pool is charged", || {
        let charged = charged(&node);
        (charged[first as usize] == (0, 0) && charged[1 - first as usize] == (20, 20)).then_some(())
    });
    for stage in ["destroyed", "freed"] {
        other.goes_on();
        other.comes_to(stage);
    }
    other.goes_on();
    other.ends();
    node.wait_until_empty();
}

/// Memory of a pool that was destroyed before it is charged as long as it is there.
#[test]
fn a_destroyed_pool_is_charged_until_its_memory_is_freed() {
    let pools = program("pools.c", &folder("ended-pools"));
    let node = PrivateNode::start("1x64MiB", "mgb");
    let mut ended = Staged::start(&mut on(&node, &pools, &["ended", "20"]));
    ended.comes_to("taken");
    ended.goes_on();
    ended.comes_to("destroyed");
    wait::until("it is charged", || (charged(&node) == [(20, 20)]).then_some(()));
    ended.goes_on();
    ended.comes_to("freed");
    wait::until("it is given back while the program lives", || {
        (charged(&node) == [(0, 0)]).then_some(())
    });
    ended.goes_on();
    ended.ends();
    node.wait_until_empty();
}

/// `hands.c`, which uses the runtime.
fn hands(test: &str) -> PathBuf {
    let output = folder(test).join("hands");
    let library = softgpu_libraries().join("libcudart.so.13").display().to_string();
    compile("hands.c", &output, &[&library, "-ldl"]);
    output
}

fn hands_over(way: &str) {
    let program = hands(&format!("hands-{way}"));
    let node = PrivateNode::start("1x64MiB", "mgb");
    let ended = run(on_behind(&node, &program, &[way], &front()).env("MGB", "require"));
    assert_eq!((ended.code(), ended.stdout.as_str()), (0, "PASS\n"), "{ended:?}");
    node.wait_until_empty();
}

/// Other memory at the same addresses is other memory, also for a process that has the first one open still.
#[test]
fn a_reused_address_is_opened_anew() {
    hands_over("again");
}

#[test]
fn a_handle_is_had_while_a_stream_captures() {
    hands_over("captures");
}

#[test]
fn a_handle_is_had_while_the_gpu_works() {
    hands_over("busy");
}

#[test]
fn a_handle_to_an_inner_address_is_one_to_its_allocation() {
    hands_over("inner");
}

#[test]
fn memory_says_that_it_can_be_handed_over() {
    hands_over("asks");
}

/// Without an arena the memory is the driver's own: charged, and handed over by the driver's own handles.
#[test]
fn memory_is_the_drivers_own_without_an_arena() {
    let test = folder("plain");
    let (kind, holds) = (hands("plain"), program("holds.c", &test));
    let node = PrivateNode::start("1x64MiB", "mgb");
    for (arena, handle) in [("on", "mgb PASS\n"), ("off", "sgp PASS\n")] {
        let mut command = on_behind(&node, &kind, &["kind"], &front());
        let ended = run(command.env("MGB", "require").env("MGB_ARENA", arena));
        assert_eq!((ended.code(), ended.stdout.as_str()), (0, handle), "{ended:?}");
    }
    // No two of these fit natively.
    let start = || {
        let mut command = on(&node, &holds, &["alloc", "1", "40", "300"]);
        RunningProgram::start(command.env("MGB", "require").env("MGB_ARENA", "off"))
    };
    for ended in [start(), start(), start()].map(RunningProgram::end) {
        assert!(ended.stdout.ends_with("PASS\n"), "{ended:?}");
    }
    node.wait_until_empty();
    assert_eq!(node.view().counts.evicted, 0, "it cannot be swapped");
}

/// A server that reckons from free memory what it has taken is not misled by neighbours that come and go, where it
/// has a GPU of its own size: natively it would take what it took for its own, and give up where memory came free.
#[test]
fn a_program_with_a_limit_sees_a_gpu_of_that_size() {
    let folder = folder("limits");
    let (profiles, holds) = (program("profiles.c", &folder), program("holds.c", &folder));
    let node = PrivateNode::start("1x256MiB", "mgb");
    let hold =
        |mib| RunningProgram::start(on(&node, &holds, &["alloc", "1", mib, "600000"]).env("MGB", "require"));
    let has = |mib| {
        wait::until("a neighbour holds its memory", || {
            (charged(&node)[0].1 == mib).then_some(())
        });
    };
    let first = hold("50");
    has(50);
    let mut command = on(&node, &profiles, &["90"]);
    let mut server = Staged::start(command.env("MGB_GPU_MEMORY", "100MiB"));
    server.comes_to("total 100 100 MiB, free 100 MiB");
    server.comes_to("profiles");
    has(80);
    drop(first);
    has(30);
    let second = hold("20");
    has(50);
    server.goes_on();
    server.comes_to("used 30 MiB, cache 60 MiB");
    server.comes_to("too much: 2");
    server.comes_to("serves");
    drop(second);
    has(80);
    server.goes_on();
    server.ends();
    node.wait_until_empty();
}
