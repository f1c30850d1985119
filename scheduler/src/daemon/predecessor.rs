//! What an `mgbd` that ended without a word has left with the holder.

use std::os::fd::OwnedFd;

use crate::client::ClientId;

/// What was left.
#[derive(Debug, Default)]
pub(super) struct Predecessor {
    /// Where clients connect, and wait to be served.
    pub(super) listener: Option<OwnedFd>,
    /// The journal.
    pub(super) journal: Option<OwnedFd>,
    /// Clients that live.
    pub(super) clients: Vec<InheritedClient>,
}

/// A client that lives, and does not know that its `mgbd` is gone.
#[derive(Debug)]
pub(super) struct InheritedClient {
    pub(super) id: ClientId,
    pub(super) pid: u32,
    /// Something was granted to it.
    pub(super) granted: bool,
    pub(super) pidfd: OwnedFd,
    pub(super) memory: OwnedFd,
    pub(super) socket: OwnedFd,
    pub(super) doorbell: OwnedFd,
    /// The driver's files that are kept for it.
    pub(super) kept: Vec<OwnedFd>,
}

impl InheritedClient {
    /// With the files that came beside it; `None` if they are not those of a client.
    pub(super) fn new(id: ClientId, pid: u32, granted: bool, files: Vec<OwnedFd>) -> Option<InheritedClient> {
        let [pidfd, memory, socket, doorbell] = files.try_into().ok()?;
        Some(InheritedClient {
            id,
            pid,
            granted,
            pidfd,
            memory,
            socket,
            doorbell,
            kept: Vec::new(),
        })
    }
}
