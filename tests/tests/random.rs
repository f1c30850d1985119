//! Random programs (`tests/random`) on software GPUs, natively and under MGB: every byte is as its model has
//! it, and calls that fail answer the same.
//!
//! `make test` plays a few seeds, `make random-test` ten thousand (`MGB_RANDOM_SEEDS`), the first of which is
//! 1 or `MGB_RANDOM_FIRST`: what is rare shows only where not all play the same seeds. What fails names its
//! seed; `random SEED --trace` lists what it did, `--steps N` shortens it.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{prefix, repository, softgpu_libraries};
use mgb_tests::process::RunningProgram;
use mgb_tests::{built, plain};

/// Seeds of one process.
const SLICE: u64 = 40;

/// A process watches over its own seeds; this is for all of a slice, on a busy machine.
const SLICE_TIMEOUT: Duration = Duration::from_secs(600);

/// The program that was not rebuilt.
const BEHIND_THE_FRONT: &str = "plain";

/// What `random` is told besides its seeds.
struct RandomOptions {
    program: &'static str,
    flags: &'static [&'static str],
    /// Hundredths of all seeds.
    share: u64,
    /// Milliseconds between two evictions that nobody orders, on average; 0: there are none.
    evict_every: u32,
}

impl RandomOptions {
    fn slices(&self) -> Vec<(u64, u64)> {
        let number = |name, default| {
            env::var(name).map_or(default, |text| {
                text.parse()
                    .unwrap_or_else(|_| panic!("{name} is not a number: {text}"))
            })
        };
        let first: u64 = number("MGB_RANDOM_FIRST", 1);
        let all: u64 = number("MGB_RANDOM_SEEDS", 160);
        let last = first + (all * self.share).div_ceil(100) - 1;
        (first..=last)
            .step_by(SLICE as usize)
            .map(|first| (first, last.min(first + SLICE - 1)))
            .collect()
    }

    fn path(&self) -> PathBuf {
        if self.program == BEHIND_THE_FRONT {
            plain::program(&repository().join("tests/random/random.cu"), &["-O1", "-pthread"])
        } else {
            programs().join(self.program)
        }
    }

    /// Where programs leave their traces.
    fn trace(node: &PrivateNode) -> PathBuf {
        node.folder().join("trace")
    }

    fn start(&self, node: &PrivateNode, mode: &str, (first, last): (u64, u64)) -> RunningProgram {
        let range = format!("{first}..{last}");
        let mut command = node.command(self.path(), &[&range]);
        if self.program == BEHIND_THE_FRONT && mode != "off" {
            let libraries = [prefix().join("lib/front"), softgpu_libraries()];
            let path = env::join_paths(libraries).expect("no folder has a colon in its name");
            command.env("LD_LIBRARY_PATH", path);
        }
        command
            .args(self.flags)
            .env("MGB", mode)
            .env("MGB_TRACE", RandomOptions::trace(node))
            .env("SOFTGPU_TIME", "off");
        if self.evict_every > 0 {
            command.env("MGB_EVICT_EVERY", self.evict_every.to_string());
        }
        RunningProgram::start(&mut command)
    }

    /// Plays all seeds natively and under MGB.
    fn play(&self, devices: &str) {
        self.play_on(&PrivateNode::start(devices, "mgb"));
    }

    /// The same on this node.
    fn play_on(&self, node: &PrivateNode) {
        for slice in self.slices() {
            let natively = answers(self.start(node, "off", slice));
            let shared = answers(self.start(node, "require", slice));
            assert_eq!(natively, shared, "other answers under MGB");
        }
        node.wait_until_empty();
    }
}

/// The folder with the programs.
fn programs() -> PathBuf {
    static DONE: OnceLock<PathBuf> = OnceLock::new();
    DONE.get_or_init(built::random).clone()
}

/// What the calls of each seed answered that fail on purpose, as a sum.
fn answers(program: RunningProgram) -> BTreeMap<u64, String> {
    let output = program.end_within(SLICE_TIMEOUT).success();
    output
        .lines()
        .filter_map(|line| {
            let (seed, answers) = line.split_once(' ')?;
            Some((seed.parse().ok()?, answers.to_owned()))
        })
        .collect()
}

#[test]
fn on_one_device() {
    let flags = &["--without", "devices"];
    RandomOptions {
        program: "random",
        flags,
        share: 40,
        evict_every: 0,
    }
    .play("1x256MiB");
}

#[test]
fn on_two_devices() {
    RandomOptions {
        program: "random",
        flags: &[],
        share: 20,
        evict_every: 0,
    }
    .play("2x256MiB");
}

/// Copies in streams of a device that has neither side's objects.
#[test]
fn on_three_devices() {
    RandomOptions {
        program: "random",
        flags: &[],
        share: 10,
        evict_every: 0,
    }
    .play("3x256MiB");
}

/// With default streams of each thread's own.
#[test]
fn with_streams_per_thread() {
    let flags = &["--without", "devices"];
    RandomOptions {
        program: "random_per_thread",
        flags,
        share: 10,
        evict_every: 0,
    }
    .play("1x256MiB");
}

/// Each seed as the first of its process: nothing is bound when it begins.
#[test]
fn from_the_beginning() {
    let flags = &["--reset", "--without", "devices"];
    RandomOptions {
        program: "random",
        flags,
        share: 10,
        evict_every: 0,
    }
    .play("1x256MiB");
}

/// Plays seeds by three processes at once on devices with little memory: they swap each other out and in.
fn crowd(devices: &str, flags: &'static [&'static str]) {
    let part = RandomOptions {
        program: "random",
        flags,
        share: 5,
        evict_every: 0,
    };
    let node = PrivateNode::start(devices, "mgb");
    for slice in part.slices() {
        let all: Vec<RunningProgram> = (0..3).map(|_| part.start(&node, "require", slice)).collect();
        for program in all {
            answers(program);
        }
    }
    node.wait_until_empty();
}

#[test]
fn where_memory_is_short() {
    crowd(
        "1x32MiB",
        &["--most", "6", "--without", "devices,pool,managed,errors"],
    );
}

#[test]
fn where_two_devices_have_little_memory() {
    crowd("2x32MiB", &["--most", "6", "--without", "pool,managed,errors"]);
}

/// Plays seeds while their memory leaves the devices again and again, at any moment.
fn evicted(program: &'static str, devices: &str, flags: &'static [&'static str]) {
    let part = RandomOptions {
        program,
        flags,
        share: 10,
        evict_every: 2,
    };
    part.play(devices);
}

#[test]
fn while_memory_leaves_one_device() {
    evicted("random", "1x256MiB", &["--without", "devices"]);
}

#[test]
fn while_memory_leaves_two_devices() {
    evicted("random", "2x256MiB", &[]);
}

/// Plays seeds while launches are held on devices that change at random, and what is in flight is bounded.
fn held(program: &'static str, devices: &str, evict_every: u32) {
    let part = RandomOptions {
        program,
        flags: &[],
        share: 10,
        evict_every,
    };
    let mut node = PrivateNode::without_mgbd(devices);
    node.start_mgbd_with("mgb", &["--hold-every", "2"]);
    part.play_on(&node);
    let trace = std::fs::read_to_string(RandomOptions::trace(&node)).expect("programs leave traces");
    let lines = trace
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let paused: u64 = lines.filter_map(|line| line["paused_ns"].as_u64()).sum();
    assert!(paused > 1_000_000, "launches were held for {paused} ns in all");
}

#[test]
fn while_launches_are_held() {
    held("random", "2x256MiB", 0);
}

#[test]
fn while_launches_are_held_and_memory_leaves() {
    held("random", "2x256MiB", 2);
}

#[test]
fn while_launches_are_held_behind_the_front() {
    held(BEHIND_THE_FRONT, "2x256MiB", 0);
}

/// One seed again and again, which launches graphs of one device over memory of another from three threads: once
/// in thirty times that memory left between the launch's preparation and the launch.
#[test]
fn while_memory_leaves_what_a_graph_uses() {
    let part = RandomOptions {
        program: "random",
        flags: &[],
        share: 100,
        evict_every: 1,
    };
    let node = PrivateNode::start("2x256MiB", "mgb");
    for _ in 0..100 {
        answers(part.start(&node, "require", (9, 9)));
    }
    node.wait_until_empty();
}

#[test]
fn while_memory_leaves_streams_per_thread() {
    evicted("random_per_thread", "1x256MiB", &["--without", "devices"]);
}

#[test]
fn while_memory_leaves_behind_the_front() {
    // In the arena an access fails past the end of its granule.
    evicted(BEHIND_THE_FRONT, "1x256MiB", &["--without", "devices,errors"]);
}
