//! What programs do around the driver: fork, run another program in their place, ask and allocate at once,
//! load tools.

mod common;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mgb_probe::Class;
use mgb_probe::wire::AGENT;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::softgpu_libraries;
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;

use common::{compile, folder, on, program, view};

/// A forked child gets an error from the driver, as natively, whatever other threads of its parent did.
#[test]
fn forked_children_hang_in_no_call() {
    let forks = program("forks.c", &folder("forks"));
    let node = PrivateNode::start("1x256MiB", "mgb");
    let said = |mode| {
        let mut command = on(&node, &forks, &["3"]);
        run(command.env("MGB", mode)).success()
    };
    let natively = said("off");
    assert!(!natively.contains(": 30 hung"), "{natively}");
    assert_eq!(said("require"), natively);
    node.wait_until_empty();
}

/// A program that was not built with MGB says by the front that others wait for it.
#[test]
fn a_program_becomes_a_latency_program() {
    let says = program("says.c", &folder("says"));
    let node = PrivateNode::start("1x64MiB", "mgb");
    for when in ["early", "late"] {
        let until = node.folder().join(when);
        let mut command = on(&node, &says, &[when, until.to_str().unwrap()]);
        let process = RunningProgram::start(command.env("MGB", "require"));
        wait::until("it is a latency program", || {
            let tasks = view(&node).tasks;
            tasks
                .iter()
                .any(|task| task.class == Class::Latency)
                .then_some(())
        });
        node.write(when, "");
        let ended = process.end();
        assert!(ended.stdout == "PASS\n" && ended.stderr.is_empty(), "{ended:?}");
        node.wait_until_empty();
    }
}

/// What a program held is given back when it runs another one in its place, though its process lives on; a
/// program that has closed all its files holds what it held.
#[test]
fn another_program_in_the_process_holds_nothing() {
    let becomes = program("becomes.c", &folder("becomes"));
    let node = PrivateNode::start("1x64MiB", "mgb");
    let in_proc =
        |running: &RunningProgram, what: &str| PathBuf::from(format!("/proc/{}/{what}", running.pid()));
    let start = |way: &str| {
        let go = node.folder().join(way);
        let arguments = [way, "40", go.to_str().expect("a path in text")];
        let running = RunningProgram::start(on(&node, &becomes, &arguments).env("MGB", "require"));
        wait::until("the program has its memory", || {
            (node.view().gpus[0].reserved_bytes >= 40 << 20).then_some(())
        });
        // By its thread mgbd tells a program from another one in its place: until it listens, what the program
        // holds stays charged for as long as the process lives.
        wait::until("its agent listens", || {
            let threads = std::fs::read_dir(in_proc(&running, "task")).ok()?;
            let names =
                threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
            names
                .into_iter()
                .any(|name| name.trim_end() == AGENT)
                .then_some(())
        });
        std::thread::sleep(Duration::from_millis(50));
        std::fs::write(go, "").expect("the node's folder can be written");
        running
    };

    let closes = start("closes");
    wait::until("the program has only its standard files", || {
        let files = std::fs::read_dir(in_proc(&closes, "fd")).map_or(0, Iterator::count);
        (files == 3).then_some(())
    });
    for _ in 0..3 {
        let view = view(&node);
        assert!(view.gpus[0].reserved_bytes >= 40 << 20, "{view:?}");
    }
    drop(closes);
    node.wait_until_empty();

    let mut executes = start("exec");
    wait::until("the program has become another one", || {
        let name = std::fs::read_to_string(in_proc(&executes, "comm")).unwrap_or_default();
        (name.trim_end() == "sleep").then_some(())
    });
    wait::until("its memory is given back", || {
        let gpu = &node.view().gpus[0];
        (gpu.reserved_bytes == 0 && gpu.reclaiming_bytes == 0).then_some(())
    });
    assert!(executes.runs());
}

/// What is free is known at once, also while another thread allocates.
#[test]
fn asking_for_room_waits_for_nothing() {
    let asks = program("asks_room.c", &folder("asks-room"));
    let node = PrivateNode::start("1x256MiB", "mgb");
    let began = Instant::now();
    let ended = run(on(&node, &asks, &[]).env("MGB", "require"));
    assert!(ended.stdout.ends_with("PASS\n"), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    node.wait_until_empty();
}

/// A tool that the driver loads as it is initialised initialises the driver itself.
#[test]
fn the_driver_is_initialised_within_its_initialisation() {
    let folder = folder("injects");
    let holds = program("holds.c", &folder);
    let driver = folder.join("driver/libcuda.so.1");
    let soft = softgpu_libraries();
    let (search, path) = (
        format!("-L{}", soft.display()),
        format!("-Wl,-rpath,{}", soft.display()),
    );
    let runtime = "-l:libcudart.so.13";
    let flags = [
        "-shared",
        "-fPIC",
        "-Wl,-soname,libinjects.so",
        "-Wl,--no-as-needed",
        &search,
        runtime,
        &path,
        "-ldl",
    ];
    compile("injects.c", &driver, &flags);
    let node = PrivateNode::start("1x64MiB", "mgb");
    let mut command = on(&node, &holds, &["alloc", "1", "8", "0"]);
    command
        .env("MGB", "require")
        .env("MGB_DRIVER", &driver)
        .stdin(Stdio::null());
    let ended = run(&mut command);
    assert_eq!(ended.stdout, "tool: 0\nholds\nfreed\nPASS\n", "{ended:?}");
    node.wait_until_empty();
}
