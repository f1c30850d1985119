//! Starts processes for the loop.
//!
//! A new process has a copy of the table of descriptors of the thread that starts it, and closes most of them
//! as it begins: where a client has sent a file of a FUSE that does not answer, it would never begin, and who
//! waits for that would wait with it. So a thread without these descriptors starts them.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::Duration;

use mgb_interface::holder::packet::{pair, receive, send};

use crate::daemon::threads::apart;

/// How long a process may take to begin: its program may lie on a file system of the network.
const SPAWN_TIMEOUT: Duration = Duration::from_secs(10);

type Makes = Box<dyn FnOnce(OwnedFd) -> std::io::Result<Command> + Send>;

/// The thread that starts processes.
pub(crate) struct Spawner {
    /// Where it is given files for what it starts.
    line: OwnedFd,
    requests: mpsc::Sender<(Makes, mpsc::Sender<std::io::Result<Child>>)>,
}

impl Spawner {
    /// To be made before the first client comes.
    pub(crate) fn new() -> std::io::Result<Spawner> {
        let (line, its) = pair()?;
        let (requests, requested) = mpsc::channel::<(Makes, mpsc::Sender<std::io::Result<Child>>)>();
        apart::spawn("spawner", &[&its], move |own| {
            while let Ok((makes, answers)) = requested.recv() {
                let file = own.first().and_then(|line| receive::<()>(line).ok()?.files.pop());
                let child = file
                    .ok_or_else(|| std::io::Error::other("its input was not handed over"))
                    .and_then(makes)
                    .and_then(|mut command| command.spawn());
                let _ = answers.send(child);
            }
        })?;
        Ok(Spawner { line, requests })
    }

    /// Starts what `makes` makes of this file, in the thread.
    ///
    /// # Errors
    /// When it cannot be started, or does not begin within [`SPAWN_TIMEOUT`].
    pub(crate) fn spawn(
        &self,
        file: impl AsFd,
        makes: impl FnOnce(OwnedFd) -> std::io::Result<Command> + Send + 'static,
    ) -> std::io::Result<Child> {
        let (answers, answer) = mpsc::channel();
        send(&self.line, &(), &[file.as_fd()])?;
        let request = (Box::new(makes) as Makes, answers);
        self.requests
            .send(request)
            .map_err(|_| std::io::ErrorKind::BrokenPipe)?;
        answer
            .recv_timeout(SPAWN_TIMEOUT)
            .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?
    }
}
