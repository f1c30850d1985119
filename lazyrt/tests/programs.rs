//! The runtime under real programs, on software GPUs: CUDA's own rules one by one, and tasks in all
//! arrangements. What holds natively is checked natively too, so that the programs themselves are right.
//! Programs drawn at random are in `tests/random`.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use mgb_tests::compiled;
use mgb_tests::node::{PrivateNode, is_empty};
use mgb_tests::prefix::prefix;
use mgb_tests::process::RunningProgram;
use mgb_tests::wait;

/// One of `tests/programs`, built with the wrapper.
fn program(name: &str) -> PathBuf {
    program_with(name, &[])
}

/// The same, built with more flags.
fn program_with(name: &str, more: &[&str]) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut flags: Vec<OsString> = ["--offload-arch=sm_90", "-O1", "-std=c++17"]
        .map(OsString::from)
        .into();
    flags.extend(more.iter().map(OsString::from));
    if ["driver", "fixed"].contains(&name) {
        // A machine without a GPU has no other driver to link with.
        flags.push(prefix().join("lib/softgpu/libcuda.so.1").into_os_string());
    }
    compiled::program(&sources.join(name).with_extension("cu"), &flags)
}

/// Runs a case under MGB, and natively where it holds there too.
fn case(program_name: &str, name: &str, natively: bool) {
    let program = program(program_name);
    let node = PrivateNode::start("2x64MiB", "mgb");
    let run = |mode| {
        let mut command = node.command(&program, &[name]);
        RunningProgram::start(command.env("MGB", mode)).end().success()
    };
    if natively {
        run("off");
    }
    run("require");
    node.wait_until_empty();
}

macro_rules! cases {
    ($($program:ident: $($name:ident $(($native:ident))?),*;)*) => { $($(
        #[test]
        fn $name() {
            case(stringify!($program), stringify!($name), cases!(@ $($native)?));
        }
    )*)* };
    (@ native) => { true };
    (@) => { false };
}

cases! {
    semantics: addresses (native), recorded (native), copies (native), devices (native), streams (native),
        symbols (native), reset (native), forks (native), small_objects, volumes (native), ends (native),
        information, unhurried;
    information: static_objects (native), lazy_objects (native), both_kinds (native), nearly_all (native),
        nearly_all_in_pieces (native);
    tasks: loops (native), threads (native), beside (native), by_hand (native), refused,
        all_there_is (native);
    devices: spread (native), variables (native), workers (native), attributes (native), reset_one (native),
        numbers (native), first_waits (native), functions_first (native);
    places: places (native), batches (native), graph_places (native);
    peers: peer_codes (native), peer_kernels (native), peer_copies (native), peer_order (native),
        peer_graphs (native), swapped_graphs, captured_by_default (native),
        unused_waits (native), pool_copies (native);
    outside: pools (native), graph_memory (native), managed (native), arrays (native);
    handles: early (native), wrong (native), callbacks (native), pinned (native), functions (native),
        captured (native), freeing (native), moving, moving_default, moving_from_default;
    pending: after_copy (native), after_host_function (native), after_callback (native), after_event (native),
        behind_default_stream (native), while_captured (native), freed_while_captured (native),
        freed_behind_another_thread (native);
    ending: end_of_threads (native), end_of_process (native);
    failing: last_error (native), fault (native), other_device (native), other_device_late (native),
        new_device (native), fork_after_count (native), fork_after_properties (native), fork_after_work (native), fork_after_version (native);
    misuse: plain_call (native), empty_pop, registered (native);
    driver: contexts (native);
    share: owner (native);
    variables: together (native), written (native), shared_by_threads (native), owned (native), reset_values (native);
}

/// Asking how much memory there is takes no room, and charges no warps that would keep others away.
#[test]
fn a_question_about_memory_takes_nothing() {
    let program = program("information");
    let node = PrivateNode::start("2x64MiB", "mgb");
    let mut command = node.command(&program, &["only_asks"]);
    command
        .env("MGB", "require")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut asks = command.spawn().expect("can be started");
    let mut line = String::new();
    let mut output = BufReader::new(asks.stdout.take().expect("is a pipe"));
    output.read_line(&mut line).expect("can be read");
    assert_eq!(line, "asked\n");
    let view = node.view();
    assert!(view.tasks.is_empty(), "{:?}", view.tasks);
    assert!(
        view.gpus.iter().all(|gpu| gpu.warps_charged == 0),
        "{:?}",
        view.gpus
    );
    drop(asks.stdin.take());
    assert!(asks.wait().expect("can be waited for").success());
    node.wait_until_empty();
}

/// A fault of a kernel is never over: something is said at the program's end whatever it does about it, and
/// it does not wait for a GPU that it cannot have.
#[test]
fn a_fault_is_told_of_also_behind_a_reset() {
    let program = program("failing");
    let node = PrivateNode::start("2x64MiB", "mgb");
    for name in ["fault", "other_device", "other_device_late", "new_device"] {
        let mut command = node.command(&program, &[name]);
        let ended = RunningProgram::start(command.env("MGB", "require")).end();
        let told = "the GPU failed under this program (CUDA error 700)";
        assert!(ended.stderr.contains(told), "{ended:?}");
        assert!(!ended.stderr.contains("trying for"), "{ended:?}");
        ended.success();
    }
    node.wait_until_empty();
}

/// A device variable is recorded only where every task of the program is lazy.
#[test]
fn a_variable_is_written_behind_the_work_of_another_device() {
    let program = program("pending");
    let node = PrivateNode::start("2x64MiB", "mgb");
    for mode in ["off", "require"] {
        let mut command = node.command(&program, &["after_other_device"]);
        command.env("MGB", mode).env("MGB_STATIC", "off");
        RunningProgram::start(&mut command).end().success();
    }
    node.wait_until_empty();
}

/// On a small GPU, the granule before the first object is left to others. Where it is there, it is charged.
#[test]
fn memory_lies_before_the_first_object() {
    let program = program("semantics");
    let mut contexts = Vec::new();
    for (devices, is_there) in [("1x1GiB", true), ("1x1000MiB", false)] {
        let node = PrivateNode::start(devices, "mgb");
        contexts.push(node.view().gpus[0].gpu.context_bytes);
        let mut command = node.command(&program, &["before"]);
        let ended = RunningProgram::start(command.env("MGB", "require")).end();
        assert_eq!(ended.code() == 0, is_there, "{ended:?}");
        node.wait_until_empty();
    }
    assert!(contexts[0] >= contexts[1] + (2 << 20), "{contexts:?}");
}

/// GNU ld writes an empty hash table into a program that defines nothing for others: what such a program
/// calls is seen all the same.
#[test]
fn what_a_fixed_program_calls_is_seen() {
    let flags = ["-no-pie", "-fuse-ld=bfd", "-Wl,--hash-style=gnu"];
    let program = program_with("fixed", &flags);
    let node = PrivateNode::start("2x64MiB", "mgb");
    let run = |mode| {
        let mut command = node.command(&program, &[]);
        RunningProgram::start(command.env("MGB", mode)).end().success()
    };
    assert_eq!(run("off").trim(), "2 2");
    // It calls the driver API, and so sees the GPU that it was granted alone.
    assert_eq!(run("require").trim(), "1 1");
}

/// A process that calls the driver API counts the GPU that it was granted first, whichever ordinal that GPU
/// has natively; and the processes that it starts do not inherit that. `shown`: how many GPUs it sees.
fn is_on_the_granted_gpu(program_name: &str, name: &str, shown: &str) {
    let program = program(program_name);
    let node = PrivateNode::start("2x64MiB", "mgb");
    let run = |mode, visible| {
        let mut command = node.command(&program, &[name]);
        command.env("MGB", mode).env("CUDA_VISIBLE_DEVICES", visible);
        RunningProgram::start(&mut command).end().success()
    };
    let natively = ["0,1", "1,0"].map(|visible| run("off", visible));
    assert!(natively.iter().all(|line| line.starts_with("2 ")), "{natively:?}");
    assert_ne!(natively[0], natively[1]);
    let shared = ["0,1", "1,0"].map(|visible| run("require", visible));
    assert!(shared[0].starts_with(shown), "{shared:?}");
    assert_eq!(
        shared[0], shared[1],
        "both were granted the same GPU of an idle node"
    );
    let only = run("require", "1");
    assert_eq!(only[2..], natively[1][2..]);
}

#[test]
fn the_driver_api_is_on_the_granted_gpu() {
    // No front can come before a driver that it is linked with.
    is_on_the_granted_gpu("driver", "place", "1 ");
}

#[test]
fn a_driver_that_is_loaded_is_on_the_granted_gpu() {
    is_on_the_granted_gpu("driver_by_name", "loaded", "2 ");
}

#[test]
fn a_driver_that_is_asked_for_is_on_the_granted_gpu() {
    is_on_the_granted_gpu("driver_by_name", "asked", "2 ");
}

/// A program that ends behind its last launch has its work done all the same: under MPS, to end with work
/// under way costs the next program its GPU.
#[test]
fn what_a_program_leaves_running_is_done_as_it_ends() {
    let program = program("handles");
    let node = PrivateNode::start("1x64MiB", "mgb");
    let file = node.folder().join("left");
    std::fs::write(&file, vec![0; 4096]).expect("the file can be written");
    let arguments = ["left_running", file.to_str().expect("a plain name")];
    let mut command = node.command(&program, &arguments);
    RunningProgram::start(command.env("MGB", "require"))
        .end()
        .success();
    let bytes = std::fs::read(&file).expect("it is there");
    assert_eq!(bytes[..4], 7u32.to_ne_bytes());
}

/// Starts a case of `handles` that rests; waits until it does.
fn resting(node: &PrivateNode, arguments: &[&str], name: &str) -> RunningProgram {
    let mut command = node.command(program("handles"), arguments);
    let running = RunningProgram::start(command.env("MGB", "require"));
    wait::until(name, || node.folder().join(name).exists().then_some(()));
    running
}

/// Lets it go on.
fn let_go(node: &PrivateNode, running: RunningProgram, name: &str) {
    node.write(&format!("{name}.go"), "");
    running.end().success();
}

/// Whatever needs no GPU by its meaning takes nothing of one.
#[test]
fn a_process_that_has_bound_nothing_is_on_no_gpu() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let free = |node: &PrivateNode| {
        node.view()
            .gpus
            .iter()
            .map(|gpu| gpu.driver_free_bytes)
            .collect::<Vec<_>>()
    };
    let before = free(&node);
    let running = resting(&node, &["nowhere"], "held");
    assert_eq!(free(&node), before);
    assert!(is_empty(&node.view()), "{:#?}", node.view());
    let_go(&node, running, "held");
    node.wait_until_empty();
}

/// A site that begins again and again asks once: its grant is kept, until somebody waits for the room.
#[test]
fn a_task_in_a_loop_asks_once_and_lets_go_when_others_wait() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let turns = resting(&node, &["turns", "2000"], "turns");
    let granted = wait::until("the grant is shown", || {
        Some(node.view().counts.granted).filter(|&granted| granted > 0)
    });
    assert!(granted <= 4, "{granted} grants for 2000 runs of one task");
    let_go(&node, turns, "turns");

    // 50 of 64 MiB each: one keeps its grant while it rests, and the other gets the room.
    let first = resting(&node, &["most_of_it", "first"], "first");
    let second = resting(&node, &["most_of_it", "second"], "second");
    let_go(&node, first, "first");
    let_go(&node, second, "second");
    node.wait_until_empty();
}

/// The view does not show a grant that mgbd took back from a task that rests: cudaMemGetInfo does not wait
/// until it does.
#[test]
fn what_is_left_is_told_at_once_after_a_grant_was_taken_back() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let first = resting(&node, &["asks", "first"], "first");
    let second = resting(&node, &["most_of_it", "second"], "second");
    let_go(&node, second, "second");
    wait::until("what the second had is free", || {
        let gpu = &node.view().gpus[0];
        (gpu.reserved_bytes == 0 && gpu.reclaiming_bytes == 0).then_some(())
    });
    let_go(&node, first, "first");
}

/// Starts all the cases on one small device; none fails.
fn all_at_once(program_name: &str, cases: &[&str]) {
    let program = program(program_name);
    let node = PrivateNode::start("1x64MiB", "mgb");
    let start = |case: &&str| {
        let mut command = node.command(&program, &[case]);
        RunningProgram::start(command.env("MGB", "require"))
    };
    let running: Vec<RunningProgram> = cases.iter().map(start).collect();
    for program in running {
        program.end().success();
    }
    node.wait_until_empty();
}

/// Pools, managed memory, arrays and graphs of eight programs at once, each more than half of the device:
/// they wait for each other, and none fails.
#[test]
fn memory_outside_the_arena_is_charged() {
    all_at_once(
        "outside",
        &["hold_async", "hold_managed", "hold_array", "hold_graph"].repeat(2),
    );
}

/// What cudaMemGetInfo answers can be had, though others were answered the same.
#[test]
fn what_was_answered_is_not_refused() {
    all_at_once("semantics", &["greedy"; 4]);
}

/// Memory that is swapped while other things go on: work that another thread is to let go on, a
/// capture.
#[test]
fn swaps_leave_the_rest_alone() {
    for name in ["there_and_back", "waiting_work", "during_capture"] {
        let node = PrivateNode::start("1x64MiB", "mgb");
        let mut command = node.command(program("swapping"), &[name]);
        RunningProgram::start(command.env("MGB", "require"))
            .end()
            .success();
        node.wait_until_empty();
    }
}

/// A copy that fails as swapped bytes come back is an error of the call, and no bytes are lost.
#[test]
fn a_swap_whose_copy_fails_loses_nothing() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let mut command = node.command(program("swapping"), &["failed_copy"]);
    // The first copy brings the bytes to the host, the second one back.
    command.env("MGB", "require").env("SOFTGPU_FAIL", "copy@copy=2");
    RunningProgram::start(&mut command).end().success();
}

/// `MGB_GUARD`: other addresses, the same meaning; and what runs past an object faults.
#[test]
fn guards_are_behind_every_object() {
    let program = program("semantics");
    let node = PrivateNode::start("2x256MiB", "mgb");
    for name in ["addresses", "recorded", "copies", "volumes", "overruns"] {
        let mut command = node.command(&program, &[name]);
        command.env("MGB", "require").env("MGB_GUARD", "1");
        RunningProgram::start(&mut command).end().success();
    }
    node.wait_until_empty();
}
