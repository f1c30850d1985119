//! Kernels with twins (`--mgb-parts`), stopped at random (`MGB_STOP_EVERY`): each block is run once, as a
//! whole, whatever happens between two parts.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mgb_probe::wire::Channel;
use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::bin;
use mgb_tests::process::{Ended, RunningProgram, command, run};
use mgb_tests::wait;
use serde_json::Value;

/// Builds a source of this folder with twins; `assumed` are proofs that are taken for granted.
fn build(node: &PrivateNode, level: &str, assumed: &str) -> PathBuf {
    build_source(node, "blocks", level, assumed)
}

fn build_source(node: &PrivateNode, name: &str, level: &str, assumed: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/parts");
    let program = node.folder().join(format!("{name}{level}{assumed}"));
    let options = ["--offload-arch=sm_90", "--mgb-parts", level];
    let mut compile = command(bin("mgb-clang++"), &options);
    compile
        .arg(folder.join(format!("{name}.cu")))
        .arg("-o")
        .arg(&program);
    run(compile.env("MGB_ASSUME", assumed)).success();
    program
}

/// The program under MGB, whose launches are stopped every so many milliseconds.
fn stopped(node: &PrivateNode, program: &Path, arguments: &[&str], every: &str) -> Command {
    let mut command = node.command(program, arguments);
    let trace = node.folder().join("trace");
    command
        .env("MGB", "require")
        .env("MGB_STOP_EVERY", every)
        .env("MGB_TRACE", trace)
        .env("SOFTGPU_TIME", "off");
    command
}

/// Launches that were made in parts, and their parts, of all processes so far.
fn parted(node: &PrivateNode) -> (u64, u64) {
    let text = std::fs::read_to_string(node.folder().join("trace")).expect("there is a trace");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"));
    let numbers = lines.map(|line| {
        let of = |name: &str| line["parted"][name].as_u64().unwrap_or(0);
        (of("launches"), of("parts"))
    });
    numbers.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
}

fn is_right(ended: &Ended) {
    assert!(ended.code() == 0 && ended.stdout == "right\n", "{ended:?}");
}

#[test]
fn each_block_is_run_once_however_often_its_launch_is_stopped() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    // The first of all seeds brings one of 2^20 blocks, which is stopped for certain.
    for (level, first) in [("-O0", "1"), ("-O2", "0")] {
        let program = build(&node, level, "");
        is_right(&run(&mut stopped(&node, &program, &[first, "200"], "0.02")));
    }
    let (launches, parts) = parted(&node);
    assert!(
        launches == 400 && parts > launches + 10,
        "{launches} launches, {parts} parts"
    );
}

#[test]
fn between_two_parts_memory_may_leave() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let program = build(&node, "-O1", "");
    let mut commands = [("1", "80"), ("80", "160")].map(|(first, last)| {
        let mut command = stopped(&node, &program, &[first, last], "0.02");
        command.env("MGB_EVICT_EVERY", "1");
        command
    });
    let running = commands.each_mut().map(RunningProgram::start);
    for one in running {
        is_right(&one.end());
    }
    node.wait_until_empty();
}

/// Nothing comes between a launch that was stopped and its rest but kernels that are stopped with it.
#[test]
fn what_comes_behind_a_kernel_finds_it_whole() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let program = build_source(&node, "chains", "-O1", "");
    for (seeds, every, evict) in [(["1", "200"], "0.2", None), (["200", "300"], "0.05", Some("2"))] {
        let mut command = stopped(&node, &program, &seeds, every);
        if let Some(evict) = evict {
            command.env("MGB_EVICT_EVERY", evict);
        }
        is_right(&run(&mut command));
    }
    let (launches, parts) = parted(&node);
    assert!(parts > launches + 300, "{launches} launches, {parts} parts");
}

/// The program makes no call that would have it go on.
#[test]
fn a_kernel_that_was_stopped_goes_on_by_itself() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = build_source(&node, "chains", "-O1", "");
    let mut command = node.command(&program, &["apart", "4000", "80000"]);
    let trace = node.folder().join("trace");
    command.env("MGB_TRACE", trace).env("SOFTGPU_TIME", "off");
    let running = RunningProgram::start(&mut command);
    let (pid, number) = (running.pid(), running.pid().to_string());
    until_it_works(&node, pid);
    let said = run(&mut node.mgb(&["suspend", &number])).success();
    assert!(
        said.contains("is suspended; in host memory now: 8.0 MiB"),
        "{said}"
    );
    run(&mut node.mgb(&["resume", &number])).success();
    is_right(&running.end());
    let (launches, parts) = parted(&node);
    assert!(launches == 1 && parts > 1, "{launches} launches, {parts} parts");
}

/// Nobody would stop it then, or have it go on.
#[test]
fn a_process_that_ends_launches_kernels_as_they_are() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = build_source(&node, "chains", "-O1", "");
    is_right(&run(&mut stopped(&node, &program, &["late"], "0.02")));
    assert_eq!(parted(&node).0, 1);
    for _ in 0..5 {
        let ended = run(&mut stopped(&node, &program, &["leaving"], "0.2"));
        is_right(&ended);
        assert_eq!(ended.stderr, "");
    }
}

/// mgbd says so where a process was killed; here the process is still there, and sees what its kernel has not
/// done.
#[test]
fn a_kernel_whose_process_is_gone_stops() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = build(&node, "-O1", "");
    let mut command = node.command(&program, &["long", "20000", "1000000"]);
    command.env("SOFTGPU_TIME", "off");
    let running = RunningProgram::start(&mut command);
    until_it_works(&node, running.pid());
    write_gone(running.pid());
    let ended = running.end();
    assert!(
        ended.code() == 1 && ended.stdout.contains("ran 0 times"),
        "{ended:?}"
    );
}

/// Writes the word that says that a process is gone, in the memory that it shares with mgbd.
fn write_gone(pid: u32) {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let line = maps
        .lines()
        .find(|line| line.contains("mgb-channel"))
        .expect("it has a channel");
    let start = line.split('-').next().expect("an address begins the line");
    let start = u64::from_str_radix(start, 16).expect("it is a number");
    // SAFETY: words that may have any value, zero too.
    let channel: Box<Channel> = unsafe { Box::new_zeroed().assume_init() };
    let at = std::ptr::from_ref(channel.pace.gone()).addr() - std::ptr::from_ref(&*channel).addr();
    let memory = std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/mem"));
    let memory = memory.expect("it is a child of this process");
    memory
        .write_all_at(&1u64.to_ne_bytes(), start + at as u64)
        .expect("the word is there");
}

/// The GPU on which the program works by now.
fn until_it_works(node: &PrivateNode, pid: u32) -> u32 {
    let gpu = wait::until("it works", || {
        let tasks = node.view().tasks;
        tasks
            .iter()
            .find(|task| task.pid == pid && task.held_bytes > 0)
            .map(|task| task.gpu)
    });
    // Its kernel is launched right behind that.
    std::thread::sleep(Duration::from_millis(200));
    gpu
}

#[test]
fn a_kernel_gives_way_when_its_memory_is_wanted() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let program = build(&node, "-O1", "");
    let mut command = node.command(&program, &["long", "20000", "40000"]);
    let trace = node.folder().join("trace");
    command.env("MGB_TRACE", trace).env("SOFTGPU_TIME", "off");
    let running = RunningProgram::start(&mut command);
    let (pid, number) = (running.pid(), running.pid().to_string());
    let other = 1 - until_it_works(&node, pid);
    let said = run(&mut node.mgb(&["move", &number, &other.to_string()])).success();
    assert!(said.contains(&format!("goes on, on GPU {other}")), "{said}");
    let said = run(&mut node.mgb(&["suspend", &number])).success();
    assert!(
        said.contains("is suspended; in host memory now: 10.0 MiB"),
        "{said}"
    );
    assert!(node.view().gpus.iter().all(|gpu| gpu.resident_bytes == 0));
    run(&mut node.mgb(&["resume", &number])).success();
    is_right(&running.end());
    let (launches, parts) = parted(&node);
    assert!(launches == 1 && parts >= 3, "{launches} launches, {parts} parts");
}

#[test]
fn a_kernel_stops_for_a_latency_program() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = build(&node, "-O1", "");
    // It has work again and again, until the test ends.
    let mut latency = node.command(built::program("phases"), &["2", "100000", "20", "wait", "4", "8"]);
    let latency = RunningProgram::start(latency.env("MGB", "require").env("MGB_CLASS", "latency"));
    until_it_works(&node, latency.pid());
    let mut command = node.command(&program, &["long", "20000", "10000"]);
    let trace = node.folder().join("trace");
    command.env("MGB_TRACE", trace);
    is_right(&run(&mut command));
    let (launches, parts) = parted(&node);
    assert!(launches == 1 && parts > 1, "{launches} launches, {parts} parts");
}

#[test]
fn a_kernel_goes_on_on_another_gpu() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let program = build(&node, "-O1", "");
    let mut command = stopped(&node, &program, &["long", "20000", "20000"], "5");
    let running = RunningProgram::start(&mut command);
    let pid = running.pid();
    let at = until_it_works(&node, pid);
    for gpu in [1 - at, at] {
        let said = run(&mut node.mgb(&["move", &pid.to_string(), &gpu.to_string()])).success();
        assert!(said.contains(&format!("goes on, on GPU {gpu}")), "{said}");
    }
    is_right(&running.end());
    assert_eq!(node.view().counts.moved, 2);
    let (launches, parts) = parted(&node);
    assert!(launches == 1 && parts > 3, "{launches} launches, {parts} parts");
}

#[test]
fn a_capture_beside_it_goes_on() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    let program = build(&node, "-O1", "");
    is_right(&run(&mut stopped(&node, &program, &["capture"], "0.02")));
}

/// The tests would notice if threads that return early, or structures passed by value, were not seen to.
#[test]
fn without_its_proofs_blocks_are_wrong() {
    let node = PrivateNode::start("1x64MiB", "mgb");
    for (proof, kernel) in [("together", "returning"), ("structures", "counting")] {
        let program = build(&node, "-O1", proof);
        let ended = run(&mut stopped(&node, &program, &["1", "60"], "1"));
        // Where threads of a warp wait in two places, the software GPU says that the kernel hangs.
        let is_wrong = ended.code() == 1 && ended.stdout.contains(kernel);
        let hangs = ended.code() == 2 && ended.stderr.contains(kernel) && ended.stderr.contains(" hangs ");
        assert!(is_wrong || hangs, "{proof}: {ended:?}");
    }
}
