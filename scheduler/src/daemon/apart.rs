//! Threads that share none of this process's descriptors.
//!
//! A thread that waits for a file system that does not answer cannot be ended, not even by SIGKILL, and what
//! it shares stays open with it: the lock, the socket and the lines to clients would outlive `mgbd`, and no
//! other could take its place. So such threads have a table of descriptors of their own, made before the
//! first client comes: a copy that is made later would have to close what clients have sent.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc;

use super::pool::Job;

/// Starts such threads. They must not write to the log, whose file they do not have.
#[derive(Clone, Debug)]
pub(super) struct Apart(mpsc::Sender<Job>);

impl Apart {
    /// For threads that have the standard streams and `kept`, under its number.
    pub(super) fn new(kept: &OwnedFd) -> std::io::Result<Apart> {
        let (starts, bodies) = mpsc::channel::<Job>();
        let (is_ready, ready) = mpsc::channel();
        let kept = kept.as_raw_fd();
        let first = std::thread::Builder::new().name("apart".to_owned());
        first.spawn(move || {
            let left = leave_descriptors(kept);
            let may_start = left.is_ok();
            let _ = is_ready.send(left);
            while may_start && let Ok(body) = bodies.recv() {
                // Where no thread is to be had the body is dropped, and says so to who asked for it.
                let _ = std::thread::Builder::new().name("lookup".to_owned()).spawn(body);
            }
        })?;
        ready.recv().map_err(std::io::Error::other)??;
        Ok(Apart(starts))
    }

    /// Starts a thread with this body and without this process's descriptors.
    pub(super) fn start(&self, body: Job) {
        let _ = self.0.send(body);
    }
}

/// Gives this thread a table of its own, with nothing in it but the standard streams and `kept`.
fn leave_descriptors(kept: RawFd) -> std::io::Result<()> {
    let kept = kept as u32;
    let last = u32::MAX;
    let (unshare, plainly) = (libc::CLOSE_RANGE_UNSHARE, 0);
    close_range(kept + 1, last, unshare)?;
    if kept > 3 {
        close_range(3, kept - 1, plainly)?;
    }
    Ok(())
}

fn close_range(first: u32, last: u32, flags: u32) -> std::io::Result<()> {
    // SAFETY: closes descriptors of this thread's own table, in which nothing is used but what stays open.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if closed == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn what_is_open_elsewhere_is_not_open_there() {
        let kept: OwnedFd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let other: OwnedFd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let apart = Apart::new(&kept).unwrap();
        let (says, said) = mpsc::channel();
        let numbers = [kept.as_raw_fd(), other.as_raw_fd()];
        apart.start(Box::new(move || {
            // SAFETY: only asks for flags.
            let are_open = numbers.map(|fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0);
            says.send(are_open).unwrap();
        }));
        assert_eq!(said.recv().unwrap(), [true, false]);
        // SAFETY: as above.
        assert!(unsafe { libc::fcntl(other.as_raw_fd(), libc::F_GETFD) } >= 0);
    }
}
