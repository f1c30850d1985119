//! Answers of the broker.

use mgb_probe::wire::Reply;

use crate::client::ClientId;

/// An answer to carry to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The client that asked.
    pub client: ClientId,
    /// The call's cell.
    pub cell: usize,
    /// What to say.
    pub reply: Reply,
}
