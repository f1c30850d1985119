//! A client that was let in and then does as it likes with its socket and its memory.

// Each test program uses its own part of this.
#![allow(dead_code)]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgb_probe::hello::HelloAnswer;
use mgb_probe::mapping::Mapping;
use mgb_probe::wire::{CHANNEL_BYTES, Channel, MOST_KEPT, Op, Opening, POSTED, Request, Text};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

/// What a channel has to be sealed with.
pub const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A connection on which nothing was said yet.
pub fn connect(path: &Path) -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(10)))?;
    Ok(socket)
}

pub fn memory(bytes: usize, seals: SealFlags) -> OwnedFd {
    let memory = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&memory, bytes as u64).unwrap();
    rustix::fs::fcntl_add_seals(&memory, seals).unwrap();
    memory
}

pub fn bell() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

/// Sends a message with descriptors, of which there may be too many for an honest one.
pub fn try_send(socket: &OwnedFd, message: &[u8], files: &[BorrowedFd<'_>]) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_KEPT + 8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let message = [IoSlice::new(message)];
    rustix::net::sendmsg(socket, &message, &mut control, SendFlags::NOSIGNAL)
}

/// What `mgbd` answers on the socket, or `None` if it hung up.
pub fn answer(socket: &OwnedFd) -> rustix::io::Result<Option<HelloAnswer>> {
    let mut buffer = vec![0; 1 << 17];
    let mut none = RecvAncillaryBuffer::default();
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let message = rustix::net::recvmsg(socket, &mut parts, &mut none, RecvFlags::empty())?;
    Ok((message.bytes > 0).then(|| serde_json::from_slice(&buffer[..message.bytes]).unwrap()))
}

pub struct Intruder {
    pub socket: OwnedFd,
    pub doorbell: OwnedFd,
    pub memory: OwnedFd,
    pub mapping: Mapping,
}

impl Intruder {
    pub fn new(path: &Path) -> Intruder {
        Intruder::open(path, 0).expect("a hello")
    }

    /// `None`: it was not let in.
    pub fn open(path: &Path, caps: u64) -> Option<Intruder> {
        let (memory, doorbell) = (memory(CHANNEL_BYTES, SEALS), bell());
        let socket = connect(path).ok()?;
        let opening = Opening::new(caps, 0).encode();
        try_send(&socket, &opening, &[memory.as_fd(), doorbell.as_fd()]).ok()?;
        let Ok(Some(HelloAnswer::Hello(_))) = answer(&socket) else {
            return None;
        };
        Some(Intruder::again(socket, doorbell, memory))
    }

    /// From what another process was let in with.
    pub fn again(socket: OwnedFd, doorbell: OwnedFd, memory: OwnedFd) -> Intruder {
        let mapping = Mapping::new(&memory, CHANNEL_BYTES, true).unwrap();
        Intruder {
            socket,
            doorbell,
            memory,
            mapping,
        }
    }

    pub fn channel(&self) -> &Channel {
        self.mapping.shared().unwrap()
    }

    pub fn ring(&self) {
        rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).unwrap();
    }

    /// Posts a request, and leaves it to the caller to ring.
    pub fn fill(&self, cell: usize, request: &Request) {
        let channel = self.channel();
        request.encode(&channel.cells[cell]);
        channel.cells[cell].state.store(POSTED, Ordering::Release);
        channel.posted.fetch_or(1 << cell, Ordering::Release);
    }

    pub fn post(&self, cell: usize, request: &Request) {
        self.fill(cell, request);
        self.ring();
    }

    /// Whether `mgbd` hung up on it, waiting for that as long as the socket does.
    pub fn is_cut_off(&self) -> bool {
        self.has_hung_up(RecvFlags::empty())
    }

    /// The same, as far as is known now.
    pub fn is_gone(&self) -> bool {
        self.has_hung_up(RecvFlags::DONTWAIT)
    }

    fn has_hung_up(&self, flags: RecvFlags) -> bool {
        let mut byte = [0; 1];
        matches!(
            rustix::net::recv(&self.socket, &mut byte, flags),
            Ok((_, 0)) | Err(Errno::CONNRESET | Errno::PIPE)
        )
    }
}

pub fn request(op: Op, task: u64, bytes: u64) -> Request {
    Request {
        op,
        flags: !mgb_probe::wire::WHOLE_PROCESS,
        task,
        thread: 1,
        site: u32::MAX,
        gpus: u64::MAX,
        bytes,
        need: mgb_probe::Need {
            mapped_bytes: bytes,
            ..Default::default()
        },
        first: 0,
        label: Text::new("\u{1b}[31mred"),
    }
}

/// Two sockets that are connected.
pub fn pair() -> (OwnedFd, OwnedFd) {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap()
}

/// A socket with something under way to who does not take it, whose last close waits for that.
pub fn slow_to_close() -> (OwnedFd, std::net::TcpStream) {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut socket = TcpStream::connect(listener.local_addr().expect("an address")).expect("itself");
    let (other, _) = listener.accept().expect("itself");
    socket.set_nonblocking(true).expect("a setting");
    while socket.write(&[0; 64 << 10]).is_ok() {}
    socket.set_nonblocking(false).expect("a setting");
    sockopt::set_socket_linger(&socket, Some(Duration::from_secs(600))).expect("a setting");
    (socket.into(), other)
}

/// Makes this process another user's, in these groups. For root.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) {
    // SAFETY: changes nothing but who this process is, which has done nothing yet.
    let done = unsafe {
        libc::setgroups(groups.len(), groups.as_ptr()) == 0
            && libc::setgid(gid) == 0
            && libc::setuid(uid) == 0
    };
    assert!(done, "only root can become others");
}

/// A socket that listens, as systemd makes one.
pub fn listen(path: &Path) -> OwnedFd {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&socket, 64).unwrap();
    socket
}
