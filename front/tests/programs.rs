//! The driver front under real programs: before a driver that notes its calls, before software GPUs, and
//! alone.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mgb_tests::node::Node;
use mgb_tests::prefix::softgpu_libraries;
use mgb_tests::process::{Ended, Running, run};
use mgb_tests::wait;

use common::{compile, folder, front, on, program};

/// The driver that notes its calls, in a folder of its own.
fn fake(folder: &Path) -> PathBuf {
    let output = folder.join("driver/libcuda.so.1");
    let flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"];
    compile("fake.c", &output, &flags);
    output
}

/// Runs a program with the front first in the search path, and `behind` next.
fn play(program: &Path, arguments: &[&str], behind: &Path, variables: &[(&str, &Path)]) -> Ended {
    let path = std::env::join_paths([front(), behind.to_owned()]).unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LD_LIBRARY_PATH", path)
        .env("MGB", "off")
        .env_remove("MGB_DRIVER");
    run(command.envs(variables.iter().copied()))
}

fn case(name: &str) -> String {
    let folder = folder(name);
    let (asks, driver) = (program("asks.c", &folder), fake(&folder));
    let ended = play(&asks, &[name], driver.parent().expect("a folder"), &[]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    ended.stdout + &ended.stderr
}

#[test]
fn every_function_of_the_driver_is_exported() {
    let done = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(front().join("libcuda.so.1")));
    let words = done.stdout.split_whitespace();
    let exported: std::collections::BTreeSet<&str> = words.collect();
    let missing: Vec<&str> = mgb_catalogue::driver::all()
        .iter()
        .map(|function| function.name)
        .filter(|name| !exported.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn arguments_reach_the_driver_as_they_are() {
    let output = case("arguments");
    let launch = "cuLaunchKernel 0x1 2 3 4 5 6 7 8 0x9 0xa 0xb\n";
    let rest = "cuIpcOpenMemHandle_v2 1 64 1\ncuTexRefSetMipmapLevelBias 0x5 0.250\n";
    assert_eq!(
        output,
        format!("cuInit 3\n{launch}{rest}{launch}{rest}PASS\n"),
        "every call once"
    );
}

#[test]
fn a_function_has_one_address_however_it_is_asked_for() {
    let output = case("addresses");
    assert!(
        output.contains("cuGetProcAddress_v2 cuLaunchKernel 4000 0"),
        "{output}"
    );
}

#[test]
fn what_the_table_does_not_know_is_the_drivers() {
    case("newer");
}

#[test]
fn what_the_driver_does_not_have_is_named_once() {
    let output = case("older");
    let said = "mgb: the program calls cuMemAlloc_v2, which the installed driver does not have";
    assert_eq!(output.matches(said).count(), 1, "{output}");
}

#[test]
fn thirty_two_threads_make_their_first_call_at_once() {
    case("threads");
}

#[test]
fn without_a_driver_calls_say_so() {
    let folder = folder("none");
    let asks = program("asks.c", &folder);
    // Whatever this machine has is not to be found.
    let nowhere = folder.join("libcuda.so.1");
    let ended = play(&asks, &["none"], &folder, &[("MGB_DRIVER", &nowhere)]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("found no NVIDIA driver behind MGB's libcuda.so.1")
            && ended.stderr.contains("name it in MGB_DRIVER"),
        "{ended:?}"
    );
}

#[test]
fn the_driver_can_be_named() {
    let folder = folder("named");
    let (asks, driver) = (program("asks.c", &folder), fake(&folder));
    let ended = play(&asks, &["threads"], &folder, &[("MGB_DRIVER", &driver)]);
    assert_eq!(ended.code(), 0, "{ended:?}");
}

#[test]
fn software_gpus_stand_behind_the_front() {
    let folder = folder("softgpu");
    let uses = program("uses.c", &folder);
    let two = [("SOFTGPU_DEVICES", Path::new("2x64MiB"))];
    let ended = play(&uses, &[], &softgpu_libraries(), &two);
    assert_eq!(
        (ended.code(), ended.stdout.as_str()),
        (0, "2 devices PASS\n"),
        "{ended:?}"
    );
}

#[test]
fn another_preloaded_library_comes_first() {
    let folder = folder("preloaded");
    let uses = program("uses.c", &folder);
    let preloaded = folder.join("libpreloaded.so");
    compile("preloaded.c", &preloaded, &["-shared", "-fPIC", "-ldl"]);
    let variables = [
        ("SOFTGPU_DEVICES", Path::new("1x64MiB")),
        ("LD_PRELOAD", preloaded.as_path()),
    ];
    let ended = play(&uses, &[], &softgpu_libraries(), &variables);
    assert_eq!(
        (ended.code(), ended.stdout.as_str()),
        (0, "preloaded: cuMemAlloc_v2 64\n1 devices PASS\n"),
        "{ended:?}"
    );
}

/// Whoever needs more than is free waits for it instead of failing.
fn waits_for_room(way: &str) {
    let holds = program("holds.c", &folder(&format!("room-{way}")));
    let node = Node::start("1x64MiB", "mgb");
    let start = |mode| {
        let mut command = on(&node, &holds, &[way, "1", "40", "600"]);
        Running::start(command.env("MGB", mode))
    };
    let natively = [start("off"), start("off")].map(|running| running.end().code());
    assert!(natively.contains(&1), "both fit natively, so this shows nothing");
    for ended in [start("require"), start("require"), start("require")].map(Running::end) {
        assert!(ended.stdout.ends_with("PASS\n"), "{ended:?}");
    }
    node.wait_until_empty();
}

#[test]
fn allocations_wait_for_room() {
    waits_for_room("alloc");
}

#[test]
fn created_memory_waits_for_room() {
    waits_for_room("create");
}

/// Programs that were not rebuilt cannot be swapped out: of those that wait only for each other one is
/// refused, and the others go on.
#[test]
fn of_programs_that_wait_for_each_other_one_is_refused() {
    let holds = program("holds.c", &folder("deadlock"));
    let node = Node::start("1x64MiB", "mgb");
    let start = || Running::start(on(&node, &holds, &["alloc", "5", "8", "600"]).env("MGB", "require"));
    let ended = [start(), start(), start()].map(Running::end);
    let (done, refused): (Vec<&Ended>, Vec<&Ended>) = ended.iter().partition(|ended| ended.code() == 0);
    assert!(!done.is_empty(), "{ended:?}");
    let says = |ended: &&&Ended| {
        ended
            .stderr
            .contains("every process on the GPU waits for more memory")
    };
    assert_eq!(refused.iter().filter(says).count(), refused.len(), "{ended:?}");
    node.wait_until_empty();
}

#[test]
fn programs_go_where_room_is() {
    let holds = program("holds.c", &folder("places"));
    let node = Node::start("2x64MiB", "mgb");
    let began = Instant::now();
    let both = [(); 2]
        .map(|()| Running::start(on(&node, &holds, &["alloc", "5", "8", "1500"]).env("MGB", "require")));
    let seen = wait::until("both hold their memory", || {
        let view = node.view();
        let gpus: Vec<u32> = view.tasks.iter().map(|task| task.gpu).collect();
        let held = view.gpus.iter().all(|gpu| gpu.resident_bytes >= 40 << 20);
        (held && gpus.len() == 2).then_some(gpus)
    });
    assert_ne!(seen[0], seen[1]);
    for ended in both.map(Running::end) {
        assert!(ended.stdout.ends_with("PASS\n"), "{ended:?}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "one waited for the other"
    );
    node.wait_until_empty();
}

#[test]
fn what_can_never_fit_is_refused_at_once() {
    let holds = program("holds.c", &folder("never"));
    let node = Node::start("1x64MiB", "mgb");
    let ended = run(on(&node, &holds, &["alloc", "1", "80", "0"]).env("MGB", "require"));
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(
        ended.stdout.contains("cuMemAlloc") && ended.stdout.contains(": 2,"),
        "{ended:?}"
    );
    assert!(
        ended.stderr.contains("failed to allocate device memory"),
        "{ended:?}"
    );
    // More than a sum can hold: 2^64 bytes less 1 MiB.
    let ended = run(on(&node, &holds, &["alloc", "1", "-1", "0"]).env("MGB", "require"));
    assert_eq!(ended.code(), 1, "{ended:?}");
    node.wait_until_empty();
}

#[test]
fn freed_memory_is_given_back_while_the_program_lives() {
    let holds = program("holds.c", &folder("back"));
    let node = Node::start("1x64MiB", "mgb");
    for way in ["alloc", "create", "reset"] {
        let mut command = on(&node, &holds, &[way, "5", "8", "0"]);
        let mut child = command
            .env("MGB", "require")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait::until("the program has freed all but what it keeps spare", || {
            let view = node.view();
            let task = view.tasks.iter().find(|task| task.pid == child.id())?;
            let resident = view.gpus[0].resident_bytes;
            (resident == 0 && task.reserved_bytes > 0 && task.reserved_bytes <= 32 << 20).then_some(())
        });
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        node.wait_until_empty();
    }
}

#[test]
fn a_killed_program_leaves_no_room_behind() {
    let holds = program("holds.c", &folder("killed"));
    let node = Node::start("1x64MiB", "mgb");
    let mut command = on(&node, &holds, &["alloc", "5", "8", "60000"]);
    let mut child = command
        .env("MGB", "require")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait::until("it holds memory", || {
        (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    node.wait_until_empty();
}
