//! An mgbd that serves one command, and ends with it.

use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::Result;
use mgb_probe::Client;

use super::start::{Logged, spawn, wait_until_up};
use super::{Start, way_out};

/// Seconds without a client after which it ends even if its command was killed and could not stop it.
const IDLE_EXIT: &str = "60";

/// An mgbd of this command's own, stopped when this is dropped.
pub struct Private {
    daemon: Logged,
}

impl Private {
    /// Starts one, and connects to it.
    pub fn start(start: &Start<'_>) -> Result<(Self, Client)> {
        let mut daemon = spawn(start, IDLE_EXIT)?;
        match wait_until_up(&mut daemon, start) {
            // A client, not an observer: it keeps mgbd from ending while no job is one.
            Ok(_) => {
                let private = Self { daemon };
                let client = Client::connect(&start.socket).map_err(way_out)?;
                Ok((private, client))
            }
            Err(error) => {
                stop(&mut daemon.child);
                Err(error)
            }
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        stop(&mut self.daemon.child);
    }
}

/// As a user stops it, so that it stops its MPS as well; by force if that does not help.
fn stop(child: &mut Child) {
    const STOP_TIMEOUT: Duration = Duration::from_secs(10);
    let signal = |signal| {
        if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
            // It has ended already: as wanted. The number is not reused before it is waited for.
            let _ = rustix::process::kill_process(pid, signal);
        }
    };
    signal(rustix::process::Signal::TERM);
    let deadline = Instant::now() + STOP_TIMEOUT;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
