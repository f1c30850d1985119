//! A client that an `mgbd` which ended without a word has left with the holder.

use std::os::fd::OwnedFd;

use crate::client::ClientId;

/// A client that lives, and does not know that its `mgbd` is gone.
#[derive(Debug)]
pub(crate) struct InheritedClient {
    pub(crate) id: ClientId,
    pub(crate) pid: u32,
    /// Something was granted to it.
    pub(crate) granted: bool,
    pub(crate) pidfd: OwnedFd,
    pub(crate) memory: OwnedFd,
    pub(crate) socket: OwnedFd,
    pub(crate) doorbell: OwnedFd,
    /// The driver's files that are kept for it.
    pub(crate) kept: Vec<OwnedFd>,
}

impl InheritedClient {
    /// With the files that came beside it; `None` if they are not those of a client.
    pub(crate) fn new(id: ClientId, pid: u32, granted: bool, files: Vec<OwnedFd>) -> Option<InheritedClient> {
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
