//! Programs of all kinds for long, while mgbd, its holder, batches and the programs themselves are killed,
//! and while mgbd lacks what it usually has.

mod troubles;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::{prefix, softgpu_libraries};
use mgb_tests::process::{RunningProgram, run};
use mgb_tests::wait;
use rustix::process::Signal;

use troubles::Troubles;

/// Programs at once.
const AT_ONCE: usize = 8;
/// The most memory that an mgbd may have, in KiB.
const MAX_MEMORY: u64 = 64 << 10;

/// Descriptors that the last mgbd, or its holder, may have beyond those of the first.
const MAX_DESCRIPTORS: usize = 4;
/// Threads of the same: some begin when there is something for them to do.
const MAX_THREADS: usize = 8;

/// Programs that begin and end tasks, grow, are moved and swapped out, in several threads; one that was not
/// rebuilt; and a batch of others.
const PROGRAMS: [(&str, &[&str]); 8] = [
    ("phases", &["16", "10", "10", "compute", "4", "8"]),
    ("lists", &["200", "100"]),
    ("threads", &["60000", "40"]),
    ("pauses", &["12", "4", "20"]),
    ("twotasks", &["262144", "262144"]),
    ("grow", &["4MiB", "24MiB"]),
    ("stencil", &["20000", "200"]),
    ("batch", &[]),
];

/// A number from the environment.
fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// Kills the holder, and waits until mgbd has another one.
fn replace_holder(node: &PrivateNode) {
    let old = node.holder_pid().expect("there is a holder");
    node.kill_holder();
    wait::until("another holder", || {
        node.holder_pid().filter(|new| *new != old).map(drop)
    });
    // It says hello to whoever asks once mgbd has told it all: both go through one loop.
    run(&mut node.mgb(&["status"])).success();
}

/// Open descriptors and threads of a process.
fn has_open(pid: u32) -> (usize, usize) {
    let count = |of: &str| std::fs::read_dir(format!("/proc/{pid}/{of}")).map_or(0, Iterator::count);
    (count("fd"), count("task"))
}

/// A node with programs of all kinds.
struct Soak {
    node: PrivateNode,
    troubles: Troubles,
    plain: PathBuf,
    running: Vec<RunningProgram>,
    begun: usize,
    ended: usize,
    killed: usize,
    /// The most memory that any mgbd was seen to have, in KiB.
    memory: u64,
}

impl Soak {
    fn start() -> Soak {
        let mut node = PrivateNode::without_mgbd("2x64MiB");
        let (troubles, mut mgbd) = Troubles::prepare(&mut node);
        node.start_mgbd_as(&mut mgbd);
        let vecadd = built::program("vecadd");
        let line = format!("{} 1000\n", vecadd.display());
        node.write("jobs.txt", &line.repeat(3));
        Soak {
            plain: built::driver_program("pauses", node.folder()),
            node,
            troubles,
            running: Vec::new(),
            begun: 0,
            ended: 0,
            killed: 0,
            memory: 0,
        }
    }

    fn command(&self) -> Command {
        let (name, arguments) = PROGRAMS[self.begun % PROGRAMS.len()];
        let mut command = match name {
            "batch" => {
                let logs = format!("logs-{}", self.begun);
                self.node.mgb(&["batch", "--logs", &logs, "jobs.txt"])
            }
            "pauses" => {
                let mut command = self.node.command(&self.plain, arguments);
                let first = [prefix().join("lib/front"), softgpu_libraries()];
                command.env(
                    "LD_LIBRARY_PATH",
                    std::env::join_paths(first).expect("they are paths"),
                );
                command
            }
            _ => self.node.command(built::program(name), arguments),
        };
        command.env("MGB", "require").env("MGB_EVICT_EVERY", "10");
        command
    }

    fn fill(&mut self) {
        while self.running.len() < AT_ONCE {
            self.running.push(RunningProgram::start(&mut self.command()));
            self.begun += 1;
        }
    }

    fn reap(&mut self, all: bool) {
        for mut program in std::mem::take(&mut self.running) {
            if !all && program.runs() {
                self.running.push(program);
                continue;
            }
            let ended = program.end();
            let says = ended.stdout.contains("PASS") || ended.stdout.contains("3 jobs");
            assert!(ended.code() == 0 && says, "{ended:?}");
            self.ended += 1;
        }
    }

    /// Kills one of the programs.
    fn kill_one(&mut self, at: usize) {
        let mut victim = self.running.swap_remove(at % self.running.len());
        let has_ended = !victim.runs();
        self.killed += usize::from(!has_ended);
        self.ended += usize::from(has_ended);
    }

    fn look(&mut self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.node.mgbd_pid()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        self.memory = self.memory.max(kib.unwrap_or(0));
    }
}

/// Who was not killed is right, and nothing is left. `make soak` plays it whole.
#[test]
fn nothing_is_lost_however_often_mgbd_is_killed() {
    let kills = number("MGB_SOAK_KILLS", 16);
    let jobs = number("MGB_SOAK_JOBS", kills);
    let mut soak = Soak::start();
    // With a holder, which comes with the first program.
    run(&mut soak.node.command(built::program("vecadd"), &["1000"])).success();
    soak.node.wait_until_empty();
    let open = |soak: &Soak| {
        let holder = soak.node.holder_pid().expect("there is a holder");
        [soak.node.mgbd_pid(), holder].map(has_open)
    };
    let first = open(&soak);
    for kill in 0..kills {
        loop {
            soak.fill();
            std::thread::sleep(Duration::from_millis(20));
            soak.reap(false);
            if soak.begun * kills >= (kill + 1) * jobs {
                break;
            }
        }
        soak.fill();
        std::thread::sleep(Duration::from_millis(37 * kill as u64 % 200));
        soak.look();
        if kill % 4 == 1 {
            soak.troubles.begin(soak.node.mgbd_pid());
        }
        match kill % 8 {
            7 => replace_holder(&soak.node),
            3 => soak.kill_one(kill),
            2 | 5 => soak.node.replace_mgbd(Signal::USR1),
            _ => soak.node.replace_mgbd(Signal::KILL),
        }
        soak.reap(false);
    }
    soak.troubles.end();
    soak.reap(true);
    assert_eq!(soak.ended + soak.killed, soak.begun);
    soak.node.wait_until_empty();
    assert_eq!(soak.node.view().counts.offenders, 0);
    wait::until("descriptors and threads to be as at first", || {
        let last = open(&soak);
        let is_flat = |(last, first): (&(usize, usize), &(usize, usize))| {
            last.0 <= first.0 + MAX_DESCRIPTORS && last.1 <= first.1 + MAX_THREADS
        };
        last.iter().zip(&first).all(is_flat).then_some(())
    });
    assert!(soak.memory < MAX_MEMORY, "an mgbd had {} KiB", soak.memory);
    println!(
        "{} programs, {} killed; {} troubles; mgbd had {} KiB at most; descriptors and threads of mgbd and its \
         holder: {first:?}, then {:?}",
        soak.begun,
        soak.killed,
        soak.troubles.count(),
        soak.memory,
        open(&soak)
    );
}
