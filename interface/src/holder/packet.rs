//! Messages with descriptors over a `SOCK_SEQPACKET` socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use mgb_probe::wire::MOST_KEPT;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message: a report of thousands of processes.
const MOST_BYTES: usize = 64 << 10;

/// Two ends of a line.
pub fn pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?)
}

/// An end of a line that is not connected yet.
pub fn line() -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
}

/// A socket that listens at a path where nothing is.
pub fn bind(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, 128)?;
    Ok(socket)
}

/// Sends a message, without waiting for room.
pub fn send(socket: impl AsFd, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let text = serde_json::to_vec(message).map_err(|_| Errno::INVAL)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_KEPT))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Errno::TOOMANYREFS);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(socket, &[IoSlice::new(&text)], &mut control, flags).map(drop)
}

/// As [`send`], but waits for room where there is none at once, until then at most.
pub fn send_patiently(
    socket: impl AsFd,
    message: &impl Serialize,
    files: &[BorrowedFd<'_>],
    until: Instant,
) -> Result<(), Errno> {
    loop {
        match send(&socket, message, files) {
            Err(Errno::AGAIN) => {
                let patience = until.saturating_duration_since(Instant::now());
                let patience = Timespec {
                    tv_sec: patience.as_secs() as i64,
                    tv_nsec: patience.subsec_nanos().into(),
                };
                let mut room = [PollFd::new(&socket, PollFlags::OUT)];
                if poll(&mut room, Some(&patience))? == 0 {
                    return Err(Errno::TIMEDOUT);
                }
            }
            other => return other,
        }
    }
}

/// A message that arrived, with the descriptors beside it.
pub struct Packet<T> {
    /// The message that the other side sent.
    pub message: T,
    /// The descriptors, in the order in which they were sent.
    pub files: Vec<OwnedFd>,
}

/// Receives a message; waits for it as the socket does.
///
/// # Errors
/// `PIPE` if the other side hung up, `BADMSG` for what is not such a message, `AGAIN` if there is none yet.
pub fn receive<T: DeserializeOwned>(socket: impl AsFd) -> Result<Packet<T>, Errno> {
    let mut buffer = vec![0; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_KEPT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut into = [IoSliceMut::new(&mut buffer)];
        match rustix::net::recvmsg(&socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Err(Errno::PIPE),
            other => break other?,
        }
    };
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let files = rights.flatten().collect();
    if received.bytes == 0 {
        return Err(Errno::PIPE);
    }
    if received
        .flags
        .intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC)
    {
        return Err(Errno::BADMSG);
    }
    let message = serde_json::from_slice(&buffer[..received.bytes]).map_err(|_| Errno::BADMSG)?;
    Ok(Packet { message, files })
}
