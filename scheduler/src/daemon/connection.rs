//! Who has connected and is not greeted yet.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::identity::Identity;

/// A connection that has not said what it wants.
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) whose: Identity,
    /// When the connection was accepted, or its hello was heard.
    pub(super) since: Duration,
}

impl Connection {
    /// Whether nothing has come from it, nor that it hung up.
    pub(super) fn is_silent(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        rustix::net::recv(&self.socket, &mut [0_u8; 1], flags).is_err_and(|error| error == Errno::AGAIN)
    }
}
