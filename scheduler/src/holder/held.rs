//! One process of which something is held.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use mgb_probe::mapping::Mapping;
use mgb_probe::wire::{CHANNEL_BYTES, Channel};

/// How long files of a process that ended at work are kept where no `mgbd` says when the work is done.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process, and what is held of it.
pub(super) struct Held {
    /// Which `mgbd` named it, counted from the holder's start: only that one says what becomes of it.
    pub(super) mgbd: u64,
    /// That `mgbd`'s number for it.
    pub(super) id: u64,
    pub(super) pid: u32,
    /// `None` once it has ended.
    process: Option<OwnedFd>,
    channel: Option<Mapping>,
    files: Vec<OwnedFd>,
    /// Until when its files are kept without an `mgbd`.
    until: Option<Instant>,
}

impl Held {
    pub(super) fn new(mgbd: u64, id: u64, pid: u32, process: OwnedFd, channel: &OwnedFd) -> Held {
        Held {
            mgbd,
            id,
            pid,
            process: Some(process),
            // Without it the process counts as idle.
            channel: Mapping::new(channel, CHANNEL_BYTES, false).ok(),
            files: Vec::new(),
            until: None,
        }
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
        now < *self.until.get_or_insert(now + PATIENCE)
    }

    /// Since when it need not be held, if that is a matter of time.
    pub(super) fn due(&self) -> Option<Instant> {
        self.until
    }
}
