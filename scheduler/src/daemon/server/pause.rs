//! Leaves what a client says, or who connects, waiting for a moment: one that says more than any honest one
//! keeps the loop from others.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::EventFlags;

use crate::client::ClientId;
use crate::daemon::poll::{DOORBELL, SOCKET};
use crate::daemon::server::Server;
use crate::daemon::source::EventSource;

impl Server {
    /// Does not hear the listener, or a client's socket or doorbell, for so long.
    pub(crate) fn pause(&mut self, source: EventSource, length: Duration) {
        if self.watch_as(source, EventFlags::empty()) {
            let until = self.now() + length;
            self.clients.pauses().begin(source, until);
        }
    }

    /// Hears again what was paused for long enough.
    pub(crate) fn end_pauses(&mut self, now: Duration) {
        for source in self.clients.pauses().end(now) {
            let flags = match source {
                EventSource::Socket(_) => SOCKET,
                // One that rang meanwhile says so at once.
                EventSource::Doorbell(_) => DOORBELL,
                _ => EventFlags::IN,
            };
            self.watch_as(source, flags);
        }
    }

    /// False: it is closed.
    fn watch_as(&self, source: EventSource, flags: EventFlags) -> bool {
        let line = |id: &ClientId| self.clients.get(id).and_then(|client| client.line.as_ref());
        let file: Option<&OwnedFd> = match &source {
            EventSource::Listener => Some(self.accept.socket()),
            EventSource::Socket(id) => line(id).map(|line| &line.socket),
            EventSource::Doorbell(id) => line(id).map(|line| &line.doorbell),
            _ => None,
        };
        file.is_some_and(|file| self.poll.watch_for(file, source, flags))
    }
}
