//! Threads that share none of this process's descriptors.
//!
//! A thread that waits for a file system that does not answer cannot be ended, not even by SIGKILL, and what
//! it shares stays open with it: the lock, the socket and the lines to clients would outlive `mgbd`, and no
//! other could take its place. So such threads have a table of descriptors of their own, made before the
//! first client comes: a copy that is made later would have to close what clients have sent.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc;

use crate::daemon::threads::pool::PoolJob;

/// Starts such threads. They must not write to the log, whose file they do not have.
#[derive(Clone, Debug)]
pub(crate) struct Apart(mpsc::Sender<PoolJob>);

impl Apart {
    /// For threads that have the standard streams and `kept`, under its number.
    pub(crate) fn new(kept: &OwnedFd) -> std::io::Result<Apart> {
        let (starts, bodies) = mpsc::channel::<PoolJob>();
        spawn("apart", &[kept], move |_kept| {
            while let Ok(body) = bodies.recv() {
                // Where no thread is to be had the body is dropped, and says so to who asked for it.
                let _ = std::thread::Builder::new().name("lookup".to_owned()).spawn(body);
            }
        })?;
        Ok(Apart(starts))
    }

    /// Starts a thread with this body and without this process's descriptors.
    pub(crate) fn start(&self, body: PoolJob) {
        let _ = self.0.send(body);
    }
}

/// Descriptors that no other thread of this process has: they are closed when this is dropped, or when the
/// process is killed, whatever its other threads wait for.
#[derive(Debug)]
pub(crate) struct OwnThread {
    ends: Option<mpsc::Sender<()>>,
    is_over: mpsc::Receiver<()>,
}

impl OwnThread {
    /// Takes them. To be made before the first client comes.
    pub(crate) fn new(name: &str, files: Vec<OwnedFd>) -> std::io::Result<OwnThread> {
        let (ends, end) = mpsc::channel::<()>();
        let (says, is_over) = mpsc::channel();
        let kept: Vec<&OwnedFd> = files.iter().collect();
        spawn(name, &kept, move |files| {
            let _ = end.recv();
            drop(files);
            drop(says);
        })?;
        drop(files);
        Ok(OwnThread {
            ends: Some(ends),
            is_over,
        })
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        drop(self.ends.take());
        let _ = self.is_over.recv();
    }
}

/// Starts a thread that has nothing open but the standard streams and its own descriptors of `kept`, which
/// its body is given.
pub(crate) fn spawn(
    name: &str,
    kept: &[&OwnedFd],
    body: impl FnOnce(Vec<OwnedFd>) + Send + 'static,
) -> std::io::Result<()> {
    let kept: Vec<RawFd> = kept.iter().map(|file| file.as_raw_fd()).collect();
    let (is_ready, ready) = mpsc::channel();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let left = leave_descriptors(&kept);
        let may_go_on = left.is_ok();
        let _ = is_ready.send(left);
        if may_go_on {
            // SAFETY: these are open in this thread's own table, where nobody else has them.
            let own = kept.iter().map(|file| unsafe { OwnedFd::from_raw_fd(*file) });
            body(own.collect());
        }
    })?;
    ready.recv().map_err(std::io::Error::other)?
}

/// Gives this thread a table of its own, with nothing in it but the standard streams and `kept`.
fn leave_descriptors(kept: &[RawFd]) -> std::io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().map(|file| *file as u32).collect();
    kept.sort_unstable();
    // The last range first: what it holds is not even copied.
    let (mut end, mut flags) = (u32::MAX, libc::CLOSE_RANGE_UNSHARE);
    for first in kept.into_iter().rev().map(|file| file + 1).chain([3]) {
        if first <= end {
            close_range(first, end, std::mem::take(&mut flags))?;
        }
        end = first.saturating_sub(2);
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

    #[test]
    fn what_is_in_its_own_thread_is_closed_with_it_alone() {
        for count in [1, 3] {
            let (reads, writes) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
            let more = (1..count).map(|_| eventfd(0, EventfdFlags::CLOEXEC).unwrap());
            let files = [writes].into_iter().chain(more).collect();
            let own = OwnThread::new("own", files).unwrap();
            rustix::io::ioctl_fionbio(&reads, true).unwrap();
            let read = || rustix::io::read(&reads, &mut [0; 1]);
            assert_eq!(read(), Err(rustix::io::Errno::AGAIN));
            drop(own);
            assert_eq!(read(), Ok(0));
        }
    }
}
