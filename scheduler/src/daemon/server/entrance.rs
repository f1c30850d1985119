//! Who comes in: which connections are taken, and what the loop watches of them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;
use rustix::net::SocketFlags;

use crate::daemon::accept::connection::Connection;
use crate::daemon::accept::greet::{self, Offence};
use crate::daemon::accept::identity::Identity;
use crate::daemon::deferred_close;
use crate::daemon::limits::CONNECT_INTERVAL;
use crate::daemon::server::{MAX_GUESTS, Server};
use crate::daemon::source::Source;

/// Connections that are taken in a turn of the loop: the others are there in the next one.
const MAX_ACCEPTED: usize = 4;

impl Server {
    pub(crate) fn accept(&mut self) {
        for _ in 0..MAX_ACCEPTED {
            if self.connections.take((), self.now()).is_none() {
                return self.pause(Source::Listener, CONNECT_INTERVAL);
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = rustix::net::accept_with(self.listener.socket(), flags) else {
                return;
            };
            let whose = self.identities.of(&socket);
            if self.may_not_send(whose.account) {
                self.send_away(socket, whose, &Offence::Unclosed(whose.account));
                continue;
            }
            if let Err(offence) = self.make_place(whose) {
                self.send_away(socket, whose, &offence);
                continue;
            }
            let id = self.next_id;
            self.next_id += 1;
            if self
                .watch(&socket, Source::Guest(id), epoll::EventFlags::IN)
                .is_ok()
            {
                let since = self.now();
                self.guests.insert(id, Connection { socket, whose, since });
            }
        }
    }

    /// Whether nothing that the user's clients send is taken: it could not be closed.
    pub(crate) fn may_not_send(&self, uid: u32) -> bool {
        deferred_close::is_blocked(uid) || self.descriptors.are_scarce(uid)
    }

    fn send_away(&self, socket: OwnedFd, whose: Identity, why: &Offence) {
        greet::refuse(&socket, why);
        deferred_close::close_socket(whose.account, socket);
    }

    /// Sees to a place for one more. Of several users each has at most as many clients as places are free, so
    /// that however many come there is one more; and where all wait to be greeted, one goes that says
    /// nothing, of the account that has the most of them.
    fn make_place(&mut self, whose: Identity) -> Result<(), Offence> {
        let account = whose.account;
        let free = self.most_clients.saturating_sub(self.clients.len());
        if free == 0 {
            return Err(Offence::Full);
        }
        let mut guests: BTreeMap<u32, usize> = BTreeMap::new();
        for connection in self.guests.values() {
            *guests.entry(connection.whose.account).or_default() += 1;
        }
        let own = guests.get(&account).copied().unwrap_or(0);
        if self.config.users.are_several() && !whose.administers {
            let clients = self.clients.values().filter(|client| client.uid == account);
            if own >= MAX_GUESTS / 2 || clients.count() >= free {
                return Err(Offence::UserFull(account));
            }
        }
        if self.guests.len() < MAX_GUESTS {
            return Ok(());
        }
        let most = guests.into_iter().max_by_key(|(_, count)| *count);
        let (most, _) = most.filter(|(_, count)| *count > own + 1).ok_or(Offence::Full)?;
        let mut of_most = self
            .guests
            .iter()
            .filter(|(_, connection)| connection.whose.account == most);
        let silent = of_most
            .find(|(_, connection)| connection.is_silent())
            .map(|(id, _)| *id);
        self.turn_away(silent.ok_or(Offence::Full)?, &Offence::Full);
        Ok(())
    }

    pub(crate) fn watch(
        &self,
        what: &OwnedFd,
        source: Source,
        flags: epoll::EventFlags,
    ) -> Result<(), Offence> {
        epoll::add(&self.epoll, what, source.data(), flags)
            .map_err(|error| Offence::System("failed to watch it", error))
    }

    pub(crate) fn unwatch(&self, what: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, what.as_fd());
    }
}
