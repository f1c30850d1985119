//! Who comes in: which connections are taken, and what the loop watches of them.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::net::SocketFlags;

use super::closer;
use super::greet::{self, Offence, uid_of};
use super::server::{MOST_GUESTS, Server};
use super::source::Source;
use crate::peer::peer;

/// Connections that are taken in a turn of the loop: the others are there in the next one.
const MOST_ACCEPTED: usize = 4;

impl Server {
    pub(super) fn accept(&mut self) {
        for _ in 0..MOST_ACCEPTED {
            if !self.doors.take(self.now()) {
                return self.close_doors();
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = rustix::net::accept_with(self.listener.socket(), flags) else {
                return;
            };
            if self.guests.len() >= MOST_GUESTS || self.clients.len() >= self.most_clients {
                self.send_away(socket, &Offence::Full);
                continue;
            }
            let uid = uid_of(&socket);
            if self.may_not_send(uid) {
                self.send_away(socket, &Offence::Unclosed(uid));
                continue;
            }
            if !self.has_place(uid) {
                self.send_away(socket, &Offence::UserFull(uid));
                continue;
            }
            let id = self.next_id;
            self.next_id += 1;
            if self
                .watch(&socket, Source::Guest(id), epoll::EventFlags::IN)
                .is_ok()
            {
                self.guests.insert(id, (socket, self.now()));
            }
        }
    }

    /// Whether nothing that the user's clients send is taken: it could not be closed.
    pub(super) fn may_not_send(&self, uid: u32) -> bool {
        closer::is_blocked(uid) || self.descriptors.are_scarce(uid)
    }

    fn send_away(&self, socket: OwnedFd, why: &Offence) {
        greet::refuse(&socket, why);
        self.close_socket(socket);
    }

    /// Closes a client's socket: at once, unless there are files in it.
    pub(super) fn close_socket(&self, socket: OwnedFd) {
        let uid = uid_of(&socket);
        closer::close(uid, closer::close_empty(socket));
    }

    /// Leaves who connects waiting for a moment.
    fn close_doors(&mut self) {
        let (data, none) = (Source::Listener.data(), epoll::EventFlags::empty());
        if epoll::modify(&self.epoll, self.listener.socket(), data, none).is_ok() {
            self.doors.close(self.now());
        }
    }

    /// Takes those who have waited, once it is time.
    pub(super) fn open_doors(&mut self, now: Duration) {
        if self.doors.open(now) {
            let (data, flags) = (Source::Listener.data(), epoll::EventFlags::IN);
            let _ = epoll::modify(&self.epoll, self.listener.socket(), data, flags);
        }
    }

    /// Whether one more of this user leaves places for others: no user of several takes more than half.
    fn has_place(&self, uid: u32) -> bool {
        if !self.config.users.are_several() || uid == 0 {
            return true;
        }
        let guests = self.guests.values();
        let guests = guests.filter(|(socket, _)| peer(socket).is_some_and(|peer| peer.uid == uid));
        let clients = self.clients.values().filter(|client| client.uid == uid);
        guests.count() < MOST_GUESTS / 2 && clients.count() < self.most_clients / 2
    }

    pub(super) fn watch(
        &self,
        what: &OwnedFd,
        source: Source,
        flags: epoll::EventFlags,
    ) -> Result<(), Offence> {
        epoll::add(&self.epoll, what, source.data(), flags)
            .map_err(|error| Offence::System("failed to watch it", error))
    }

    pub(super) fn unwatch(&self, what: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, what.as_fd());
    }
}
