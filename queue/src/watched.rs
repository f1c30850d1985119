//! A job that runs, as the service sees it: the process that watches it, a child of this service or of an
//! earlier one.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::attempt::{AttemptFolder, Standing};

/// Where a watcher says why it cannot begin, in the folder of the attempt.
const LOG: &str = "watcher.log";
/// The most of its words that are kept of a watcher that could not begin.
const LAST_WORDS: u64 = 2000;

/// A watcher.
#[derive(Debug)]
pub struct Watched {
    child: Option<Child>,
    pidfd: Option<OwnedFd>,
    since: Instant,
    is_asked: bool,
}

impl Watched {
    /// One of which is only known that it should be there.
    pub fn adopted() -> Self {
        Self {
            child: None,
            pidfd: None,
            since: Instant::now(),
            is_asked: false,
        }
    }

    /// Starts one, in a session of its own: it outlives this process and its terminal.
    ///
    /// # Errors
    /// When no process can be had.
    pub fn start(mut command: Command, attempt: &AttemptFolder) -> Result<Self> {
        let file = attempt.path().join(LOG);
        let output = File::create(&file).with_context(|| format!("failed to write {}", file.display()))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        command.current_dir("/");
        // SAFETY: setsid is async-signal-safe, and the closure touches no memory of the parent's other
        // threads.
        unsafe {
            command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into));
        }
        let child = command
            .spawn()
            .context("failed to start the process that watches it")?;
        Ok(Self {
            // Without it the child is asked again and again.
            pidfd: open(child.id().cast_signed()),
            child: Some(child),
            ..Self::adopted()
        })
    }

    /// Watches this process, if it is the attempt's watcher still.
    pub fn adopt(&mut self, pid: i32, attempt: &AttemptFolder) {
        self.child = None;
        self.pidfd = open(pid);
        // The number may be another process's by now.
        let is_still = matches!(attempt.standing(), Ok(Standing::Running(now)) if now == pid);
        if !is_still {
            self.pidfd = None;
        }
    }

    /// Whether its folder is to be looked at.
    pub fn is_due(&mut self) -> bool {
        if let Some(child) = &mut self.child {
            return !matches!(child.try_wait(), Ok(None));
        }
        let Some(pidfd) = &self.pidfd else {
            return true;
        };
        let mut watched = [PollFd::new(pidfd, PollFlags::IN)];
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut watched, Some(&none)).is_ok_and(|ready| ready > 0)
    }

    /// Whether nothing wakes the service when it ends.
    pub fn is_blind(&self) -> bool {
        self.pidfd.is_none()
    }

    /// Whether this service has started none.
    pub fn has_no_watcher(&self) -> bool {
        self.child.is_none()
    }

    /// Becomes readable when it has ended.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// When it was started, or taken over.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Has it end its job.
    pub fn end(&mut self) {
        if self.is_asked {
            return;
        }
        if let Some(pidfd) = &self.pidfd {
            self.is_asked = true;
            // Failing means that it has ended.
            let _ = pidfd_send_signal(pidfd, Signal::TERM);
        }
    }

    /// What it said, if it could not begin.
    pub fn last_words(&mut self, attempt: &AttemptFolder) -> String {
        let status = self
            .child
            .as_mut()
            .and_then(|child| child.try_wait().ok().flatten());
        let status = status.map_or_else(String::new, |status| status.to_string());
        let mut bytes = Vec::new();
        // Without its words there is its exit code.
        let _ = File::open(attempt.path().join(LOG))
            .and_then(|said| said.take(LAST_WORDS).read_to_end(&mut bytes));
        let said = String::from_utf8_lossy(&bytes).trim().to_owned();
        let said = if said.is_empty() { status } else { said };
        format!("the process that watches the job did not begin: {said}")
    }
}

fn open(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}
