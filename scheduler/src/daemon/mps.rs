//! The private MPS control daemon: kernels of different processes overlap only
//! under MPS, and it is `mgbd`'s to start and to stop.
//!
//! Its pipe folder goes to the clients in the hello. Without the program, or
//! where it fails, `mgbd` goes on without and says why.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CONTROL: &str = "nvidia-cuda-mps-control";
/// The control daemon's socket is in the folder; its whole path has to fit a
/// UNIX socket address.
const MOST_PATH: usize = 100;
/// How long it may take to answer, and to quit.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running MPS; stopped when dropped.
pub(super) struct Mps {
    pipe: PathBuf,
    log: PathBuf,
}

impl Mps {
    /// Starts one with its folders in `folder`, or says why there is none.
    pub(super) fn start(folder: &Path) -> Result<Mps, String> {
        let pipe = folder.join("mps");
        if pipe.as_os_str().len() >= MOST_PATH {
            return Err(format!(
                "{} is too long a path for MPS ({MOST_PATH} bytes); choose a shorter --socket",
                pipe.display()
            ));
        }
        let mps = Mps {
            log: folder.join("mps-log"),
            pipe,
        };
        for folder in [&mps.pipe, &mps.log] {
            std::fs::create_dir_all(folder)
                .map_err(|error| format!("failed to make {}: {error}", folder.display()))?;
        }
        // One that a crashed mgbd left would be taken over with unknown state.
        if mps.control_pid().is_some() {
            tracing::info!(pipe = %mps.pipe.display(), "stopping the MPS that a crashed mgbd left");
            mps.stop();
        }
        match mps.start_control() {
            Ok(()) => Ok(mps),
            Err(why) => {
                mps.stop();
                Err(why)
            }
        }
    }

    fn start_control(&self) -> Result<(), String> {
        let output = self
            .command()
            .arg("-d")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => format!("{CONTROL} is not installed"),
                _ => format!("failed to run {CONTROL}: {error}"),
            })?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{CONTROL} -d failed: {}", text.trim()));
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.control_pid().is_some() && self.ask("get_server_list") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!(
            "{CONTROL} did not answer in {} s; see {}",
            PATIENCE.as_secs(),
            self.log.display()
        ))
    }

    /// The pipe folder.
    pub(super) fn pipe(&self) -> &Path {
        &self.pipe
    }

    fn command(&self) -> Command {
        let mut command = Command::new(CONTROL);
        command
            .env("CUDA_MPS_PIPE_DIRECTORY", &self.pipe)
            .env("CUDA_MPS_LOG_DIRECTORY", &self.log);
        command
    }

    /// Sends a command; whether it was taken.
    fn ask(&self, what: &str) -> bool {
        let child = self
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else { return false };
        if let Some(mut input) = child.stdin.take() {
            let _ = writeln!(input, "{what}");
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            match child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => return false,
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }

    /// The control daemon's pid, if it lives and is one.
    fn control_pid(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.pipe.join("nvidia-cuda-mps-control.pid")).ok()?;
        let pid: u32 = text.trim().parse().ok()?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        // The kernel cuts names to 15 characters.
        CONTROL.starts_with(name.trim()).then_some(pid)
    }

    fn stop(&self) {
        if self.control_pid().is_none() {
            return;
        }
        self.ask("quit -t 2");
        let start = Instant::now();
        while self.control_pid().is_some() {
            if start.elapsed() > PATIENCE {
                if let Some(pid) = self
                    .control_pid()
                    .and_then(|pid| rustix::process::Pid::from_raw(pid as i32))
                {
                    tracing::warn!("MPS does not quit: killing its control daemon");
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Mps {
    fn drop(&mut self) {
        self.stop();
    }
}
