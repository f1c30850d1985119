//! Who connects: the socket, the handshake, and whose a connection is.

pub(crate) mod arrivals;
pub(crate) mod connection;
pub(crate) mod greet;
#[allow(clippy::disallowed_methods, reason = "the kernel's own words on processes")]
pub(crate) mod identity;
#[allow(clippy::disallowed_methods, reason = "its own folder, as it starts and ends")]
pub(crate) mod listener;
#[allow(
    clippy::disallowed_methods,
    reason = "the administrator's file, as it is and as it changes"
)]
pub(crate) mod subordinate;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::SocketFlags;

use crate::client::ClientId;
use crate::daemon::deferred_close;
use crate::daemon::limits::{CONNECTIONS, Limiter};
use crate::note::Note;
use arrivals::{Arrivals, WaitingGuest};
use connection::Connection;
use greet::Offence;
use identity::{Identities, Identity};
use listener::Listener;

/// How long a connection may stay silent before it has to have said hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that have not said hello yet, at once.
pub(crate) const MAX_GUESTS: usize = 128;

/// What a connection is to be.
pub(crate) enum Accepted {
    /// One that may say hello, of this account and user.
    Connection(OwnedFd, Identity),
    /// There is none that waits.
    Nobody,
    /// So many have come that the others are to wait.
    TooMany,
}

/// The socket, and who has connected to it and is no client yet.
pub(crate) struct Accept {
    listener: Listener,
    /// Connections, by the number that they have as clients.
    guests: BTreeMap<ClientId, Connection>,
    /// Those of them that have said hello.
    arrivals: Arrivals,
    identities: Identities,
    rate: Limiter<()>,
    next_id: ClientId,
    /// Clients at once.
    max_clients: usize,
}

impl Accept {
    /// Takes connections to this socket. `subordinates`: the file that says whose user namespaces are.
    /// So many may become clients at once.
    pub(crate) fn new(listener: Listener, subordinates: PathBuf, max_clients: usize) -> Accept {
        Accept {
            listener,
            guests: BTreeMap::new(),
            arrivals: Arrivals::default(),
            identities: Identities::new(subordinates),
            rate: Limiter::new(CONNECTIONS),
            next_id: 1,
            max_clients,
        }
    }

    /// How many clients there may be at once.
    pub(crate) fn max_clients(&self) -> usize {
        self.max_clients
    }

    /// The socket that clients connect to.
    pub(crate) fn socket(&self) -> &OwnedFd {
        self.listener.socket()
    }

    /// Notes which views there are, for who clears away after this process.
    pub(crate) fn note(&mut self, views: Vec<String>) {
        let note = Note {
            pid: std::process::id(),
            views,
            socket: self.listener.file(),
        };
        if let Err(error) = self.listener.note(&note) {
            tracing::warn!(%error, "failed to write the lock file");
        }
    }

    /// Clients have numbers from this one on.
    pub(crate) fn begin_with(&mut self, next_id: ClientId) {
        self.next_id = self.next_id.max(next_id);
    }

    /// Takes the next connection that waits.
    pub(crate) fn next(&mut self, now: Duration) -> Accepted {
        if self.rate.take((), now).is_none() {
            return Accepted::TooMany;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(self.listener.socket(), flags) {
            Ok(socket) => {
                let whose = self.identities.of(&socket);
                Accepted::Connection(socket, whose)
            }
            Err(_) => Accepted::Nobody,
        }
    }

    /// The number of the next connection.
    pub(crate) fn number(&mut self) -> ClientId {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// A connection may say hello from now on.
    pub(crate) fn insert(&mut self, id: ClientId, connection: Connection) {
        self.guests.insert(id, connection);
    }

    /// The connection with this number, as long as it is no client.
    pub(crate) fn guest(&self, id: ClientId) -> Option<&Connection> {
        self.guests.get(&id)
    }

    /// A connection is a client now, or is turned away.
    pub(crate) fn remove(&mut self, id: ClientId) -> Option<Connection> {
        self.guests.remove(&id)
    }

    /// All connections that are no clients.
    pub(crate) fn guests(&self) -> impl Iterator<Item = &Connection> {
        self.guests.values()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.guests.len()
    }

    /// How many there are of each account.
    pub(crate) fn by_account(&self) -> BTreeMap<u32, usize> {
        let mut guests = BTreeMap::new();
        for connection in self.guests.values() {
            *guests.entry(connection.whose.account).or_default() += 1;
        }
        guests
    }

    /// A connection of the account that has said nothing.
    pub(crate) fn silent_of(&self, account: u32) -> Option<ClientId> {
        let mut of_account = self
            .guests
            .iter()
            .filter(|(_, connection)| connection.whose.account == account);
        of_account
            .find(|(_, connection)| connection.is_silent())
            .map(|(id, _)| *id)
    }

    /// The connections that have been silent for too long.
    pub(crate) fn late(&self, now: Duration) -> Vec<ClientId> {
        let is_late = |connection: &Connection| now.saturating_sub(connection.since) > HELLO_TIMEOUT;
        let late = self.guests.iter().filter(|(_, connection)| is_late(connection));
        late.map(|(id, _)| *id).collect()
    }

    /// A connection has said hello, and waits for what is looked up.
    pub(crate) fn arrives(&mut self, id: ClientId, waiting: WaitingGuest, now: Duration) {
        if let Some(connection) = self.guests.get_mut(&id) {
            // It is silent no more.
            connection.since = now;
        }
        self.arrivals.insert(id, waiting);
    }

    /// Those that have said hello.
    pub(crate) fn arrivals(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }

    /// Takes no more connections. What those that were no clients yet have sent is closed beside the loop.
    pub(crate) fn end(self) {
        drop(self.listener);
        for connection in self.guests.into_values() {
            deferred_close::close_socket(connection.whose.account, connection.socket);
        }
    }

    /// How long until something is to be done about a connection.
    pub(crate) fn due_in(&self, now: Duration) -> Option<Duration> {
        let silent = (!self.guests.is_empty()).then_some(HELLO_TIMEOUT);
        self.arrivals.due_in(now).into_iter().chain(silent).min()
    }
}

/// Sends a connection away, and says why.
pub(crate) fn send_away(socket: OwnedFd, account: u32, why: &Offence) {
    greet::refuse(&socket, why);
    deferred_close::close_socket(account, socket);
}
