//! Random calls of the driver's API (`driver_api/`) on software GPUs, natively and under MGB's front: every
//! call answers the same, memory has what was written there, and what mgbd has charged is what the software
//! GPU has given.
//!
//! `make test` plays a hundred seeds, `make api-test` 20,000 (`MGB_API_SEEDS`), the first of which is 1 or
//! `MGB_API_FIRST`. What fails names its seed and step; `target/release/driver-api play SEED SEED FILE`
//! writes what it calls to a file.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{prefix, softgpu_libraries};
use mgb_tests::process::{Ended, RunningProgram};
use mgb_tests::wait;

/// The program that plays.
const PLAYER: &str = env!("CARGO_BIN_EXE_driver-api");
/// Seeds of one process.
const SLICE: u64 = 100;
/// How often a slice is played natively until it is right.
const NATIVELY: u32 = 3;
/// What a slice may take on a busy machine.
const SLICE_TIMEOUT: Duration = Duration::from_secs(600);

/// Where seeds are played.
struct Arrangement {
    /// As `SOFTGPU_DEVICES` takes it.
    gpus: &'static str,
    /// What mgbd is told.
    mgbd: &'static [&'static str],
    /// A neighbour that holds so many MiB, for so many milliseconds at a time.
    neighbour: Option<[&'static str; 2]>,
    /// Hundredths of all seeds.
    share: u64,
    /// How many seeds come before its own.
    before: u64,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}"))
    })
}

impl Arrangement {
    fn slices(&self) -> Vec<[u64; 2]> {
        let all = number("MGB_API_SEEDS", 100);
        let first = number("MGB_API_FIRST", 1) + (all * self.before).div_ceil(100);
        let last = first + (all * self.share).div_ceil(100) - 1;
        let slices = (first..=last).step_by(SLICE as usize);
        slices.map(|first| [first, last.min(first + SLICE - 1)]).collect()
    }

    /// Plays seeds, whose lines go to a file.
    fn play(&self, node: &PrivateNode, mode: &str, [first, last]: [u64; 2], file: &Path) -> Ended {
        let file = file.to_str().expect("a path in UTF-8");
        let (first, last) = (first.to_string(), last.to_string());
        let mut command = player(node, mode, &["play", &first, &last, file]);
        let running = RunningProgram::start(&mut command);
        let neighbour = self
            .neighbour
            .filter(|_| mode != "off")
            .map(|[mib, milliseconds]| {
                // Whoever comes while the neighbour waits would wait behind it.
                wait::until("the player has begun", || Path::new(file).exists().then_some(()));
                RunningProgram::start(&mut player(node, mode, &["hold", mib, milliseconds]))
            });
        let ended = running.try_end_within(SLICE_TIMEOUT).unwrap_or_else(|ended| {
            panic!(
                "seeds {first}..{last} do not end ({mode}): {ended:?}\n{}",
                last_of(file)
            )
        });
        if let Some(mut neighbour) = neighbour {
            assert!(neighbour.runs(), "the neighbour: {:?}", neighbour.end());
        }
        ended
    }

    /// What a slice answers natively. `None`: it is wrong there, which is not MGB's fault, and may be right
    /// next time: threads of the software GPU on a busy machine.
    fn natively(&self, slice: [u64; 2], attempt: u32) -> Option<String> {
        let native = PrivateNode::without_mgbd(self.gpus);
        let file = native.folder().join("natively");
        let ended = self.play(&native, "off", slice, &file);
        if ended.code() != 0 {
            println!("attempt {attempt} natively: {ended:?}\n{}", last_of(&file));
            return None;
        }
        Some(std::fs::read_to_string(&file).expect("it was written"))
    }

    /// Plays a slice natively and under MGB.
    fn compare(&self, slice: [u64; 2]) {
        let expected = (1..=NATIVELY).find_map(|attempt| self.natively(slice, attempt));
        let expected = expected.expect("it is right natively");

        let mut node = PrivateNode::without_mgbd(self.gpus);
        node.start_mgbd_with("mgb", self.mgbd);
        let file = node.folder().join("under-mgb");
        let ended = self.play(&node, "require", slice, &file);
        assert_eq!(ended.code(), 0, "under MGB: {ended:?}\n{}", last_of(&file));
        let seen = std::fs::read_to_string(&file).expect("it was written");
        for (expected, seen) in expected.lines().zip(seen.lines()) {
            assert_eq!(seen, expected, "under MGB, and natively");
        }
        assert_eq!(seen.lines().count(), expected.lines().count());
        node.wait_until_empty();
    }

    /// Plays its seeds, two slices at a time.
    fn all(&self) {
        let slices = Mutex::new(self.slices().into_iter());
        std::thread::scope(|scope| {
            let player = || {
                while let Some(slice) = { slices.lock().expect("no holder panics").next() } {
                    self.compare(slice);
                }
            };
            let threads = [scope.spawn(player), scope.spawn(player)];
            for thread in threads {
                thread.join().expect("a slice is as it has to be");
            }
        });
    }
}

fn player(node: &PrivateNode, mode: &str, arguments: &[&str]) -> Command {
    let mut command = node.command(PLAYER, arguments);
    command
        .env("MGB", mode)
        .env("SOFTGPU_TIME", "off")
        .env("MGB_PREFIX", prefix());
    if mode != "off" {
        let libraries = [prefix().join("lib/front"), softgpu_libraries()];
        command.env(
            "LD_LIBRARY_PATH",
            std::env::join_paths(libraries).expect("no folder has a colon in its name"),
        );
    }
    command
}

/// What was called last.
fn last_of(file: impl AsRef<Path>) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

#[test]
fn calls_answer_as_natively() {
    Arrangement {
        gpus: "1x192MiB",
        mgbd: &["--no-swap"],
        neighbour: None,
        share: 40,
        before: 0,
    }
    .all();
}

/// The neighbour leaves too little, so that allocations wait.
#[test]
fn calls_answer_as_natively_beside_a_neighbour() {
    let neighbour = Some(["160", "5"]);
    Arrangement {
        gpus: "1x192MiB",
        mgbd: &["--no-swap"],
        neighbour,
        share: 30,
        before: 40,
    }
    .all();
}

/// As before, and whoever is idle is swapped out.
#[test]
fn calls_answer_as_natively_while_memory_is_swapped() {
    let neighbour = Some(["160", "20"]);
    Arrangement {
        gpus: "1x192MiB",
        mgbd: &[],
        neighbour,
        share: 10,
        before: 70,
    }
    .all();
}

#[test]
fn calls_answer_as_natively_on_two_devices() {
    Arrangement {
        gpus: "2x192MiB",
        mgbd: &["--no-swap"],
        neighbour: None,
        share: 20,
        before: 80,
    }
    .all();
}
