//! What the holder waits for, in one poll.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What a descriptor of the wait is.
#[derive(Clone, Copy)]
pub(super) enum What {
    Listener,
    Mgbd,
    /// What hangs up when it is gone.
    Lifeline,
    Guest(usize),
    Process(usize),
    /// MPS's control daemon, which has ended.
    Mps,
    /// Where clients connect.
    Wanted,
}

/// Descriptors that are watched, and what each is.
#[derive(Default)]
pub(super) struct Watched<'a> {
    whats: Vec<What>,
    fds: Vec<PollFd<'a>>,
}

impl<'a> Watched<'a> {
    /// Watches for something to read.
    pub(super) fn add(&mut self, what: What, fd: BorrowedFd<'a>) {
        self.push(what, fd, PollFlags::IN);
    }

    /// Watches for the other end to hang up, and nothing else.
    pub(super) fn add_for_its_end(&mut self, what: What, fd: BorrowedFd<'a>) {
        self.push(what, fd, PollFlags::empty());
    }

    fn push(&mut self, what: What, fd: BorrowedFd<'a>, flags: PollFlags) {
        self.whats.push(what);
        self.fds.push(PollFd::from_borrowed_fd(fd, flags));
    }

    /// Waits until something happens, so long at most (`None`: for ever), and says on what, in the order in which
    /// the descriptors were added. A signal ends the wait, too.
    pub(super) fn wait(mut self, timeout: Option<Duration>) -> Result<Vec<What>, Errno> {
        let timeout = timeout.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        });
        match poll(&mut self.fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let ready = self.fds.iter().zip(self.whats);
        let ready = ready.filter(|(fd, _)| !fd.revents().is_empty());
        Ok(ready.map(|(_, what)| what).collect())
    }
}
