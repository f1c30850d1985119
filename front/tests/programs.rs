//! The driver front under real programs: before a driver that notes its calls, before software GPUs, and
//! alone.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::softgpu_libraries;
use mgb_tests::process::{Ended, RunningProgram, run};
use mgb_tests::wait;

use common::{compile, folder, front, on, program, view};

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

fn waits_for_room(way: &str) {
    common::waits_for_room(&program("holds.c", &folder(&format!("room-{way}"))), way);
}

#[test]
fn allocations_wait_for_room() {
    waits_for_room("alloc");
}

/// The driver lacks memory of its own in a call that allocates nothing: the call is made again once others
/// have gone.
#[test]
fn a_call_that_lacks_memory_waits_for_room() {
    let holds = program("holds.c", &folder("lacks"));
    // The other's idle memory is to stay where it is.
    let mut node = PrivateNode::without_mgbd("1x64MiB");
    node.start_mgbd_with("mgb", &["--no-swap"]);
    let start = |arguments: &[&str], fails: &str| {
        let mut command = on(&node, &holds, arguments);
        command.env("MGB", "require").env("SOFTGPU_FAIL", fails);
        RunningProgram::start(&mut command)
    };
    let mut other = start(&["alloc", "1", "40", "600"], "");
    wait::until("the other holds its memory", || {
        (view(&node).gpus[0].reserved_bytes >= 40 << 20).then_some(())
    });
    let ended = start(&["alloc", "1", "4", "0"], "oom@copy=1").end();
    assert!(!other.runs(), "it was to wait: {ended:?}");
    assert!(ended.stdout.ends_with("PASS\n"), "{ended:?}");
    assert!(ended.stderr.contains("no memory for this call"), "{ended:?}");
    node.wait_until_empty();
}

#[test]
fn memory_lies_before_the_first_allocation() {
    let before = program("before.c", &folder("before"));
    let node = PrivateNode::start("1x1GiB", "mgb");
    let run = |mode| {
        let mut command = on(&node, &before, &[]);
        RunningProgram::start(command.env("MGB", mode)).end()
    };
    assert_eq!(run("off").code(), 1, "software GPUs have nothing there");
    assert_eq!(run("require").success(), "PASS\n");
    node.wait_until_empty();
}

#[test]
fn created_memory_waits_for_room() {
    waits_for_room("create");
}

#[test]
fn pools_wait_for_room() {
    waits_for_room("async");
}

#[test]
fn managed_memory_waits_for_room() {
    waits_for_room("managed");
}

#[test]
fn arrays_wait_for_room() {
    waits_for_room("array");
}

/// Each needs more than half of the GPU, and has a part of it when the other asks for more: the younger one's
/// memory goes to the host and comes back. Its other threads stop meanwhile.
#[test]
fn programs_that_wait_for_each_other_are_swapped() {
    let grows = program("grows.c", &folder("swap"));
    for threads in ["0", "4"] {
        // Another one would remember how far they grow, and begin them one after another.
        let node = PrivateNode::start("1x96MiB", "mgb");
        let start =
            || RunningProgram::start(on(&node, &grows, &["7", "8", "100", threads]).env("MGB", "require"));
        for ended in [start(), start(), start(), start()].map(RunningProgram::end) {
            assert!(
                ended.stdout.ends_with("PASS\n") && ended.stderr.is_empty(),
                "{ended:?}"
            );
        }
        assert!(
            node.view().counts.swapped_out > 0,
            "nothing was swapped, so this shows nothing"
        );
        node.wait_until_empty();
    }
}

/// A program may end while its memory is in the host and its gate closed.
#[test]
fn a_program_ends_while_it_is_swapped_out() {
    let folder = folder("ends");
    let (grows, ends) = (program("grows.c", &folder), program("ends.c", &folder));
    // It makes room as it waits, not because it is idle.
    let mut node = PrivateNode::without_mgbd("1x96MiB");
    node.start_mgbd_with("mgb", &["--no-swap"]);
    let other = RunningProgram::start(on(&node, &grows, &["2", "44", "2000"]).env("MGB", "require"));
    wait::until("the other has its first part", || {
        (node.view().gpus[0].resident_bytes >= 44 << 20).then_some(())
    });
    let ended = run(on(&node, &ends, &["40", "30", "2700"]).env("MGB", "require"));
    assert_eq!((ended.code(), ended.stdout.as_str()), (3, "ends\n"), "{ended:?}");
    assert!(
        node.view().gpus[0].resident_bytes >= 88 << 20,
        "it waited for the other"
    );
    assert_eq!(node.view().counts.swapped_out, 1, "it was not swapped out");
    assert!(other.end().stdout.ends_with("PASS\n"));
    node.wait_until_empty();
}

#[test]
fn programs_go_where_room_is() {
    let holds = program("holds.c", &folder("places"));
    let node = PrivateNode::start("2x64MiB", "mgb");
    let began = Instant::now();
    let both = [(); 2].map(|()| {
        RunningProgram::start(on(&node, &holds, &["alloc", "5", "8", "1500"]).env("MGB", "require"))
    });
    let seen = wait::until("both hold their memory", || {
        let view = node.view();
        let gpus: Vec<u32> = view.tasks.iter().map(|task| task.gpu).collect();
        let held = view.gpus.iter().all(|gpu| gpu.resident_bytes >= 40 << 20);
        (held && gpus.len() == 2).then_some(gpus)
    });
    assert_ne!(seen[0], seen[1]);
    for ended in both.map(RunningProgram::end) {
        assert!(ended.stdout.ends_with("PASS\n"), "{ended:?}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "one waited for the other"
    );
    node.wait_until_empty();
}

/// Blocks of the arena go to another process by handles, as the driver's own allocations do; what was shared
/// is not swapped, and is given back when it is freed.
#[test]
fn other_processes_open_memory() {
    let shares = program("shares.c", &folder("shares"));
    let node = PrivateNode::start("1x64MiB", "mgb");
    for mode in ["require", "off"] {
        let ended = run(on(&node, &shares, &[]).env("MGB", mode));
        assert_eq!(
            (ended.code(), ended.stdout.as_str()),
            (0, "PASS\n"),
            "{mode}: {ended:?}"
        );
    }
    node.wait_until_empty();
}

/// An allocator that is known to keep freed memory is refused once before it waits; any other code waits, also
/// in a program that has such an allocator.
#[test]
fn allocators_with_a_cache_are_refused_first() {
    let folder = folder("caches");
    let holds = program("holds.c", &folder);
    let caches = folder.join("caches");
    let front = front().join("libcuda.so.1").display().to_string();
    compile("caches.c", &caches, &[&front, "-ldl"]);
    let library = folder.join("libc10_cuda.so");
    compile("allocator.c", &library, &["-shared", "-fPIC", &front]);
    let library = library.display().to_string();
    let node = PrivateNode::start("1x64MiB", "mgb");
    for (who, output) in [("own", "first 2\nagain 0\nPASS\n"), ("other", "first 0\nPASS\n")] {
        let holder =
            RunningProgram::start(on(&node, &holds, &["alloc", "1", "40", "1500"]).env("MGB", "require"));
        wait::until("the memory is taken", || {
            (node.view().gpus[0].resident_bytes >= 40 << 20).then_some(())
        });
        let ended = run(on(&node, &caches, &[&library, who]).env("MGB", "require"));
        assert_eq!(
            (ended.code(), ended.stdout.as_str()),
            (0, output),
            "{who}: {ended:?}"
        );
        assert_eq!(holder.end().code(), 0);
    }
    node.wait_until_empty();
}

/// The ways to the driver that were traps for others: each one's memory is charged.
#[test]
fn every_way_to_the_driver_leads_through_the_front() {
    let folder = folder("traps");
    let user = folder.join("libuser.so");
    let library = front().join("libcuda.so.1").display().to_string();
    compile("user.c", &user, &["-shared", "-fPIC", &library]);
    let traps = folder.join("traps");
    compile("traps.c", &traps, &["-ldl", "-lpthread"]);
    let node = PrivateNode::start("1x256MiB", "mgb");
    for way in ["local", "deep", "next", "threads", "fork", "exec", "late"] {
        let granted = node.view().counts.granted;
        let arguments = [way, user.to_str().unwrap()];
        let ended = run(on(&node, &traps, &arguments).env("MGB", "require"));
        assert!(
            ended.code() == 0 && ended.stdout.ends_with("PASS\n"),
            "{way}: {ended:?}"
        );
        assert!(node.view().counts.granted > granted, "{way}: mgbd heard nothing");
    }
    node.wait_until_empty();
}

/// A program that checks no call says at its end that its GPU has failed, unless it has begun anew.
#[test]
fn a_gpu_that_fails_is_reported() {
    let careless = program("careless.c", &folder("careless"));
    let node = PrivateNode::start("1x64MiB", "mgb");
    for (way, says) in [("ends", true), ("resets", true), ("begins", false)] {
        let mut command = on(&node, &careless, &[way]);
        let well = run(&mut command);
        assert!(!well.stderr.contains("failed"), "{way}: {well:?}");
        let ended = run(command.env("SOFTGPU_FAIL", "ecc@200ms"));
        assert_eq!(
            (ended.code(), ended.stdout.as_str()),
            (0, "PASS\n"),
            "{way}: {ended:?}"
        );
        let line = "mgb: the GPU failed under this program (CUDA error 214)";
        assert_eq!(ended.stderr.contains(line), says, "{way}: {ended:?}");
    }
    node.wait_until_empty();
}

/// A program that only holds memory leaves its GPU to others.
#[test]
fn whether_there_is_work_is_seen() {
    let works = program("works.c", &folder("busy"));
    let node = PrivateNode::start("2x64MiB", "mgb");
    let on_gpu = |pid: u32| {
        wait::until("the program has a task", || {
            let view = node.view();
            view.tasks
                .iter()
                .find(|task| task.pid == pid)
                .map(|task| task.gpu)
        })
    };
    let start = |mode| {
        let mut command = on(&node, &works, &[mode, "4000"]);
        command
            .env("MGB", "require")
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut busy = start("busy");
    let first = on_gpu(busy.id());
    let mut idle = start("idle");
    assert_ne!(on_gpu(idle.id()), first);
    // What was seen of a process counts less and less, with a time constant of half a second.
    std::thread::sleep(Duration::from_millis(2000));
    let mut third = start("idle");
    assert_ne!(on_gpu(third.id()), first, "beside the one that works");
    for program in [&mut busy, &mut idle, &mut third] {
        assert!(program.wait().unwrap().success());
    }
    node.wait_until_empty();
}

#[test]
fn what_can_never_fit_is_refused_at_once() {
    let holds = program("holds.c", &folder("never"));
    let node = PrivateNode::start("1x64MiB", "mgb");
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
    let node = PrivateNode::start("1x64MiB", "mgb");
    for way in [
        "alloc",
        "create",
        "reset",
        "async",
        "managed",
        "array",
        "reset-array",
    ] {
        let mut command = on(&node, &holds, &[way, "5", "8", "0"]);
        let mut child = command
            .env("MGB", "require")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait::until("the program has freed all", || {
            let view = node.view();
            let task = view.tasks.iter().find(|task| task.pid == child.id())?;
            let resident = view.gpus[0].resident_bytes;
            (resident == 0 && task.reserved_bytes == 0).then_some(())
        });
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        node.wait_until_empty();
    }
}

#[test]
fn a_killed_program_leaves_no_room_behind() {
    let holds = program("holds.c", &folder("killed"));
    let node = PrivateNode::start("1x64MiB", "mgb");
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
