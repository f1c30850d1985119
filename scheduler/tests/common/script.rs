//! A client's side: the process that carries out a script.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use mgb_probe::Client;
use mgb_probe::wire::JoinedMps;

use super::{MIB, go_file, memory_file, wait_for};

/// Carries out the script in the environment. Words, each with its arguments: `connect` (which it does
/// anyway), `begin MIB`, `whole MIB`, `blocks N` (of the launches of tasks that begin later), `list` (being
/// listed by the driver, without any memory yet), `map MIB`, `unmap MIB`, `grow MIB`, `end`, `keep PATH`
/// (gives mgbd that file to keep), `busy` and `done` (with work), `urgent` (with work that others wait for),
/// `paused MS` (for that long), `times` (whose the GPU's time was, as mgbd has told), `turn` and `over` (at
/// the driver), `await` (until [`Daemon::go`](super::Daemon::go) says so), `sleep MS`, `say TEXT`, `exec
/// PROGRAM ARG`, `fork`.
pub fn client_process() {
    let Ok(script) = std::env::var("MGB_TEST_SCRIPT") else {
        return;
    };
    let mut life = Life::new();
    let mut words = script.split_whitespace();
    while let Some(word) = words.next() {
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        match word {
            "connect" => {}
            "begin" => life.begin(number() * MIB, false),
            "whole" => life.begin(number() * MIB, true),
            "blocks" => life.blocks = number(),
            "list" => life.write(0),
            "map" => life.map(number() * MIB),
            "unmap" => life.unmap(number() * MIB),
            "grow" => life.grow(number() * MIB),
            "end" => life.end(),
            "keep" => life.keep(words.next().unwrap()),
            "busy" => life.given(1),
            "done" => life.given(0),
            "urgent" => life.urgent(),
            "paused" => life.client.pace().note_held(Duration::from_millis(number())),
            "joins" => life.joins(number() as u8, number() as u8),
            "latency" => drop(mgb_probe::become_latency()),
            "times" => life.times(),
            "turn" => life.turn(),
            "over" => life.turn = None,
            "await" => life.wait_to_go(),
            "sleep" => std::thread::sleep(Duration::from_millis(number())),
            "say" => say(words.next().unwrap()),
            "exec" => exec(words.next().unwrap(), words.next().unwrap()),
            "fork" => life.fork(),
            other => panic!("unknown word {other}"),
        }
    }
}

fn say(what: &str) {
    use std::io::Write;
    // One write, so that lines of a forked child do not mix with the parent's.
    std::io::stdout()
        .write_all(format!("{what}\n").as_bytes())
        .unwrap();
    std::io::stdout().flush().unwrap();
}

fn exec(program: &str, argument: &str) {
    use std::os::unix::process::CommandExt;
    say("execing");
    panic!("{}", Command::new(program).arg(argument).exec());
}

struct Life {
    client: &'static Client,
    folder: PathBuf,
    context: u64,
    task: Option<(mgb_probe::TaskId, u32)>,
    mapped: u64,
    blocks: u64,
    turn: Option<mgb_probe::Turn<'static>>,
}

impl Life {
    fn new() -> Life {
        Life {
            client: mgb_probe::client().expect("mgbd"),
            folder: PathBuf::from(std::env::var_os("MGB_TEST_MEMORY").unwrap()),
            context: std::env::var("MGB_TEST_CONTEXT").unwrap().parse().unwrap(),
            task: None,
            mapped: 0,
            blocks: 8,
            turn: None,
        }
    }

    /// As if its driver had joined MPS so; a percentage of 0 is none.
    fn joins(&self, priority: u8, percentage: u8) {
        self.client.published().joins_mps(JoinedMps {
            priority: Some(priority),
            percentage: Some(percentage).filter(|&percentage| percentage > 0),
            ..JoinedMps::default()
        });
    }

    fn wait_to_go(&self) {
        wait_for("the word to go", || go_file(&self.folder).exists());
    }

    fn turn(&mut self) {
        let start = Instant::now();
        self.turn = Some(self.client.turn(false));
        say(&format!("turn after {} ms", start.elapsed().as_millis()));
    }

    fn urgent(&self) {
        self.client.set_urgent(self.gpu(), true);
    }

    fn gpu(&self) -> u32 {
        self.task.expect("a task").1
    }

    fn begin(&mut self, bytes: u64, whole_process: bool) {
        let need = mgb_probe::Need {
            mapped_bytes: bytes,
            grid_blocks: self.blocks,
            block_threads: 64,
            ..Default::default()
        };
        let request = mgb_probe::BeginRequest {
            need,
            whole_process,
            ..Default::default()
        };
        match self.client.begin(&request) {
            Ok(grant) => {
                self.task = Some((grant.task, grant.gpu));
                say(&format!("granted {}", grant.gpu));
            }
            Err(refusal) => say(&format!("refused {refusal}")),
        }
    }

    /// As if the driver did it: atomically, all at once.
    fn write(&self, bytes: u64) {
        let file = memory_file(&self.folder, std::process::id(), self.gpu() as usize);
        let new = self.folder.join(format!("new{}", std::process::id()));
        std::fs::write(&new, bytes.to_string()).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    fn map(&mut self, bytes: u64) {
        self.mapped += bytes;
        self.write(self.mapped + self.context);
        self.client.published().context_made(self.gpu());
        self.client.published().mapped(self.gpu(), bytes);
    }

    fn unmap(&mut self, bytes: u64) {
        self.client.published().unmapping(self.gpu(), bytes);
        self.mapped -= bytes;
        self.write(self.mapped + self.context);
    }

    fn keep(&self, path: &str) {
        let file = std::fs::File::open(path).unwrap();
        self.client.keep(&[file.as_fd(), file.as_fd()]).unwrap();
    }

    fn given(&self, work: u64) {
        let words = &self.client.published().gpus()[self.gpu() as usize];
        words.given.store(work, std::sync::atomic::Ordering::Release);
    }

    fn times(&self) {
        let time = self.client.published().gpus()[self.gpu() as usize].time();
        let [busy, part, all] =
            [time.busy_ns, time.part_ns, time.gpu_busy_ns].map(|nanoseconds| nanoseconds / 1_000_000);
        say(&format!("busy {busy} part {part} all {all}"));
    }

    fn grow(&mut self, bytes: u64) {
        let (task, _) = self.task.expect("a task");
        let mut more = bytes;
        let mut back = 0;
        loop {
            match self.client.grow(task, more) {
                Ok(mgb_probe::Grown::Granted { .. }) => break,
                Ok(mgb_probe::Grown::SwapOut) => {
                    say("swapped");
                    let own = self.mapped;
                    back += own;
                    more += own;
                    self.unmap(own);
                    self.client.swapped(task, own);
                }
                Err(refusal) => return say(&format!("refused {refusal}")),
            }
        }
        self.map(bytes + back);
        say("grown");
    }

    fn end(&mut self) {
        let (task, _) = self.task.expect("a task");
        self.unmap(self.mapped);
        self.client.end(task, 0);
        self.task = None;
    }

    fn fork(&mut self) {
        // SAFETY: the child only calls what is made for a forked child here, and
        // leaves by _exit.
        match unsafe { libc::fork() } {
            0 => {
                assert!(
                    !self.client.is_connected(),
                    "the parent's client works in the child"
                );
                *self = Life::new();
                self.begin(MIB, false);
                // SAFETY: ends the child without running the test program's rest.
                unsafe { libc::_exit(0) }
            }
            child => {
                let mut status = 0;
                // SAFETY: waits for the child just made.
                unsafe { libc::waitpid(child, &mut status, 0) };
                assert_eq!(status, 0);
            }
        }
    }
}
