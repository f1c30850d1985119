//! Honest clients, an `mgbd` and a hostile process, each a process of its own: the test program again, with
//! its part in the environment. The test looks at what is granted, the bench at how soon.

// The test and the bench each use a part of this.
#![allow(dead_code)]

mod attacks;
mod good;
mod hoards;
mod serve;

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use mgb_probe::Client;
use mgb_probe::view::NodeView;

pub use attacks::AttackKind;
pub use good::CLIENTS;

pub const GIB: u64 = 1 << 30;
const ROLE: &str = "MGB_TEST_ROLE";
/// Where the hostile process runs on another core than the rest: what it costs them is then `mgbd`'s work.
const APART: &str = "MGB_TEST_APART";

/// Plays the part that this process was started for, if it was; then never returns.
pub fn play_own_part() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let hostile = words[0] == "attack";
    if std::env::var_os(APART).is_some() {
        run_on(core_of(words[0]));
    }
    if hostile {
        // SAFETY: changes nothing but this process's own rank.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
        become_somebody_else();
        end_with_input();
    }
    match words[..] {
        ["serve", socket] => serve::serve(Path::new(socket)),
        ["good", socket] => good::play(Path::new(socket)),
        ["attack", socket, kind] => AttackKind::named(kind).play(Path::new(socket)),
        _ => panic!("no part {role}"),
    }
    std::process::exit(0);
}

/// The hostile process has the second core. Where there is a third one the honest clients have that, and mgbd
/// has one of its own.
fn core_of(part: &str) -> usize {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    match part {
        "attack" => 1,
        "good" if cores > 2 => 2,
        _ => 0,
    }
}

fn run_on(core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores).expect("two cores");
}

/// As on a shared node, where hostile programs are another user's. Only root can do so; elsewhere they are
/// the honest clients' own.
fn become_somebody_else() {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: before this process has another thread; fails where it may not.
    unsafe {
        let _ = libc::setgid(NOBODY);
        let _ = libc::setuid(NOBODY);
    }
}

/// Ends this process with all its children once who started it is gone.
fn end_with_input() {
    std::thread::spawn(|| {
        let _ = std::io::read_to_string(std::io::stdin());
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
    });
}

/// A process with a part, in a process group of its own. Dropped, all of the group is killed.
pub struct FloodProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl FloodProcess {
    fn start(role: &str, apart: bool) -> FloodProcess {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(std::env::current_exe().unwrap());
        // What the harness of a test has to know; a bench does not look.
        command.args(["own_part", "--exact", "--nocapture", "--test-threads=1"]);
        if apart {
            command.env(APART, "1");
        }
        let piped = command.env(ROLE, role).process_group(0);
        let piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        FloodProcess { child, lines }
    }

    /// What follows in the first line that has this word.
    fn until(&mut self, word: &str) -> String {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if let Some(at) = line.find(word) {
                return line[at + word.len()..].trim().to_owned();
            }
        }
        panic!("it ended before it said {word}");
    }

    fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Bytes of memory that it has.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kib = line.split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() << 10
    }

    /// How many descriptors it has open, and how many threads.
    pub fn descriptors_and_threads(&self) -> (usize, usize) {
        let count = |of: &str| {
            let entries = std::fs::read_dir(format!("/proc/{}/{of}", self.pid())).unwrap();
            entries.count()
        };
        (count("fd"), count("task"))
    }

    /// How long it has computed, in nanoseconds: no other load of the machine is in it.
    pub fn cpu_ns(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid())).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Ends it by the end of its input, and looks at how it ended.
    pub fn finish(mut self) {
        drop(self.child.stdin.take());
        for _ in self.lines.by_ref() {}
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for FloodProcess {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let group = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// An `mgbd` with its honest clients.
pub struct FloodStage {
    pub mgbd: FloodProcess,
    good: Option<FloodProcess>,
    folder: tempfile::TempDir,
    apart: bool,
}

/// Nanoseconds from request to grant.
#[derive(Clone, Copy, Debug)]
pub struct GrantWaits {
    pub median: u64,
    pub p99: u64,
    pub granted: u64,
}

impl FloodStage {
    /// One whose honest clients have begun. `apart`: a hostile process runs on another core.
    pub fn new(apart: bool) -> FloodStage {
        let folder = tempfile::tempdir().unwrap();
        let for_all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), for_all).unwrap();
        let socket = folder.path().join("socket");
        let mut mgbd = FloodProcess::start(&format!("serve {}", socket.display()), apart);
        mgbd.until("served");
        let mut good = FloodProcess::start(&format!("good {}", socket.display()), apart);
        good.until("ready");
        FloodStage {
            mgbd,
            good: Some(good),
            folder,
            apart,
        }
    }

    /// A hostile process that has begun.
    pub fn attack(&self, kind: AttackKind) -> FloodProcess {
        let role = format!("attack {} {kind}", self.folder.path().join("socket").display());
        let mut hostile = FloodProcess::start(&role, self.apart);
        hostile.until("ready");
        hostile
    }

    /// Has each honest client begin and end so many tasks.
    pub fn go(&mut self, rounds: u64) -> GrantWaits {
        let good = self.good.as_mut().expect("they have not ended");
        good.say(&rounds.to_string());
        let said = good.until("done");
        let figures: Vec<u64> = said.split(' ').map(|word| word.parse().unwrap()).collect();
        GrantWaits {
            median: figures[0],
            p99: figures[1],
            granted: figures[2],
        }
    }

    pub fn view(&self) -> NodeView {
        let observer = Client::observe(&self.folder.path().join("socket")).unwrap();
        observer.status().unwrap()
    }

    /// Bytes of `mgbd`'s log.
    pub fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.folder.path().join("log")).map_or(0, |file| file.len())
    }

    /// Ends the honest clients.
    pub fn end_good(&mut self) {
        self.good.take().expect("they have not ended").finish();
    }

    /// Ends `mgbd` as a signal does.
    pub fn finish(self) {
        drop(self.good);
        self.mgbd.finish();
    }
}
