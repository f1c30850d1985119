//! Two processes on one device: its memory is enforced between them, their contexts are counted, and SIGKILL
//! of one leaves nothing behind.
//!
//! In a round two programs take memory until both are refused; then one is killed at some moment of what it
//! does, while the other one computes. `make test` plays a few rounds, `make kill-test` a thousand
//! (`MGB_NEIGHBOUR_ROUNDS`). All that is random in a round comes from one number, which a failure names:
//! `MGB_NEIGHBOUR_SEED` begins with that round.

mod neighbour;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, thread};

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{bin, repository};
use mgb_tests::process::run;
use mgb_tests::wait;
use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

use neighbour::Neighbour;

const MIB: u64 = 1 << 20;

/// The device, and what each process's context takes of it.
const DEVICE: &str = "1x64MiB:ctx=3MiB";
const TOTAL: u64 = 64 * MIB;
const CONTEXT: u64 = 3 * MIB;

/// The unit in which softgpu, as the driver, gives memory to processes.
const CHUNK: u64 = 2 * MIB;

/// The phases of `program.cu`, by their numbers there.
const PHASES: [&str; 12] = [
    "start",
    "context",
    "allocation",
    "release",
    "copy in",
    "copy out",
    "kernel",
    "set",
    "stream",
    "managed",
    "pool",
    "reset",
];

/// When the victim holds the lock on what processes share; not a phase, but a moment of any.
const LOCKED: &str = "holding the lock";

#[test]
fn one_of_two_is_killed() {
    let number = |name: &str, default| {
        env::var(name).map_or(default, |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("{name} is a number, not {text}"))
        })
    };
    let rounds = number("MGB_NEIGHBOUR_ROUNDS", 20);
    let seed = number("MGB_NEIGHBOUR_SEED", 1);
    let street = Street::new();
    let mut moments = BTreeMap::<&str, u32>::new();
    let began = Instant::now();
    for seed in seed..seed + rounds {
        let round = catch_unwind(AssertUnwindSafe(|| street.round(&mut Random::new(seed))));
        match round {
            Ok(moment) => *moments.entry(moment).or_default() += 1,
            Err(panic) => {
                eprintln!("this was the round of MGB_NEIGHBOUR_SEED={seed}, with MGB_NEIGHBOUR_ROUNDS=1");
                resume_unwind(panic);
            }
        }
    }
    eprintln!(
        "{rounds} rounds in {:.1?}, killed in {moments:?}",
        began.elapsed()
    );
}

/// Where the neighbours live: one device's state for all rounds, so that what one round left would be seen in
/// the next.
struct Street {
    node: PrivateNode,
    program: PathBuf,
    mark: File,
    before: Vec<String>,
}

impl Street {
    fn new() -> Street {
        let node = PrivateNode::without_mgbd(DEVICE);
        let program = node.folder().join("program");
        let mut compile = node.command(bin("mgb-clang++"), &["--offload-arch=sm_90", "-O1", "-std=c++17"]);
        let source = repository().join("tests/tests/e2e/neighbours/program.cu");
        run(compile.arg(source).arg("-o").arg(&program)).success();
        let mark = node.write("mark", "0000");
        fs::create_dir(node.folder().join("tmp")).expect("a temporary folder can be written");
        let mark = File::options()
            .read(true)
            .write(true)
            .open(mark)
            .expect("was written");
        Street {
            node,
            program,
            mark,
            before: shared_files(),
        }
    }

    fn start(&self, arguments: &[&str]) -> Neighbour {
        let mut command = self.node.command(&self.program, &["mark"]);
        command.args(arguments).env("MGB", "off");
        Neighbour::start(command.env("TMPDIR", self.node.folder().join("tmp")))
    }

    /// Plays a round; gives the moment of the kill.
    fn round(&self, random: &mut Random) -> &'static str {
        self.mark
            .write_all_at(&0u32.to_ne_bytes(), 0)
            .expect("can be written");
        let mut stays = self.start(&[]);
        let moment = if random.below(8) == 0 {
            self.kill_at_start(&mut stays, random)
        } else {
            let mut dies = self.start(&[]);
            self.share(&mut stays, &mut dies, random);
            self.kill_at_work(&mut stays, dies, random)
        };
        self.has_it_all(&mut stays);
        stays.end();
        self.nothing_is_left();
        moment
    }

    /// Kills a process at any time from its birth on.
    fn kill_at_start(&self, stays: &mut Neighbour, random: &mut Random) -> &'static str {
        assert_eq!(stays.ask(&format!("take {}", 10 * MIB)), "0");
        stays.tell("work 2");
        let dies = self.start(&["all"]);
        // Early moments are short: half of the kills come within the first 1.5 ms or so.
        let longest = 1 + random.below(12_000);
        thread::sleep(Duration::from_micros(random.below(longest)));
        dies.kill();
        assert_eq!(stays.answer(), "right");
        self.phase()
    }

    /// Both take memory at once until they are refused: all of it is given, none of it twice.
    fn share(&self, stays: &mut Neighbour, dies: &mut Neighbour, random: &mut Random) {
        let pieces = [random.piece(), random.piece()];
        // Both have a context before one may have taken the room that the other's needs.
        let first = format!("take {CHUNK}");
        stays.tell(&first);
        dies.tell(&first);
        assert_eq!([stays.answer(), dies.answer()], ["0", "0"]);
        stays.tell(&format!("grab {}", pieces[0]));
        dies.tell(&format!("grab {}", pieces[1]));
        let mut held = [0; 2];
        for (at, one) in [&mut *stays, &mut *dies].into_iter().enumerate() {
            let answer = one.answer();
            let (code, count) = answer.split_once(' ').expect("a code and a count");
            assert_eq!(
                code, "2",
                "the one that is refused gets cudaErrorMemoryAllocation"
            );
            held[at] = CONTEXT + CHUNK + count.parse::<u64>().expect("a count") * pieces[at];
        }
        let (used, mut processes) = nvml(stays);
        let mut expected = vec![(stays.pid(), held[0]), (dies.pid(), held[1])];
        processes.sort_unstable();
        expected.sort_unstable();
        assert_eq!(processes, expected);
        assert_eq!(used, held[0] + held[1]);
        let left = TOTAL.checked_sub(used).expect("never more than there is");
        assert!(
            left < pieces[0].min(pieces[1]),
            "refused {pieces:?} with {left} bytes left"
        );
        assert_eq!(stays.ask(&format!("keep {}", 1 + random.below(2))), "kept");
        // What a phase needs, 8 MiB, must fit beside what the victim keeps.
        assert_eq!(dies.ask(&format!("keep {}", random.below(2))), "kept");
        assert_eq!(dies.ask("work 1"), "right");
    }

    /// Kills a process in a phase of its work, while the other one works.
    fn kill_at_work(&self, stays: &mut Neighbour, mut dies: Neighbour, random: &mut Random) -> &'static str {
        let phase = 2 + random.below(PHASES.len() as u64 - 2) as usize;
        let locked = random.below(5) == 0;
        stays.tell("work 2");
        dies.tell(&format!("play {}", PHASES[phase]));
        wait::until("the phase begins", || {
            (self.phase() == PHASES[phase]).then_some(())
        });
        thread::sleep(Duration::from_micros(random.below(3_000)));
        let locked = locked && self.stop_with_lock(&dies, random);
        dies.kill();
        assert_eq!(stays.answer(), "right");
        if locked { LOCKED } else { PHASES[phase] }
    }

    /// Stops a process while it holds the lock; `false` if that moment does not come.
    fn stop_with_lock(&self, dies: &Neighbour, random: &mut Random) -> bool {
        for _ in 0..1_000 {
            dies.stop();
            if self.lock_holder(0, 1) == Some(dies.pid()) {
                return true;
            }
            dies.go_on();
            thread::sleep(Duration::from_micros(random.below(200)));
        }
        false
    }

    /// Once its neighbour is dead, a process has the device for itself, at once.
    fn has_it_all(&self, stays: &mut Neighbour) {
        let (used, processes) = nvml(stays);
        assert_eq!(
            processes,
            [(stays.pid(), used)],
            "the dead hold nothing and have no context"
        );
        let left = (TOTAL - used) / CHUNK * CHUNK;
        assert_eq!(stays.ask(&format!("take {left}")), "0", "{left} of {TOTAL} bytes");
        assert_eq!(stays.ask(&format!("take {CHUNK}")), "2", "and no more");
        assert_eq!(stays.ask("work 1"), "right");
    }

    /// When both are gone, nobody has a lock, and there is no file that was not there before.
    fn nothing_is_left(&self) {
        assert_eq!(self.lock_holder(0, 0), None, "of any byte");
        let mut names = Vec::new();
        for folder in [self.node.folder().to_owned(), self.node.folder().join("tmp")] {
            names.extend(names_in(&folder));
        }
        names.sort_unstable();
        assert_eq!(names, ["mark", "program", "softgpu.state", "tmp"]);
        let new: Vec<String> = shared_files()
            .into_iter()
            .filter(|name| !self.before.contains(name))
            .collect();
        assert!(new.is_empty(), "new in /dev/shm: {new:?}");
    }

    /// The phase that the victim is in, or died in.
    fn phase(&self) -> &'static str {
        let mut bytes = [0; 4];
        self.mark.read_exact_at(&mut bytes, 0).expect("has four bytes");
        PHASES[u32::from_ne_bytes(bytes) as usize]
    }

    /// Who has a lock on some of the state file's bytes (0: all); byte 0 is the lock on its contents.
    fn lock_holder(&self, start: u64, length: u64) -> Option<u32> {
        let state = File::options()
            .read(true)
            .write(true)
            .open(self.node.folder().join("softgpu.state"))
            .expect("a program has made it");
        let mut lock = Flock::from(FlockType::WriteLock);
        (lock.start, lock.length, lock.offset_type) = (start, length, FlockOffsetType::Set);
        let holder = fcntl_getlk(&state, &lock).expect("locks can be asked for");
        Some(holder?.pid?.as_raw_nonzero().get() as u32)
    }
}

/// What NVML says: bytes in use, and the processes with a context and their bytes.
fn nvml(asked: &mut Neighbour) -> (u64, Vec<(u32, u64)>) {
    let answer = asked.ask("nvml");
    let mut words = answer.split(' ');
    let mut next = || words.next().expect("a number").parse::<u64>().expect("a number");
    let (total, used) = (next(), next());
    assert_eq!(total, TOTAL);
    let processes = words
        .map(|word| word.split_once(':').expect("a process and its bytes"))
        .map(|(pid, bytes)| (pid.parse().expect("a process"), bytes.parse().expect("bytes")))
        .collect();
    (used, processes)
}

/// What softgpu left in the folder of shared memory.
fn shared_files() -> Vec<String> {
    let mut names = names_in(&PathBuf::from("/dev/shm"));
    names.retain(|name| name.contains("softgpu"));
    names
}

fn names_in(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("can be listed");
    entries
        .map(|entry| {
            entry
                .expect("can be listed")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

/// A small generator of random numbers (splitmix64): neighbouring seeds give unlike rounds.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }

    /// The size of a piece: whole chunks, so that what is charged is what is asked for.
    fn piece(&mut self) -> u64 {
        CHUNK * (1 + self.below(5))
    }
}
