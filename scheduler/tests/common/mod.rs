//! A node of make-believe GPUs under a real `mgbd` loop, and real client
//! processes: this test program again, with a script in its environment.
//!
//! A client "maps" device memory by writing how much it has into a file. The
//! node adds up the files of living processes, and those of dead ones for a
//! while, as a driver that takes its time to clean up.

// Each test program uses its own part of this.
#![allow(dead_code)]

pub mod fuse;
pub mod mps_daemon;
pub mod raw;
mod script;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mgb_probe::view::NodeView;
use mgb_probe::{Client, Gpu};
use mgb_scheduler::daemon::{self, Config};
use mgb_scheduler::node::bounded::Bounded;
use mgb_scheduler::node::{GpuMemory, NodeDriver, NodeError, Resident, capability};

pub use script::client_process;

pub const MIB: u64 = 1 << 20;
/// The device of the make-believe driver.
pub const DRIVER_FILE: &str = "/dev/full";

/// How a test's GPUs behave.
#[derive(Clone)]
pub struct GpuSetting {
    pub gpus: usize,
    pub total: u64,
    pub context: u64,
    /// How long the memory of a dead process stays in use.
    pub lag: Duration,
    /// Most bytes ever seen beyond a GPU's total.
    pub overflow: Arc<AtomicU64>,
    /// Whether the GPUs, busy so far, have had a pause.
    pub paused: Arc<AtomicBool>,
    /// The percentage of time in which each GPU has work, a byte each, the first one lowest.
    pub utilisation: Arc<AtomicU32>,
    /// Whether programs want MPS on them.
    pub mps: bool,
    /// Whether the driver says what is free (0), fails (1) or hangs (2).
    pub driver: Arc<AtomicU64>,
    /// Whether it is asked as that of real GPUs is.
    pub bounded: bool,
}

impl GpuSetting {
    pub fn new(gpus: usize, total: u64, context: u64) -> GpuSetting {
        let lag = Duration::from_millis(20);
        GpuSetting {
            gpus,
            total,
            context,
            lag,
            overflow: Arc::default(),
            paused: Arc::default(),
            utilisation: Arc::default(),
            mps: false,
            driver: Arc::default(),
            bounded: false,
        }
    }
}

struct FakeNode {
    gpus: Vec<Gpu>,
    setting: GpuSetting,
    folder: PathBuf,
    deaths: Mutex<BTreeMap<u32, Instant>>,
}

/// Whether the process still runs (a zombie does not).
pub fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some(Some(state)) if state != 'Z' && state != 'X')
}

/// The holders that run for the `mgbd` at a socket.
pub fn holders(socket: &Path) -> Vec<u32> {
    let own = socket.display().to_string();
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words.len() > 2 && words[1] == b"hold" && words[2] == own.as_bytes() && alive(*pid)
    })
    .collect()
}

/// What clients that `await` wait for.
fn go_file(folder: &Path) -> PathBuf {
    folder.with_file_name("go")
}

fn memory_file(folder: &Path, pid: u32, gpu: usize) -> PathBuf {
    folder.join(format!("{pid}.{gpu}"))
}

impl FakeNode {
    /// Bytes of each process on the GPU, and whether it lives.
    fn charges(&self, gpu: usize) -> Vec<(u32, u64, bool)> {
        let mut charges = Vec::new();
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let Some((pid, at)) = name.split_once('.') else {
                continue;
            };
            let (Ok(pid), Ok(at)) = (pid.parse::<u32>(), at.parse::<usize>()) else {
                continue;
            };
            if at != gpu {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let bytes = text.parse().unwrap_or(0);
            let lives = alive(pid);
            if !lives {
                let died = *self
                    .deaths
                    .lock()
                    .unwrap()
                    .entry(pid)
                    .or_insert_with(Instant::now);
                if died.elapsed() >= self.setting.lag {
                    continue;
                }
            }
            charges.push((pid, bytes, lives));
        }
        charges
    }
}

impl NodeDriver for FakeNode {
    fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    fn software(&self) -> bool {
        !self.setting.mps
    }

    fn memory(&self, gpu: usize) -> Result<GpuMemory, NodeError> {
        while self.setting.driver.load(Ordering::Relaxed) == 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.setting.driver.load(Ordering::Relaxed) == 1 {
            return Err(NodeError {
                text: "it fails".to_owned(),
                is_lost: false,
            });
        }
        let used: u64 = self.charges(gpu).iter().map(|(_, bytes, _)| bytes).sum();
        let total = self.setting.total;
        self.setting
            .overflow
            .fetch_max(used.saturating_sub(total), Ordering::Relaxed);
        Ok(GpuMemory {
            total,
            free: total.saturating_sub(used),
        })
    }

    fn residents(&self, gpu: usize) -> Result<Vec<Resident>, NodeError> {
        let living = self.charges(gpu).into_iter().filter(|(_, _, lives)| *lives);
        Ok(living
            .map(|(pid, bytes, _)| Resident {
                pid,
                bytes: Some(bytes),
            })
            .collect())
    }

    fn utilisation(&self, gpu: usize) -> Result<u32, NodeError> {
        let percents = self.setting.utilisation.load(Ordering::Relaxed);
        Ok(percents >> (8 * gpu) & 0xff)
    }

    fn driver_files(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(DRIVER_FILE)]
    }

    fn paused_within(&self, _gpu: usize, _ago: Duration) -> Result<bool, NodeError> {
        Ok(self.setting.paused.load(Ordering::Relaxed))
    }
}

/// How many times this process, in which mgbd runs, has the driver's file open.
pub fn driver_files_open() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    files
        .filter(|file| std::fs::read_link(file.path()).is_ok_and(|to| to == Path::new(DRIVER_FILE)))
        .count()
}

/// Runs an `mgbd` over make-believe GPUs until `stopped` becomes readable.
pub fn run_mgbd(setting: GpuSetting, folder: &Path, config: Config, stopped: UnixStream) {
    let gpus = (0..setting.gpus as u32)
        .map(|index| Gpu {
            index,
            node_index: index,
            uuid: format!("GPU-{index}"),
            name: "fake".to_owned(),
            total_bytes: setting.total,
            usable_bytes: setting.total,
            context_bytes: setting.context,
            max_warps: 1000,
            multiprocessors: capability::multiprocessors(16 * 128, 9, 0),
        })
        .collect();
    let bounded = setting.bounded;
    let node = FakeNode {
        gpus,
        setting,
        folder: folder.join("memory"),
        deaths: Mutex::default(),
    };
    let node: Box<dyn NodeDriver> = if bounded {
        Box::new(Bounded::new(node).unwrap())
    } else {
        Box::new(node)
    };
    daemon::run(config, node, OwnedFd::from(stopped)).unwrap();
}

/// A running `mgbd` in a thread of the test.
pub struct Daemon {
    pub folder: tempfile::TempDir,
    pub setting: GpuSetting,
    thread: Option<JoinHandle<()>>,
    stop: Option<UnixStream>,
}

impl Daemon {
    pub fn start(setting: GpuSetting) -> Daemon {
        Daemon::start_with(setting, |_| {})
    }

    pub fn start_with(setting: GpuSetting, change: impl FnOnce(&mut Config)) -> Daemon {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("memory")).unwrap();
        let mut daemon = Daemon::over(folder, setting);
        daemon.start_again_with(change);
        daemon
    }

    /// One that does not run yet.
    pub fn over(folder: tempfile::TempDir, setting: GpuSetting) -> Daemon {
        Daemon {
            folder,
            setting,
            thread: None,
            stop: None,
        }
    }

    /// Starts another one where this one was.
    pub fn start_again_with(&mut self, change: impl FnOnce(&mut Config)) {
        let mut config = Config::new(self.socket());
        change(&mut config);
        let (stop, stopped) = UnixStream::pair().unwrap();
        let (setting, folder) = (self.setting.clone(), self.folder.path().to_owned());
        self.stop = Some(stop);
        self.thread = Some(std::thread::spawn(move || {
            run_mgbd(setting, &folder, config, stopped)
        }));
        wait_for("mgbd to listen", || self.socket().exists());
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("mgbd.sock")
    }

    /// Starts a client with a script; see [`client_process`].
    pub fn client(&self, script: &str) -> ClientProcess {
        self.client_of(&std::env::current_exe().unwrap(), script)
    }

    /// As [`Daemon::client`], as a program that others wait for.
    pub fn latency_client(&self, script: &str) -> ClientProcess {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("MGB_CLASS", "latency");
        self.start_client(command, script)
    }

    /// As [`Daemon::client`], as a copy of this program.
    pub fn client_of(&self, program: &Path, script: &str) -> ClientProcess {
        self.start_client(Command::new(program), script)
    }

    fn start_client(&self, mut command: Command, script: &str) -> ClientProcess {
        let mut child = command
            .args(["client_process", "--exact", "--nocapture", "--test-threads=1"])
            .env("MGB_TEST_SCRIPT", script)
            .env("MGB_TEST_MEMORY", self.folder.path().join("memory"))
            .env("MGB_TEST_CONTEXT", self.setting.context.to_string())
            .env("MGB_SOCKET", self.socket())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        ClientProcess { child, lines }
    }

    /// Lets a program that is no client have memory: this test program.
    pub fn foreign(&self, bytes: u64) {
        let file = memory_file(&self.folder.path().join("memory"), std::process::id(), 0);
        std::fs::write(file, bytes.to_string()).unwrap();
    }

    /// Lets clients go on that `await` it.
    pub fn go(&self) {
        std::fs::write(go_file(&self.folder.path().join("memory")), "").unwrap();
    }

    pub fn view(&self) -> NodeView {
        Client::observe(&self.socket()).unwrap().status().unwrap()
    }

    /// Waits until the node view is as wanted.
    pub fn wait_view(&self, what: &str, wanted: impl Fn(&NodeView) -> bool) -> NodeView {
        let observer = Client::observe(&self.socket()).unwrap();
        wait_for(what, || wanted(&observer.status().unwrap()));
        observer.status().unwrap()
    }

    /// Waits until nothing is charged, and checks that nothing ever overflowed.
    pub fn check_empty(&self) {
        self.wait_view("the ledger to be empty", |view| {
            view.tasks.is_empty()
                && view.queue.is_empty()
                && view
                    .gpus
                    .iter()
                    .all(|gpu| gpu.reserved_bytes + gpu.contexts_bytes + gpu.reclaiming_bytes == 0)
        });
        assert_eq!(
            self.setting.overflow.load(Ordering::Relaxed),
            0,
            "memory overflowed"
        );
    }

    /// Stops it as SIGTERM does.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            if !std::thread::panicking() {
                result.expect("mgbd panicked");
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for a condition, for much longer than it should take.
pub fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "waited in vain for {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client process.
pub struct ClientProcess {
    pub child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl ClientProcess {
    /// Reads its output up to a line that starts with `start`; returns the line.
    pub fn until(&mut self, start: &str) -> String {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if let Some(at) = line.find(start) {
                return line[at..].to_owned();
            }
        }
        panic!("the client ended before it said `{start}`");
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for a good end.
    pub fn finish(mut self) {
        for _ in self.lines.by_ref() {}
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
