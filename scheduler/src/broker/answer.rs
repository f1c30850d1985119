//! Answers of the broker.

use mgb_probe::wire::{Reply, Text};

use crate::client::ClientId;
use crate::quota::Beyond;

/// An answer to carry to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The client that asked.
    pub client: ClientId,
    /// The cell of the channel in which the client asked.
    pub cell: usize,
    /// The answer itself.
    pub reply: Reply,
}

/// The answer to a request that makes no sense.
pub(super) fn bad(text: &str) -> Reply {
    Reply::Bad(Text::new(text))
}

/// The answer to a request that is beyond a quota.
pub(super) fn over_quota(beyond: Beyond) -> Reply {
    Reply::OverQuota {
        what: beyond.what,
        wanted: beyond.wanted,
        limit: beyond.limit,
    }
}
