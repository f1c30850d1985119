//! Device memory across processes: enforced, and given back however a process ends.

mod common;

use std::ffi::c_void;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use common::{ChildProcess, MIB, StateFile, in_child, is_child};
use mgb_abi::nvml::{Memory, ProcessInfo};
use softgpu::cudart::device::cudaSetDevice;
use softgpu::cudart::memory::{cudaFree, cudaMalloc, cudaMemGetInfo};
use softgpu::nvml::device::{nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetMemoryInfo};
use softgpu::nvml::device::{nvmlDeviceGetHandleByIndex_v2, nvmlDeviceGetUUID};
use softgpu::nvml::system::nvmlInit_v2;

const DEVICES: &str = "2x256MiB";

fn malloc(bytes: usize) -> (i32, *mut c_void) {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: an out pointer of our own.
    (unsafe { cudaMalloc(&mut pointer, bytes) }, pointer)
}

fn free_bytes() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: out pointers of our own.
    assert_eq!(unsafe { cudaMemGetInfo(&mut free, &mut total) }, 0);
    free
}

/// What NVML says of device 0: bytes in use, and the processes with a context.
fn nvml() -> (u64, Vec<(u32, u64)>) {
    let mut device = 0;
    let mut memory = Memory {
        total: 0,
        free: 0,
        used: 0,
    };
    let empty = ProcessInfo {
        pid: 0,
        used_gpu_memory: 0,
        gpu_instance_id: 0,
        compute_instance_id: 0,
    };
    let (mut processes, mut count) = ([empty; 64], 64);
    // SAFETY: out pointers of our own, and as many entries as `count` says.
    unsafe {
        assert_eq!(nvmlInit_v2(), 0);
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(0, &mut device), 0);
        assert_eq!(nvmlDeviceGetMemoryInfo(device, &mut memory), 0);
        assert_eq!(
            nvmlDeviceGetComputeRunningProcesses_v3(device, &mut count, processes.as_mut_ptr()),
            0
        );
    }
    assert_eq!(memory.total, memory.free + memory.used);
    (
        memory.used,
        processes[..count as usize]
            .iter()
            .map(|p| (p.pid, p.used_gpu_memory))
            .collect(),
    )
}

/// The child's side.
fn serve() {
    let mut held = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let answer = match line.split_once(' ') {
            Some(("alloc", mib)) => {
                let (code, pointer) = malloc(mib.parse::<usize>().unwrap() * MIB);
                held.push(pointer);
                code
            }
            // SAFETY: what was allocated.
            _ => held.pop().map_or(0, |pointer| unsafe { cudaFree(pointer) }),
        };
        println!("\n> {answer}");
    }
    // Nobody reads what the test harness would say.
    std::process::exit(0);
}

#[test]
fn one_process_has_what_another_leaves() {
    const NAME: &str = "one_process_has_what_another_leaves";
    if is_child(NAME) {
        return serve();
    }
    let state = StateFile::new();
    let mut first = ChildProcess::start(NAME, DEVICES, &state);
    let mut second = ChildProcess::start(NAME, DEVICES, &state);
    assert_eq!(first.ask("alloc 150"), "0");
    assert_eq!(second.ask("alloc 150"), "2");
    assert_eq!(second.ask("alloc 104"), "0");
    assert_eq!(first.ask("alloc 1"), "2");
    assert_eq!(second.ask("free"), "0");
    assert_eq!(first.ask("alloc 50"), "0");
    first.kill();
    assert_eq!(second.ask("alloc 254"), "0");
}

#[test]
fn a_context_that_does_not_fit_is_out_of_memory() {
    const NAME: &str = "a_context_that_does_not_fit_is_out_of_memory";
    if is_child(NAME) {
        return serve();
    }
    let state = StateFile::new();
    let devices = "1x8MiB:ctx=3MiB";
    let mut first = ChildProcess::start(NAME, devices, &state);
    let mut second = ChildProcess::start(NAME, devices, &state);
    let mut third = ChildProcess::start(NAME, devices, &state);
    assert_eq!(first.ask("alloc 2"), "0");
    assert_eq!(second.ask("alloc 0"), "0");
    assert_eq!(third.ask("alloc 0"), "2");
    first.kill();
    assert_eq!(third.ask("alloc 0"), "0");
}

#[test]
fn sigkill_leaves_nothing() {
    const NAME: &str = "sigkill_leaves_nothing";
    const VICTIM: &str = "sigkill_victim";
    if !is_child(NAME) {
        in_child(NAME, DEVICES, || ());
        return;
    }
    // This process is the neighbour that stays; its state file is its parent's.
    let (code, _) = malloc(33 * MIB);
    assert_eq!(code, 0);
    let own = (1 + 34) * MIB as u64;
    let mut seed = 1u64;
    for round in 0..200 {
        let mut victims: Vec<Child> = (0..2).map(|_| victim(VICTIM)).collect();
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_micros(3_000 + (seed >> 33) % 12_000));
        for victim in &mut victims {
            victim.kill().unwrap();
            victim.wait().unwrap();
        }
        let (used, processes) = nvml();
        assert_eq!(used, own, "round {round}");
        assert_eq!(processes, [(std::process::id(), own)], "round {round}");
    }
    std::process::exit(0);
}

fn victim(name: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture"])
        .env("SOFTGPU_TEST_CHILD", name);
    command.stdout(std::process::Stdio::null()).spawn().unwrap()
}

/// Allocates and frees until it is killed.
#[test]
fn sigkill_victim() {
    while is_child("sigkill_victim") {
        let held: Vec<_> = (1..12).map(|mib| malloc(mib * MIB).1).collect();
        for pointer in held {
            // SAFETY: what was allocated, or null.
            unsafe { cudaFree(pointer) };
        }
    }
}

#[test]
fn a_program_that_is_executed_holds_nothing() {
    const NAME: &str = "a_program_that_is_executed_holds_nothing";
    const NEXT: &str = "executes_another";
    if is_child(NEXT) {
        assert_eq!(malloc(10 * MIB).0, 0);
        panic!("failed to execute: {}", Command::new("sleep").arg("60").exec());
    }
    in_child(NAME, DEVICES, || {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env("SOFTGPU_TEST_CHILD", NEXT)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let command = format!("/proc/{}/comm", child.id());
        while std::fs::read_to_string(&command).unwrap().trim() != "sleep" {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(nvml(), (0, vec![]));
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn a_daemon_that_closes_everything_keeps_its_memory() {
    in_child(
        "a_daemon_that_closes_everything_keeps_its_memory",
        DEVICES,
        || {
            assert_eq!(malloc(10 * MIB).0, 0);
            // SAFETY: nothing of this test's own is behind those numbers.
            unsafe { libc::close_range(3, u32::MAX, 0) };
            assert_eq!(malloc(20 * MIB).0, 0);
            assert_eq!(free_bytes(), (256 - 1 - 30) * MIB);
            let (used, processes) = nvml();
            assert_eq!((used, processes.len()), (31 * MIB as u64, 1));
        },
    );
}

#[test]
fn a_forked_child_cannot_use_its_parents_devices() {
    in_child("a_forked_child_cannot_use_its_parents_devices", DEVICES, || {
        assert_eq!(malloc(10 * MIB).0, 0);
        // SAFETY: the child calls only what a child may, and leaves at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = malloc(MIB).0;
            // SAFETY: ends the process.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), 3, "cudaErrorInitializationError");
        assert_eq!(nvml().0, 11 * MIB as u64);
        assert_eq!(malloc(10 * MIB).0, 0);
    });
}

#[test]
fn threads_allocate_at_once() {
    in_child("threads_allocate_at_once", DEVICES, || {
        let before = {
            assert_eq!(malloc(0).0, 0);
            free_bytes()
        };
        let work = || {
            for round in 1..200usize {
                let (code, pointer) = malloc(round * 997);
                assert_eq!(code, 0);
                // SAFETY: what was allocated.
                assert_eq!(unsafe { cudaFree(pointer) }, 0);
            }
        };
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(work))));
        assert_eq!(free_bytes(), before);
    });
}

#[test]
fn visible_devices_are_renumbered_and_nvml_sees_all() {
    let uuid = "GPU-6d67622d-736f-6674-6770-750000000001";
    common::in_child_with(
        "visible_devices_are_renumbered_and_nvml_sees_all",
        DEVICES,
        &[("CUDA_VISIBLE_DEVICES", uuid)],
        || {
            // SAFETY: takes no pointers.
            assert_eq!(unsafe { (cudaSetDevice(0), cudaSetDevice(1)) }, (0, 101));
            assert_eq!(malloc(10 * MIB).0, 0);
            assert_eq!(nvml().0, 0, "device 0 of the node");
            let (mut device, mut text) = (0, [0u8; 96]);
            // SAFETY: out pointers of our own.
            unsafe {
                assert_eq!(nvmlDeviceGetHandleByIndex_v2(1, &mut device), 0);
                assert_eq!(nvmlDeviceGetUUID(device, text.as_mut_ptr().cast(), 96), 0);
            }
            assert!(text.starts_with(uuid.as_bytes()));
        },
    );
}

#[test]
fn a_bad_configuration_is_named() {
    let text = in_child("a_bad_configuration_is_named", "4x256MB", || {
        assert_eq!(malloc(1).0, 3);
    });
    assert!(
        text.contains("SOFTGPU_DEVICES=4x256MB: \"256MB\" is not a size"),
        "{text}"
    );
}

#[test]
fn other_devices_do_not_share_a_state_file_in_use() {
    const NAME: &str = "other_devices_do_not_share_a_state_file_in_use";
    if is_child(NAME) {
        return serve();
    }
    let state = StateFile::new();
    let mut first = ChildProcess::start(NAME, DEVICES, &state);
    assert_eq!(first.ask("alloc 1"), "0");
    let mut second = ChildProcess::start(NAME, "1x1GiB", &state);
    assert_eq!(second.ask("alloc 1"), "3");
    first.kill();
    let mut third = ChildProcess::start(NAME, "1x1GiB", &state);
    assert_eq!(third.ask("alloc 1000"), "0");
}
