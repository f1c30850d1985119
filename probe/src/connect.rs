//! The handshake, from the client's side.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sockopt,
};

use crate::cells::Cells;
use crate::class::Class;
use crate::hello::{Hello, HelloAnswer};
use crate::job::job;
use crate::mapping::Mapping;
use crate::trust::{Folder, Untrusted};
use crate::wire::{self, CHANNEL_BYTES, MAX_ANSWER, Opening};

/// How long `mgbd` may take for the hello, with all tries. It answers at once unless it is
/// stopped in a debugger or the node is badly overloaded.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two tries where another `mgbd` is about to take a socket's place.
const TRY_INTERVAL: Duration = Duration::from_millis(100);

/// Why there is no connection. Lowercase fragments: they follow "mgb: ".
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No `mgbd` listens at the socket.
    #[error("no mgbd at {0}")]
    NotRunning(PathBuf),
    /// The folder or the socket belongs to somebody else.
    #[error("no permission on mgbd's socket {0}; start an mgbd of your own, or set MGB_SOCKET")]
    Denied(PathBuf),
    /// Another user may have made what is there.
    #[error("{path} {why}: no mgbd is used there; set MGB_SOCKET to a path in a folder of yours")]
    Untrusted {
        /// The socket, or its folder.
        path: PathBuf,
        /// Why it is not trusted.
        why: Untrusted,
    },
    /// It speaks another version.
    #[error("mgbd speaks version {theirs} of the protocol, this program {ours}; use one version of both")]
    Version {
        /// The version of `mgbd`'s protocol.
        theirs: u32,
        /// The version of this program's protocol.
        ours: u32,
    },
    /// It turned the client away.
    #[error("mgbd turned this process away: {0}")]
    Refused(String),
    /// It ended, or hung up, before it said hello.
    #[error("mgbd at {0} ended before it answered")]
    HungUp(PathBuf),
    /// What listens there is no `mgbd`, or it does not answer.
    #[error("what listens at {0} did not answer as mgbd does: {1}")]
    NoHello(PathBuf, String),
    /// A system call failed.
    #[error("failed to {what} for mgbd at {path}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The path of the socket.
        path: PathBuf,
        /// Why it failed.
        error: Errno,
    },
}

/// How often to connect anew to an `mgbd` that ends before it has said hello: another one takes over, and
/// whoever connects waits for it.
const TRIES: u32 = 5;

/// Connects, makes the channel and says hello, all within that time.
pub(crate) fn open(
    path: &Path,
    caps: u64,
    class: Class,
    within: Duration,
) -> Result<(Cells, Hello), ConnectError> {
    let limit = Limit {
        within,
        until: Instant::now() + within,
    };
    let mut tries = 1;
    loop {
        match open_once(path, caps, class, limit) {
            Err(ConnectError::HungUp(_)) if tries < TRIES => tries += 1,
            // It listened a moment ago: its successor's socket is about to take that place.
            Err(ConnectError::NotRunning(_)) if tries > 1 && tries < TRIES => {
                tries += 1;
                std::thread::sleep(TRY_INTERVAL.min(limit.left()));
            }
            other => return other,
        }
    }
}

/// How long it may take.
#[derive(Clone, Copy)]
struct Limit {
    within: Duration,
    until: Instant,
}

impl Limit {
    /// What is left of it: never nothing, which a socket takes for no limit.
    fn left(&self) -> Duration {
        let left = self.until.saturating_duration_since(Instant::now());
        left.max(Duration::from_millis(1))
    }

    fn over(&self, path: &Path) -> ConnectError {
        let why = format!("no answer in {} s", self.within.as_secs_f32());
        ConnectError::NoHello(path.to_owned(), why)
    }
}

fn open_once(path: &Path, caps: u64, class: Class, limit: Limit) -> Result<(Cells, Hello), ConnectError> {
    let failed = |what| {
        move |error| ConnectError::System {
            what,
            path: path.to_owned(),
            error,
        }
    };
    let socket = connect_socket(path, limit)?;
    let memory = rustix::fs::memfd_create("mgb-channel", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(failed("make the channel"))?;
    rustix::fs::ftruncate(&memory, CHANNEL_BYTES as u64).map_err(failed("size the channel"))?;
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .map_err(failed("seal the channel"))?;
    let mapping = Mapping::new(&memory, CHANNEL_BYTES, true).map_err(failed("map the channel"))?;
    if let Some(channel) = mapping.shared::<wire::Channel>() {
        channel.published.set_class(class);
    }
    let doorbell =
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed("make the doorbell"))?;
    send_opening(&socket, caps, &memory, &doorbell).map_err(|error| match error {
        Errno::PIPE | Errno::CONNRESET => ConnectError::HungUp(path.to_owned()),
        error => ConnectError::NoHello(path.to_owned(), error.to_string()),
    })?;
    let hello = receive_hello(&socket, path, limit)?;
    let cells = Cells::new(mapping, doorbell, socket);
    let channel = cells.channel();
    channel.magic.store(wire::MAGIC, Ordering::Relaxed);
    channel.version.store(u64::from(wire::VERSION), Ordering::Relaxed);
    Ok((cells, hello))
}

fn connect_socket(path: &Path, limit: Limit) -> Result<OwnedFd, ConnectError> {
    let failed = |what| {
        move |error| ConnectError::System {
            what,
            path: path.to_owned(),
            error,
        }
    };
    let folder = Folder::of(path).map_err(|why| fault(path.parent().unwrap_or(path), path, why))?;
    let address = SocketAddrUnix::new(path).map_err(failed("name the socket"))?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(failed("make a socket"))?;
    // One that is stopped takes nobody, and who comes once its backlog is full waits.
    for timeout in [sockopt::Timeout::Send, sockopt::Timeout::Recv] {
        sockopt::set_socket_timeout(&socket, timeout, Some(limit.left())).map_err(failed("set a timeout"))?;
    }
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Err(limit.over(path)),
        Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => {
            return Err(ConnectError::NotRunning(path.to_owned()));
        }
        Err(Errno::ACCESS | Errno::PERM) => return Err(ConnectError::Denied(path.to_owned())),
        Err(error) => return Err(failed("connect")(error)),
    }
    folder.check_peer(&socket).map_err(|why| fault(path, path, why))?;
    Ok(socket)
}

/// Why there is no way to a socket, for something about `at`.
fn fault(at: &Path, socket: &Path, why: Untrusted) -> ConnectError {
    let socket = socket.to_owned();
    match why {
        Untrusted::Missing | Untrusted::NoFolder => ConnectError::NotRunning(socket),
        Untrusted::System(Errno::ACCESS | Errno::PERM) => ConnectError::Denied(socket),
        why => ConnectError::Untrusted {
            path: at.to_owned(),
            why,
        },
    }
}

fn send_opening(socket: &OwnedFd, caps: u64, memory: &OwnedFd, doorbell: &OwnedFd) -> rustix::io::Result<()> {
    let descriptors = [memory.as_fd(), doorbell.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let opening = Opening::new(caps, job().unwrap_or(0)).encode();
    rustix::net::sendmsg(
        socket,
        &[IoSlice::new(&opening)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

fn receive_hello(socket: &OwnedFd, path: &Path, limit: Limit) -> Result<Hello, ConnectError> {
    let strange = |why: String| ConnectError::NoHello(path.to_owned(), why);
    let mut buffer = vec![0; MAX_ANSWER];
    let mut none = rustix::net::RecvAncillaryBuffer::default();
    let received = loop {
        match rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut buffer)],
            &mut none,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(limit.over(path)),
            Err(Errno::CONNRESET) => return Err(ConnectError::HungUp(path.to_owned())),
            Err(error) => return Err(strange(error.to_string())),
            Ok(message) => break message.bytes,
        }
    };
    if received == 0 {
        return Err(ConnectError::HungUp(path.to_owned()));
    }
    match serde_json::from_slice(&buffer[..received]) {
        Ok(HelloAnswer::Hello(hello)) if speaks(hello.version) => Ok(*hello),
        Ok(HelloAnswer::Hello(hello)) => Err(ConnectError::Version {
            theirs: hello.version,
            ours: wire::VERSION,
        }),
        Ok(HelloAnswer::Refused { version, .. }) if !speaks(version) => Err(ConnectError::Version {
            theirs: version,
            ours: wire::VERSION,
        }),
        Ok(HelloAnswer::Refused { reason, .. }) => Err(ConnectError::Refused(reason)),
        Err(error) => Err(strange(error.to_string())),
    }
}

/// Whether an `mgbd` of this version can be spoken with.
fn speaks(version: u32) -> bool {
    (wire::OLDEST..=wire::VERSION).contains(&version)
}
