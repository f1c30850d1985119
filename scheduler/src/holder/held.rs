//! One process of which something is held.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use mgb_interface::holder::packet::send_patiently;
use mgb_interface::holder::wire::FromHolder;
use mgb_probe::wire::Channel;
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::channel_memory::ChannelMemory;

/// How long files of a process that ended at work are kept where no `mgbd` says when the work is done.
const KEEP_TIMEOUT: Duration = Duration::from_secs(60);

/// A process, and what is held of it.
pub(super) struct HeldProcess {
    /// Which `mgbd` named it, counted from the holder's start: only that one says what becomes of it.
    pub(super) mgbd: u64,
    /// That `mgbd`'s number for it.
    pub(super) id: u64,
    pub(super) pid: u32,
    /// It was granted something: what it has outlives even an `mgbd` that is told to end.
    pub(super) granted: bool,
    /// `None` once it has ended.
    process: Option<OwnedFd>,
    channel: Option<ChannelMemory>,
    line: Option<ClientConnection>,
    files: Vec<OwnedFd>,
    /// Until when its files are kept without an `mgbd`.
    until: Option<Instant>,
}

/// What a client speaks to `mgbd` through. As long as it is open, the client does not notice that there is
/// none.
struct ClientConnection {
    memory: OwnedFd,
    socket: OwnedFd,
    doorbell: OwnedFd,
}

impl HeldProcess {
    /// With a client's pidfd, channel and perhaps socket and doorbell; `None` if these are not they.
    pub(super) fn new(mgbd: u64, id: u64, pid: u32, files: Vec<OwnedFd>) -> Option<HeldProcess> {
        let mut files = files.into_iter();
        let (process, memory) = (files.next()?, files.next()?);
        // Without it the process counts as idle.
        let channel = ChannelMemory::new(&memory, false).ok();
        let line = files
            .next()
            .zip(files.next())
            .map(|(socket, doorbell)| ClientConnection {
                memory,
                socket,
                doorbell,
            });
        Some(HeldProcess {
            mgbd,
            id,
            pid,
            granted: false,
            process: Some(process),
            channel,
            line,
            files: Vec::new(),
            until: None,
        })
    }

    /// Whether it lives, and waits for an `mgbd` to go on with it.
    pub(super) fn waits(&self) -> bool {
        self.process.is_some() && self.line.is_some()
    }

    /// No `mgbd` goes on with it: it sees that from now on.
    pub(super) fn hang_up(&mut self) {
        if let Some(line) = self.line.take() {
            // An mgbd that was killed while a file system hangs has it open, too.
            let _ = rustix::net::shutdown(&line.socket, Shutdown::Both);
        }
    }

    /// Gives an `mgbd` what it needs to go on with this client, until then.
    pub(super) fn hand_over(&self, mgbd: &OwnedFd, until: Instant) -> Result<(), Errno> {
        let (Some(process), Some(line)) = (&self.process, &self.line) else {
            return Ok(());
        };
        let files = [process, &line.memory, &line.socket, &line.doorbell];
        let client = FromHolder::Client {
            id: self.id,
            pid: self.pid,
            granted: self.granted,
        };
        send_patiently(mgbd, &client, &files.map(AsFd::as_fd), until)?;
        if self.files.is_empty() {
            return Ok(());
        }
        let files: Vec<_> = self.files.iter().map(AsFd::as_fd).collect();
        send_patiently(mgbd, &FromHolder::Files { id: self.id }, &files, until)
    }

    pub(super) fn keep(&mut self, files: Vec<OwnedFd>) {
        self.files = files;
    }

    /// Becomes readable when the process ends; `None` if it has.
    pub(super) fn process(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn ended(&mut self) {
        self.process = None;
        self.line = None;
    }

    /// Whether work of the process may be under way on a GPU, as its channel says.
    fn is_busy(&self) -> bool {
        let channel = self
            .channel
            .as_ref()
            .and_then(|mapping| mapping.shared::<Channel>());
        channel.is_some_and(|channel| channel.published.gpus.iter().any(|gpu| gpu.is_busy()))
    }

    /// Whether it has to be held although its `mgbd` is gone: it lives, or has ended at work a moment ago.
    pub(super) fn is_needed(&mut self, now: Instant) -> bool {
        if self.process.is_some() {
            return true;
        }
        if self.files.is_empty() || !self.is_busy() {
            return false;
        }
        now < *self.until.get_or_insert(now + KEEP_TIMEOUT)
    }

    /// Since when it need not be held, if that is a matter of time.
    pub(super) fn due(&self) -> Option<Instant> {
        self.until
    }
}
