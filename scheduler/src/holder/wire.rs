//! What `mgbd` and the holder say to each other: JSON messages on a `SOCK_SEQPACKET` socket, descriptors
//! beside them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Version of these messages. An `mgbd` that finds a holder of another one leaves it alone.
pub(crate) const VERSION: u32 = 1;

/// What the holder is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ToHolder {
    /// An `mgbd` takes the holder over; with `mps` it wants MPS to run. Answered by [`FromHolder::Mps`].
    Adopt {
        /// [`VERSION`] of the `mgbd`.
        version: u32,
        /// Its process.
        pid: u32,
        /// Whether it wants MPS.
        mps: bool,
    },
    /// A process was granted something. Beside it: its pidfd and its channel.
    Client {
        /// `mgbd`'s number for it.
        id: u64,
        /// Its process.
        pid: u32,
    },
    /// The driver's files of a client, beside the message; they replace those before.
    Keep {
        /// The client.
        id: u64,
    },
    /// Nothing of the client is to be held any more.
    Release {
        /// The client.
        id: u64,
    },
    /// `mgbd` ends. Answered by [`FromHolder::Report`] if somebody is left, else by hanging up once MPS has
    /// ended.
    End,
    /// Who is left? Answered by [`FromHolder::Report`]; asked by anybody.
    Who,
}

/// What the holder says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromHolder {
    /// The first message on every connection.
    Greeting {
        /// [`VERSION`] of the holder.
        version: u32,
        /// Its process.
        pid: u32,
    },
    /// MPS as it is now.
    Mps {
        /// Its pipe folder, where it runs.
        pipe: Option<PathBuf>,
        /// Why it does not.
        note: Option<String>,
    },
    /// Processes of which something is held, and whether MPS runs.
    Report {
        /// Their pids.
        pids: Vec<u32>,
        /// Whether the holder has an MPS.
        mps: bool,
    },
}
