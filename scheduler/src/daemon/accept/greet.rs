//! The handshake. Everything in it is untrusted: a client that breaks it is
//! told why, if it can be, and cut off.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use mgb_interface::peer::{groups, is_of, is_over, peer, process};
use mgb_probe::Class;
use mgb_probe::hello::{Hello, HelloAnswer};
use mgb_probe::wire::{CAP_OBSERVER, CHANNEL_BYTES, Channel, OLDEST, Opening, VERSION};
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendFlags,
};
use rustix::process::Pid;

use crate::channel_memory::ChannelMemory;
use crate::daemon::accept::identity::{Identity, own};
use crate::daemon::deferred_close;
use crate::users::Users;

/// What a client brought.
pub(crate) struct Guest {
    pub(crate) pid: u32,
    /// The user and the account of its process.
    pub(crate) whose: Identity,
    pub(crate) pidfd: OwnedFd,
    pub(crate) doorbell: OwnedFd,
    pub(crate) mapping: ChannelMemory,
    /// The memory that is mapped.
    pub(crate) memory: OwnedFd,
    pub(crate) observer: bool,
    /// The class that it says it has.
    pub(crate) class: Class,
    /// The job that it says it belongs to; 0: none.
    pub(crate) job: u64,
    /// The version of the protocol that both speak.
    pub(crate) version: u32,
}

/// Why a client is turned away.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Offence {
    #[error("it hung up before saying anything")]
    Silent,
    #[error("its first message is not an MGB client's")]
    NotMgb,
    #[error("it speaks version {0}, this mgbd {OLDEST} to {VERSION}; use one version of both")]
    Version(u32),
    #[error("it runs as uid {0}, and this mgbd serves its own user only (--serve says whom)")]
    Uid(u32),
    #[error("it runs as uid {0}, which is not in the group {1} that this mgbd serves")]
    Group(u32, String),
    #[error("its process id is not visible here: it runs in another PID namespace")]
    Namespace,
    #[error("the process that connected has ended")]
    Ended,
    #[error("the process that connected is another user's by now")]
    OtherUser,
    #[error("it sent {0} descriptors instead of two")]
    Descriptors(usize),
    #[error("its memory is not a memfd sealed against shrinking, growing and further seals")]
    Seals,
    #[error("its memory has {0} bytes, not {CHANNEL_BYTES}")]
    Size(u64),
    #[error("its doorbell is no eventfd")]
    Doorbell,
    #[error("there are as many clients as mgbd can serve; try again when some have ended")]
    Full,
    #[error("uid {0} has as many clients as mgbd serves of one user; try again when some have ended")]
    UserFull(u32),
    #[error("what clients of uid {0} sent cannot be closed: a file system or a socket among it hangs")]
    Unclosed(u32),
    #[error("{0}: {1}")]
    System(&'static str, Errno),
}

/// Reads the opening from a connection that was accepted so long ago. `None`: it is not there yet.
pub(crate) fn receive(
    socket: &OwnedFd,
    whose: Identity,
    users: &Users,
    waited: Duration,
) -> Option<Result<Guest, Offence>> {
    let message = match Message::receive(socket, whose.account) {
        Err(Errno::AGAIN | Errno::INTR) => return None,
        Err(error) => return Some(Err(Offence::System("failed to receive", error))),
        Ok(message) => message,
    };
    if message.bytes().is_empty() {
        return Some(Err(Offence::Silent));
    }
    Some(check(socket, whose, message, users, waited))
}

/// What came on a socket. Descriptors that are not taken out of it are closed beside the loop.
pub(crate) struct Message {
    account: u32,
    buffer: [u8; 256],
    length: usize,
    pub(crate) descriptors: Vec<OwnedFd>,
    /// There were more descriptors than could be taken.
    pub(crate) cut: bool,
}

impl Message {
    /// Receives a message of a client that is charged to this account; an empty one says that the client hung
    /// up.
    pub(crate) fn receive(socket: &OwnedFd, account: u32) -> Result<Message, Errno> {
        let mut buffer = [0; 256];
        // Room for all there can be: the kernel would close the others here, and wait for that.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(deferred_close::MAX_SENT))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut buffer)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        )?;
        let descriptors = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                _ => None,
            })
            .flatten()
            .collect();
        Ok(Message {
            account,
            buffer,
            length: received.bytes,
            descriptors,
            cut: received.flags.intersects(ReturnFlags::CTRUNC),
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if !self.descriptors.is_empty() {
            deferred_close::close(self.account, std::mem::take(&mut self.descriptors));
        }
    }
}

fn check(
    socket: &OwnedFd,
    whose: Identity,
    mut message: Message,
    users: &Users,
    waited: Duration,
) -> Result<Guest, Offence> {
    let opening = Opening::decode(message.bytes()).ok_or(Offence::NotMgb)?;
    let version = opening.common().ok_or(Offence::Version(opening.version))?;
    let peer = peer(socket).ok_or(Offence::Namespace)?;
    if !users.takes(peer.uid, || groups(socket), own()) {
        return Err(match users {
            Users::Group { name, .. } => Offence::Group(peer.uid, name.clone()),
            _ => Offence::Uid(peer.uid),
        });
    }
    let pid = Pid::from_raw(peer.pid).ok_or(Offence::Namespace)?;
    let pidfd = process(socket, waited).map_err(|error| match error {
        Errno::SRCH => Offence::Ended,
        error => Offence::System("failed to watch its process", error),
    })?;
    // An mgbd to which the kernel hides others' processes cannot signal them either.
    let is_still_its = is_of(peer.pid as u32, peer.uid).unwrap_or(true);
    // Looked at last: until here the number was this process's.
    if is_over(&pidfd) {
        return Err(Offence::Ended);
    }
    if !is_still_its {
        return Err(Offence::OtherUser);
    }
    let count = message.descriptors.len() + usize::from(message.cut);
    let [memory, doorbell] = message.descriptors.as_slice() else {
        return Err(Offence::Descriptors(count));
    };
    check_memory(memory)?;
    check_doorbell(doorbell)?;
    // Only what is sure to close at once is closed by the loop.
    let descriptors = <[OwnedFd; 2]>::try_from(std::mem::take(&mut message.descriptors));
    let [memory, doorbell] = descriptors.map_err(|_| Offence::Descriptors(count))?;
    let mapping = ChannelMemory::new(&memory, true)
        .map_err(|error| Offence::System("failed to map its memory", error))?;
    let observer = opening.caps & CAP_OBSERVER != 0;
    let channel = mapping.shared::<Channel>();
    let class = channel.map_or(Class::Batch, |channel| channel.published.class());
    Ok(Guest {
        pid: pid.as_raw_nonzero().get() as u32,
        whose,
        pidfd,
        doorbell,
        mapping,
        memory,
        observer,
        class,
        job: opening.job,
        version,
    })
}

/// The seals make sure that the mapping stays whole: a memfd that could shrink
/// would let a client kill `mgbd` by SIGBUS.
#[allow(
    clippy::disallowed_methods,
    reason = "a file with seals is in memory: nobody is asked"
)]
pub(crate) fn check_memory(memory: &OwnedFd) -> Result<(), Offence> {
    const NEEDED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
    const TMPFS: u64 = 0x0102_1994;
    let seals = rustix::fs::fcntl_get_seals(memory).map_err(|_| Offence::Seals)?;
    // Huge pages can be sealed too, and then not be there when touched.
    let ordinary = rustix::fs::fstatfs(memory).is_ok_and(|fs| fs.f_type as u64 == TMPFS);
    if !seals.contains(NEEDED) || !ordinary {
        return Err(Offence::Seals);
    }
    let stat =
        rustix::fs::fstat(memory).map_err(|error| Offence::System("failed to size its memory", error))?;
    if stat.st_size != CHANNEL_BYTES as i64 {
        return Err(Offence::Size(stat.st_size as u64));
    }
    Ok(())
}

/// Only an eventfd: epoll asks other files about their state, and some of them
/// (FUSE) leave the answer to their owner.
#[allow(clippy::disallowed_methods, reason = "the kernel's own name of an open file")]
fn check_doorbell(doorbell: &OwnedFd) -> Result<(), Offence> {
    use std::os::fd::AsRawFd;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", doorbell.as_fd().as_raw_fd()));
    match link {
        Ok(target) if target.as_os_str() == "anon_inode:[eventfd]" => Ok(()),
        _ => Err(Offence::Doorbell),
    }
}

/// Tells a client that it is one.
pub(crate) fn welcome(socket: &OwnedFd, hello: Hello) -> Result<(), Offence> {
    send(socket, &HelloAnswer::Hello(Box::new(hello)))
}

/// Says why not. Whether it arrives does not matter.
pub(crate) fn refuse(socket: &OwnedFd, offence: &Offence) {
    let answer = HelloAnswer::Refused {
        version: VERSION,
        reason: offence.to_string(),
    };
    let _ = send(socket, &answer);
}

fn send(socket: &OwnedFd, answer: &HelloAnswer) -> Result<(), Offence> {
    let text = serde_json::to_vec(answer).unwrap_or_default();
    rustix::net::sendmsg(
        socket,
        &[IoSlice::new(&text)],
        &mut SendAncillaryBuffer::default(),
        SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
    )
    .map(drop)
    .map_err(|error| Offence::System("failed to answer", error))
}
