//! What `mgbd` and the holder say to each other: JSON messages on a `SOCK_SEQPACKET` socket, descriptors
//! beside them.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Version of these messages. An `mgbd` that finds a holder of another one leaves it alone.
pub const VERSION: u32 = 3;

/// How long an `mgbd` that takes over may take to make room for all that it is given: the holder waits.
pub const TAKING: Duration = Duration::from_secs(15);

/// What the holder is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHolder {
    /// An `mgbd` takes the holder over; with `mps` it wants MPS to run. Answered by [`FromHolder::Mps`], what
    /// the last one left, and [`FromHolder::All`].
    Adopt {
        /// [`VERSION`] of the `mgbd`.
        version: u32,
        /// The `mgbd`'s process id.
        pid: u32,
        /// Whether it wants MPS.
        mps: bool,
        /// Whether MPS is to serve several users.
        #[serde(default)]
        users: bool,
        /// Whether to start one again if it ends without a word while programs depend on it. How, the holder
        /// was told by the `mgbd` that started it: that comes over no wire.
        restarts: bool,
    },
    /// Where clients find `mgbd`, beside it: they wait there while there is none.
    Listener,
    /// The journal, beside it: `mgb_scheduler::journal`. It replaces the one before; without one there is none.
    Journal,
    /// A client came. Beside it: its pidfd, its channel's memory and, unless it hung up, its socket and its
    /// doorbell.
    Client {
        /// `mgbd`'s number for it.
        id: u64,
        /// The client's process id.
        pid: u32,
    },
    /// The client was granted something.
    Granted {
        /// `mgbd`'s number for the client.
        id: u64,
    },
    /// The driver's files of a client, beside the message; they replace those before.
    Keep {
        /// `mgbd`'s number for the client.
        id: u64,
    },
    /// `mgbd` does not go on with the client, which was left by another one: it is held to its end, and sees
    /// that it has no `mgbd`.
    Forgo {
        /// `mgbd`'s number for the client.
        id: u64,
    },
    /// Nothing of the client is to be held any more.
    Release {
        /// `mgbd`'s number for the client.
        id: u64,
    },
    /// `mgbd` ends. Answered by [`FromHolder::Report`] if somebody is left, else by hanging up once MPS has
    /// ended.
    End,
    /// Who is left? Answered by [`FromHolder::Report`].
    Who,
}

/// What the holder says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromHolder {
    /// The first message on every connection.
    Greeting {
        /// [`VERSION`] of the holder.
        version: u32,
        /// The holder's process id.
        pid: u32,
    },
    /// It speaks to nobody of this kind, and hangs up.
    Refused {
        /// Why it refuses.
        why: String,
    },
    /// Another `mgbd` is there, and lives: it hangs up.
    Busy {
        /// The other `mgbd`'s process id.
        pid: u32,
    },
    /// MPS as it is now.
    Mps {
        /// Its pipe folder, where it runs.
        pipe: Option<PathBuf>,
        /// Why it does not.
        note: Option<String>,
    },
    /// What an `mgbd` that ended without a word had given: its [`ToHolder::Listener`], beside it.
    Listener,
    /// Its [`ToHolder::Journal`], beside it.
    Journal,
    /// A client of it that lives, with the files of [`ToHolder::Client`] beside it.
    Client {
        /// The number under which the client is held from now on: the same.
        id: u64,
        /// The client's process id.
        pid: u32,
        /// Whether it was granted something.
        granted: bool,
    },
    /// The driver's files of the client before, beside it.
    Files {
        /// `mgbd`'s number for the client.
        id: u64,
    },
    /// That was all.
    All,
    /// Processes of which something is held, and whether MPS runs.
    Report {
        /// The processes' ids.
        pids: Vec<u32>,
        /// Whether the holder has an MPS.
        mps: bool,
    },
}
