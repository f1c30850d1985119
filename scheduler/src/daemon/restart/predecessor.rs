//! What an `mgbd` that ended without a word has left with the holder.

use std::os::fd::OwnedFd;

use crate::daemon::client::inherited::InheritedClient;

/// What was left.
#[derive(Debug, Default)]
pub(crate) struct Predecessor {
    /// Where clients connect, and wait to be served.
    pub(crate) listener: Option<OwnedFd>,
    /// The journal of the `mgbd` before.
    pub(crate) journal: Option<OwnedFd>,
    /// Clients that live.
    pub(crate) clients: Vec<InheritedClient>,
}
