//! Who has connected and is not greeted yet.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::daemon::accept::identity::Identity;

/// A connection that has not said what it wants.
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) whose: Identity,
    /// When the connection was accepted, or its hello was heard.
    pub(crate) since: Duration,
}

impl Connection {
    /// Whether nothing has come from it, nor that it hung up.
    pub(crate) fn is_silent(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        rustix::net::recv(&self.socket, &mut [0_u8; 1], flags).is_err_and(|error| error == Errno::AGAIN)
    }
}
