//! Closes what clients have sent, beside the loop: the last close of a file may wait for whoever made it. A
//! TCP socket with `SO_LINGER` waits for its other end, a file of a FUSE for its owner, and a socket for all
//! the files in messages that nobody has read.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use mgb_probe::wire::MOST_KEPT;
use parking_lot::Mutex;
use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, sockopt};

/// Threads at once: one is enough as long as no close waits.
const MOST_THREADS: usize = 16;
/// How long a file waits for a thread until another one is started.
const PATIENCE: Duration = Duration::from_millis(50);
/// Messages that are read of a socket that is closed: more than the kernel queues.
const MOST_MESSAGES: usize = 1024;

/// A file, and since when it is to be closed.
type Waiting = (OwnedFd, Instant);

struct Work {
    files: VecDeque<Waiting>,
    threads: usize,
}

static WORK: Mutex<Work> = Mutex::new(Work {
    files: VecDeque::new(),
    threads: 0,
});

/// Closes these files, some time.
pub(super) fn close(files: impl IntoIterator<Item = OwnedFd>) {
    let now = Instant::now();
    let mut work = WORK.lock();
    work.files.extend(files.into_iter().map(|file| (file, now)));
    let Some((_, since)) = work.files.front() else {
        return;
    };
    let is_late = now.saturating_duration_since(*since) > PATIENCE;
    if work.threads == 0 || is_late && work.threads < MOST_THREADS {
        let thread = std::thread::Builder::new().name("closer".to_owned());
        // Where there is no thread to be had they stay open until there is one.
        work.threads += usize::from(thread.spawn(work_off).is_ok());
    }
}

fn work_off() {
    loop {
        let mut work = WORK.lock();
        let Some((file, _)) = work.files.pop_front() else {
            work.threads -= 1;
            return;
        };
        drop(work);
        close_one(file);
    }
}

fn close_one(file: OwnedFd) {
    // Whatever else it is: then this fails.
    let _ = sockopt::set_socket_linger(&file, None);
    if sockopt::socket_domain(&file) == Ok(AddressFamily::UNIX) {
        // Nothing more comes, and who else has the socket (the holder) finds nothing in it to be closed.
        let _ = rustix::net::shutdown(&file, Shutdown::Both);
        let mut messages = 0;
        while messages < MOST_MESSAGES && discard(&file) {
            messages += 1;
        }
    }
}

/// Takes a message out of the socket. False: there is none.
fn discard(socket: &OwnedFd) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_KEPT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            for file in files {
                let _ = sockopt::set_socket_linger(&file, None);
            }
        }
    }
    received.is_ok_and(|message| message.bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_file_whose_close_waits_keeps_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        slow.set_nonblocking(true).unwrap();
        while slow.write(&[0; 64 << 10]).is_ok() {}
        slow.set_nonblocking(false).unwrap();
        sockopt::set_socket_linger(&slow, Some(Duration::from_secs(600))).unwrap();
        close([OwnedFd::from(slow)]);
        // It is closed all the same: what was under way comes, and then the end.
        std::io::copy(&mut other, &mut std::io::sink()).unwrap();
    }
}
