//! Closes what clients have sent, beside the loop: the last close of a file may wait for whoever made it. A
//! TCP socket with `SO_LINGER` waits for its other end, a file of a FUSE for its owner, and a socket for all
//! the files in messages that nobody has read.
//!
//! Lingering ends before a file is closed, and sockets are emptied, however deep they lie in each other's
//! messages. What then still waits keeps the threads of its own user alone, and that user is turned away
//! until it is closed: [`is_blocked`].

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;

use parking_lot::Mutex;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, Shutdown, SocketFlags,
    sockopt,
};

use crate::daemon::threads::pool::ThreadPool;

/// Descriptors that the kernel lets a message have (`SCM_MAX_FD`). Those for which there is no room it closes
/// at once, which is for the loop to avoid.
pub(crate) const MAX_SENT: usize = 253;
/// Files of a user, but for the driver's, that may wait to be closed. What honest clients send is not closed
/// here at all.
const MAX_UNCLOSED: usize = 512;
/// Files out of messages that are open at once for a user's thread.
const MAX_NESTED: usize = 2048;
/// Messages without files that are taken out of a socket at once.
const MAX_PLAIN: usize = 16;
/// Set in the number by which the driver's files of a user are closed: they take as long as the driver does.
const OF_DRIVER: u64 = 1 << 32;

static THREADS: LazyLock<ThreadPool> = LazyLock::new(|| {
    let starts = |body| {
        let thread = std::thread::Builder::new().name("closer".to_owned());
        // Where there is no thread to be had files stay open until there is one.
        let _ = thread.spawn(body);
    };
    ThreadPool::new(usize::MAX, starts)
});
/// Files that are not closed yet, by the number under which their user's are closed.
static UNCLOSED: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

/// Closes files that a user's client has sent, some time.
pub(crate) fn close(account: u32, files: impl IntoIterator<Item = OwnedFd>) {
    put(account.into(), files.into_iter().collect());
}

/// Closes the socket of a client that is charged to this account: at once, unless there are files in it.
pub(crate) fn close_socket(account: u32, socket: OwnedFd) {
    close(account, close_empty(socket));
}

/// Closes files that a user's client has sent and that are the driver's, some time.
pub(crate) fn close_drivers(uid: u32, files: Vec<OwnedFd>) {
    put(OF_DRIVER | u64::from(uid), files);
}

fn put(line: u64, files: Vec<OwnedFd>) {
    if files.is_empty() {
        return;
    }
    *UNCLOSED.lock().entry(line).or_default() += files.len();
    THREADS.put(line, move || {
        for file in files {
            close_one(file);
            let mut unclosed = UNCLOSED.lock();
            if let Some(count) = unclosed.get_mut(&line) {
                *count -= 1;
                if *count == 0 {
                    unclosed.remove(&line);
                }
            }
        }
    });
}

/// Whether so many files of the user wait to be closed that no more are to be taken.
pub(crate) fn is_blocked(uid: u32) -> bool {
    unclosed_of(uid) >= MAX_UNCLOSED
}

/// Files of a user that are not closed yet, but for the driver's.
pub(crate) fn unclosed_of(uid: u32) -> usize {
    UNCLOSED.lock().get(&uid.into()).copied().unwrap_or(0)
}

/// Files that are not closed yet.
pub(crate) fn unclosed() -> usize {
    UNCLOSED.lock().values().sum()
}

/// Users whose files wait to be closed.
pub(crate) fn stuck_users() -> Vec<u32> {
    THREADS
        .stuck_lines()
        .into_iter()
        .map(|line| line as u32)
        .collect()
}

/// Whether there are files in the next message in a socket.
pub(crate) fn has_files(socket: &OwnedFd) -> bool {
    let mut none = RecvAncillaryBuffer::default();
    let mut byte = [0; 1];
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    let seen = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut none, flags);
    seen.is_ok_and(|seen| seen.flags.intersects(ReturnFlags::CTRUNC))
}

/// Closes a socket in which no files lie. Gives back one in which there are, or may be.
fn close_empty(socket: OwnedFd) -> Option<OwnedFd> {
    let _ = rustix::net::shutdown(&socket, Shutdown::Both);
    let _ = sockopt::set_socket_passcred(&socket, true);
    for flags in [RecvFlags::PEEK, RecvFlags::empty()]
        .into_iter()
        .cycle()
        .take(2 * MAX_PLAIN)
    {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0; 1];
        let mut into = [IoSliceMut::new(&mut byte)];
        match rustix::net::recvmsg(&socket, &mut into, &mut control, flags | RecvFlags::DONTWAIT) {
            // There is no room for files, and who only looks does not close them.
            Ok(seen) if seen.flags.intersects(ReturnFlags::CTRUNC) => return Some(socket),
            // As in `take_out`.
            Ok(_) if control.drain().next().is_some() => {}
            Ok(_) | Err(_) => return None,
        }
    }
    Some(socket)
}

/// Closes a file, and before it what lies in it.
fn close_one(file: OwnedFd) {
    let mut open = vec![file];
    while let Some(file) = open.last() {
        // Whatever else it is: then this fails.
        let _ = sockopt::set_socket_linger(file, None);
        let inner = if sockopt::socket_domain(file) == Ok(AddressFamily::UNIX) {
            // Nothing more comes, and who else has the socket (the holder) finds nothing in it to be closed.
            let _ = rustix::net::shutdown(file, Shutdown::Both);
            take_out(file)
        } else {
            None
        };
        match inner {
            Some(inner) if open.len() + inner.len() <= MAX_NESTED => open.extend(inner),
            Some(inner) => drop(inner),
            None => drop(open.pop()),
        }
    }
}

/// The files of the next message in a socket, or the next connection to it that nobody has taken. `None`:
/// there is nothing in it.
fn take_out(socket: &OwnedFd) -> Option<Vec<OwnedFd>> {
    if sockopt::socket_acceptconn(socket) == Ok(true) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        return rustix::net::accept_with(socket, flags)
            .ok()
            .map(|next| vec![next]);
    }
    // An empty message has credentials at least, and the end has none.
    let _ = sockopt::set_socket_passcred(socket, true);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SENT), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 4096];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
    let mut is_there = received.is_ok_and(|message| message.bytes > 0);
    let is_stream = sockopt::socket_type(socket) == Ok(rustix::net::SocketType::STREAM);
    let mut files = Vec::new();
    for message in control.drain() {
        is_there |= !is_stream;
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            is_there = true;
            files.extend(rights);
        }
    }
    is_there.then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{IoSlice, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType, socketpair};

    /// A socket whose last close waits for its other end, and that.
    fn slow() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        slow.set_nonblocking(true).unwrap();
        while slow.write(&[0; 64 << 10]).is_ok() {}
        slow.set_nonblocking(false).unwrap();
        sockopt::set_socket_linger(&slow, Some(Duration::from_secs(600))).unwrap();
        (slow.into(), other)
    }

    /// A socket in which a message lies with this file, behind one without anything.
    fn around(file: &OwnedFd, kind: SocketType) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC;
        let (inside, outside) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        for files in [&[][..], &[file.as_fd()][..]] {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !files.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(files));
            }
            let byte = [IoSlice::new(if kind == SocketType::STREAM { b"x" } else { b"" })];
            rustix::net::sendmsg(&outside, &byte, &mut control, SendFlags::empty()).unwrap();
        }
        inside
    }

    #[test]
    fn a_file_whose_close_waits_keeps_nobody_however_deep_it_lies() {
        let kinds = [
            &[][..],
            &[SocketType::SEQPACKET],
            &[SocketType::STREAM, SocketType::DGRAM, SocketType::SEQPACKET],
            &[SocketType::DGRAM; 40],
        ];
        for (uid, kinds) in (1..).zip(kinds) {
            // The other end reads nothing.
            let (slow, _other) = slow();
            let file = kinds.iter().fold(slow, |file, kind| around(&file, *kind));
            close(uid, [file]);
            let start = Instant::now();
            while unclosed_of(uid) > 0 {
                assert!(start.elapsed() < Duration::from_secs(30), "{kinds:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn a_socket_with_files_in_it_is_not_closed_at_once() {
        let (slow, _other) = slow();
        assert!(close_empty(around(&slow, SocketType::SEQPACKET)).is_some());
        let flags = SocketFlags::CLOEXEC;
        let (inside, outside) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        rustix::net::send(&outside, b"hello", SendFlags::empty()).unwrap();
        rustix::net::send(&outside, b"again", SendFlags::empty()).unwrap();
        assert!(close_empty(inside).is_none());
    }
}
