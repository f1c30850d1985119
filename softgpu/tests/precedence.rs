//! Whose kernels go first on a shared device, and how much of it they take: real processes, whose modelled
//! times are read in the shared state. No host's speed decides: what has to be asked for while a kernel runs
//! is asked for beside longer and longer ones, until it was.

mod common;
#[path = "kernels/device.rs"]
mod device;

use std::sync::atomic::Ordering::Relaxed;

use common::{ChildProcess, StateFile, is_child};
use device::{STUBS, TestKernel, register};
use mgb_abi::launch::Dim3;
use softgpu::cudart::device::{cudaDeviceGetAttribute, cudaDeviceSynchronize};
use softgpu::cudart::launch::cudaLaunchKernel;
use softgpu::cudart::stream::cudaStreamCreateWithPriority;

const DEVICES: &str = "1x64MiB";

/// Blocks of 32 warps that the device holds at once: 132 multiprocessors with two each.
const ALL: u64 = 264;

/// Kernels of so many milliseconds are tried at most.
const LONGEST: u64 = 20_000;

/// How often to look whether a kernel is booked that is not to be.
const MAX_LOOKS: usize = 400;

const BELOW_NORMAL: (&str, &str) = ("CUDA_MPS_CLIENT_PRIORITY", "1");

/// When a kernel ran, in modelled nanoseconds, and the warps that it took.
#[derive(Clone, Copy, Debug)]
struct KernelPiece {
    warps: u64,
    start: u64,
    end: u64,
}

/// Has the device work on `blocks` blocks for `ms` milliseconds, if it has all multiprocessors: threads of so
/// many instructions that `ALL` blocks at a time take that.
fn launch(blocks: u64, ms: u64, stream: usize) -> i32 {
    let waves = blocks.div_ceil(ALL);
    let operations = ms * 1_980_000 / (16 * waves);
    let mut arguments = [std::ptr::from_ref(&operations).cast_mut().cast()];
    let stub = std::ptr::from_ref(&STUBS[TestKernel::Pretend as usize]).cast();
    let (grid, block) = (
        Dim3 {
            x: blocks as u32,
            y: 1,
            z: 1,
        },
        Dim3 { x: 1024, y: 1, z: 1 },
    );
    // SAFETY: the kernel takes one 64-bit value.
    unsafe { cudaLaunchKernel(stub, grid, block, arguments.as_mut_ptr(), 0, stream) }
}

/// The child's side: `launch BLOCKS MS STREAM`, `stream PRIORITY`, `sync`, `multiprocessors`, `spans`.
fn serve() {
    register();
    let mut streams = vec![0];
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (what, numbers) = line.split_once(' ').unwrap_or((&line, ""));
        let numbers: Vec<i64> = numbers
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        let answer = match what {
            "launch" => {
                launch(numbers[0] as u64, numbers[1] as u64, streams[numbers[2] as usize]).to_string()
            }
            "stream" => {
                let mut stream = 0;
                // SAFETY: an out pointer of our own.
                let code = unsafe { cudaStreamCreateWithPriority(&mut stream, 1, numbers[0] as i32) };
                assert_eq!(code, 0);
                streams.push(stream);
                (streams.len() - 1).to_string()
            }
            // SAFETY: takes no pointers.
            "sync" => unsafe { cudaDeviceSynchronize() }.to_string(),
            "multiprocessors" => {
                let mut count = 0;
                // SAFETY: an out pointer of our own.
                assert_eq!(unsafe { cudaDeviceGetAttribute(&mut count, 16, 0) }, 0);
                count.to_string()
            }
            _ => spans(),
        };
        println!("\n> {answer}");
    }
    // Nobody reads what the test harness would say.
    std::process::exit(0);
}

fn spans() -> String {
    let state = softgpu::state::shared().unwrap();
    let all = state.with_clocks(|clocks, _| {
        let spans = clocks[0].kernels.iter().map(|span| {
            let [warps, start, end] = [&span.warps, &span.start, &span.end].map(|word| word.load(Relaxed));
            format!("{warps}:{start}:{end}")
        });
        spans.collect::<Vec<_>>()
    });
    all.unwrap().join(" ")
}

/// The pieces of kernels of so many blocks, in the order of their time.
fn pieces(child: &mut ChildProcess, blocks: u64) -> Vec<KernelPiece> {
    let text = child.ask("spans");
    let spans = text.split_whitespace().map(|word| {
        let mut numbers = word.split(':').map(|number| number.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        KernelPiece {
            warps: next(),
            start: next(),
            end: next(),
        }
    });
    let mut own: Vec<KernelPiece> = spans
        .filter(|span| span.end > 0 && span.warps == 32 * blocks)
        .collect();
    own.sort_by_key(|span| span.start);
    own
}

/// Waits until a kernel of so many blocks is booked; returns its last piece.
fn booked(child: &mut ChildProcess, blocks: u64) -> KernelPiece {
    loop {
        if let Some(last) = pieces(child, blocks).last() {
            return *last;
        }
        std::thread::yield_now();
    }
}

/// Tries with longer and longer kernels, each on a device of its own, until `shows` is true.
fn in_time(name: &str, environments: &[&[(&str, &str)]], shows: impl Fn(&mut [ChildProcess], u64) -> bool) {
    if is_child(name) {
        return serve();
    }
    let mut ms = 200;
    loop {
        let state = StateFile::new();
        let start = |environment: &&[_]| ChildProcess::start_with(name, DEVICES, &state, environment);
        let mut children: Vec<ChildProcess> = environments.iter().map(start).collect();
        let has_shown = shows(&mut children, ms);
        children.into_iter().for_each(ChildProcess::kill);
        if has_shown {
            return;
        }
        ms *= 3;
        assert!(ms <= LONGEST, "it did not show");
    }
}

/// Launches `first` and then `second` while the device is full for `ms` milliseconds; returns when they ran.
fn behind_a_full_device(
    children: &mut [ChildProcess],
    ms: u64,
    first: (usize, &str),
    second: (usize, &str),
) -> (KernelPiece, KernelPiece) {
    assert_eq!(children[0].ask(&format!("launch {ALL} {ms} 0")), "0");
    booked(&mut children[0], ALL);
    assert_eq!(children[first.0].ask(first.1), "0");
    // What is booked ahead is there by then.
    let is_booked = |children: &mut [ChildProcess]| !pieces(&mut children[first.0], 263).is_empty();
    let _ = (0..MAX_LOOKS).any(|_| is_booked(children));
    assert_eq!(children[second.0].ask(second.1), "0");
    for child in [first.0, second.0] {
        assert_eq!(children[child].ask("sync"), "0");
    }
    let all = [263, 262].map(|blocks| *pieces(&mut children[0], blocks).first().unwrap());
    (all[0], all[1])
}

#[test]
fn normal_clients_go_before_those_below_normal() {
    let name = "normal_clients_go_before_those_below_normal";
    in_time(name, &[&[], &[BELOW_NORMAL], &[]], |children, ms| {
        let (below, normal) =
            behind_a_full_device(children, ms, (1, "launch 263 50 0"), (2, "launch 262 50 0"));
        normal.end <= below.start
    });
}

/// The blocks of a kernel that is there end, but no more begin where a normal client has some.
#[test]
fn what_is_below_normal_gives_way_after_a_wave() {
    let name = "what_is_below_normal_gives_way_after_a_wave";
    in_time(name, &[&[BELOW_NORMAL], &[]], |children, ms| {
        let [below, normal] = children else { unreachable!() };
        assert_eq!(below.ask(&format!("launch {} {} 0", 8 * ALL, 8 * ms)), "0");
        let first = booked(below, ALL);
        assert_eq!(normal.ask("launch 262 20 0"), "0");
        assert_eq!([below.ask("sync"), normal.ask("sync")], ["0", "0"]);
        let (waves, normal) = (pieces(below, ALL), booked(normal, 262));
        assert_eq!(waves.len(), 8);
        assert!(normal.start >= first.end, "nothing is interrupted");
        assert!(
            waves
                .iter()
                .all(|wave| wave.end <= normal.start || wave.start >= normal.end)
        );
        normal.end <= waves[7].start
    });
}

#[test]
fn streams_of_greater_priority_go_first_within_a_client() {
    let name = "streams_of_greater_priority_go_first_within_a_client";
    for environment in [&[][..], &[BELOW_NORMAL]] {
        in_time(name, &[environment], |children, ms| {
            let streams = ["0", "-3", "-5"].map(|priority| children[0].ask(&format!("stream {priority}")));
            let [low, high, _] = streams.map(|stream| format!("50 {stream}"));
            let (low, high) = (format!("launch 263 {low}"), format!("launch 262 {high}"));
            let (low, high) = behind_a_full_device(children, ms, (0, &low), (0, &high));
            high.end <= low.start
        });
    }
}

#[test]
fn a_percentage_bounds_what_a_client_occupies() {
    let name = "a_percentage_bounds_what_a_client_occupies";
    let quarter = ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25");
    in_time(name, &[&[quarter], &[]], |children, ms| {
        let [bounded, other] = children else {
            unreachable!()
        };
        assert_eq!(
            [bounded.ask("multiprocessors"), other.ask("multiprocessors")],
            ["32", "132"]
        );
        // Two kernels that would fill the device: at once on its 32 multiprocessors they cannot be.
        assert_eq!([bounded.ask("stream 0"), bounded.ask("stream 0")], ["1", "2"]);
        for stream in [1, 2] {
            assert_eq!(bounded.ask(&format!("launch {ALL} {ms} {stream}")), "0");
        }
        let last = booked(bounded, 64);
        assert_eq!(other.ask("launch 200 50 0"), "0");
        assert_eq!([bounded.ask("sync"), other.ask("sync")], ["0", "0"]);
        let (own, other) = (pieces(bounded, 64), booked(other, 200));
        assert_eq!(own.len(), 2);
        assert!(own[0].end <= own[1].start);
        // 264 blocks, 64 at a time.
        assert!((own[0].end - own[0].start) / 1_000_000 >= 4 * ms);
        other.start < last.end
    });
}

#[test]
fn neither_means_anything_without_mps() {
    let name = "neither_means_anything_without_mps";
    let environment = [
        BELOW_NORMAL,
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"),
        ("SOFTGPU_MPS", "off"),
    ];
    in_time(name, &[&environment], |children, _| {
        assert_eq!(children[0].ask("multiprocessors"), "132");
        assert_eq!(children[0].ask(&format!("launch {} 20 0", 4 * ALL)), "0");
        assert_eq!(children[0].ask("sync"), "0");
        let all = pieces(&mut children[0], ALL);
        assert_eq!(all.len(), 1, "it is booked as one: {all:?}");
        true
    });
}
