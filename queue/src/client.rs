//! A command's connection to the queue's service.

use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::protocol::{self, Answer, Request};

/// A command's connection to the service of its user's queue.
#[derive(Debug)]
pub struct QueueClient {
    stream: BufReader<UnixStream>,
}

impl QueueClient {
    /// Connects to the service of this socket; `None`: none runs.
    ///
    /// # Errors
    /// When another user's process listens there, or the socket cannot be used.
    pub fn connect(socket: &Path) -> Result<Option<Self>> {
        let stream = match UnixStream::connect(socket) {
            Ok(stream) => stream,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(None);
            }
            Err(error) => {
                return Err(error).with_context(|| format!("failed to connect to {}", socket.display()));
            }
        };
        let own = rustix::process::getuid().as_raw();
        let peer = mgb_probe::peer(&stream).map(|peer| peer.uid);
        if peer != Some(own) {
            bail!(
                "another user's process listens at {}: set MGB_QUEUE to a folder of yours",
                socket.display()
            );
        }
        Ok(Some(Self {
            stream: BufReader::new(stream),
        }))
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// When the service ends meanwhile.
    pub fn ask(&mut self, request: &Request) -> Result<Answer> {
        protocol::write(self.stream.get_mut(), request).context("failed to ask the queue's service")?;
        let answer =
            protocol::read(&mut self.stream).context("failed to read the answer of the queue's service")?;
        answer.context("the queue's service has ended; see its log")
    }

    /// Ends the service, and waits until its process has ended: from then on the store is nobody's. One in
    /// another PID namespace is not waited for.
    ///
    /// # Errors
    /// When the service does not answer, or has not ended within this time.
    pub fn stop(mut self, limit: Duration) -> Result<()> {
        let pid = mgb_probe::peer(self.stream.get_ref()).and_then(|peer| Pid::from_raw(peer.pid));
        // While it is connected: later the number may be another process's.
        let process = match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Some(Err(Errno::SRCH)) | None => None,
            Some(process) => Some(process.context("failed to watch the queue's service")?),
        };
        self.ask(&Request::Stop)?;
        // It waits for commands that are connected.
        drop(self);
        let Some(process) = process else {
            return Ok(());
        };
        let timeout = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        let mut watched = [PollFd::new(&process, PollFlags::IN)];
        let ended = rustix::io::retry_on_intr(|| poll(&mut watched, Some(&timeout)));
        if ended.context("failed to wait for the queue's service")? == 0 {
            bail!("the queue's service has not ended after {} s", limit.as_secs());
        }
        Ok(())
    }
}
