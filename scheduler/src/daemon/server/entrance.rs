//! Who comes in: which connections are taken.

use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;

use crate::daemon::accept::connection::Connection;
use crate::daemon::accept::greet::Offence;
use crate::daemon::accept::identity::Identity;
use crate::daemon::accept::{Accepted, MAX_GUESTS, send_away};
use crate::daemon::deferred_close;
use crate::daemon::limits::CONNECT_INTERVAL;
use crate::daemon::server::Server;
use crate::daemon::source::EventSource;

/// Connections that are taken in a turn of the loop: the others are there in the next one.
const MAX_ACCEPTED: usize = 4;

impl Server {
    /// Takes some of the connections that wait.
    pub(crate) fn accept(&mut self) {
        for _ in 0..MAX_ACCEPTED {
            match self.accept.next(self.now()) {
                Accepted::Connection(socket, whose) => self.take_connection(socket, whose),
                Accepted::Nobody => return,
                Accepted::TooMany => return self.pause(EventSource::Listener, CONNECT_INTERVAL),
            }
        }
    }

    fn take_connection(&mut self, socket: OwnedFd, whose: Identity) {
        if self.may_not_send(whose.account) {
            return send_away(socket, whose.account, &Offence::Unclosed(whose.account));
        }
        if let Err(offence) = self.make_place(whose) {
            return send_away(socket, whose.account, &offence);
        }
        let id = self.accept.number();
        if self
            .watch(&socket, EventSource::Guest(id), EventFlags::IN)
            .is_ok()
        {
            let since = self.now();
            let connection = Connection { socket, whose, since };
            self.accept.insert(id, connection);
        }
    }

    /// Whether nothing that the user's clients send is taken: it could not be closed.
    pub(crate) fn may_not_send(&self, uid: u32) -> bool {
        deferred_close::is_blocked(uid) || self.monitor.descriptors().are_scarce(uid)
    }

    /// Sees to a place for one more. Of several users each has at most as many clients as places are free, so
    /// that however many come there is one more; and where all wait to be greeted, one goes that says
    /// nothing, of the account that has the most of them.
    fn make_place(&mut self, whose: Identity) -> Result<(), Offence> {
        let account = whose.account;
        let free = self.accept.max_clients().saturating_sub(self.clients.len());
        if free == 0 {
            return Err(Offence::Full);
        }
        let guests = self.accept.by_account();
        let own = guests.get(&account).copied().unwrap_or(0);
        if self.config.users.are_several() && !whose.administers {
            let clients = self.clients.values().filter(|client| client.uid == account);
            if own >= MAX_GUESTS / 2 || clients.count() >= free {
                return Err(Offence::UserFull(account));
            }
        }
        if self.accept.len() < MAX_GUESTS {
            return Ok(());
        }
        let most = guests.into_iter().max_by_key(|(_, count)| *count);
        let (most, _) = most.filter(|(_, count)| *count > own + 1).ok_or(Offence::Full)?;
        let silent = self.accept.silent_of(most);
        self.turn_away(silent.ok_or(Offence::Full)?, &Offence::Full);
        Ok(())
    }

    pub(crate) fn watch(
        &self,
        file: &OwnedFd,
        source: EventSource,
        flags: EventFlags,
    ) -> Result<(), Offence> {
        let watched = self.poll.watch(file, source, flags);
        watched.map_err(|error| Offence::System("failed to watch it", error))
    }
}
