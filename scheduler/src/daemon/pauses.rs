//! How clients are watched, and which of them are not heard for a moment.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::event::epoll::EventFlags;

use super::source::Source;
use crate::client::ClientId;

/// How a client's socket is watched.
pub(super) const SOCKET: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);
/// How its doorbell is: edge-triggered and never read, since a client can take the number out of its eventfd,
/// and a read of it could then block.
pub(super) const DOORBELL: EventFlags = EventFlags::IN.union(EventFlags::ET);

/// What is not heard now, and until when.
#[derive(Debug, Default)]
pub(super) struct Pauses(BTreeMap<Source, Duration>);

impl Pauses {
    /// How long until the next of them is heard again.
    pub(super) fn end_in(&self, now: Duration) -> Option<Duration> {
        Some(self.0.values().min()?.saturating_sub(now))
    }

    /// It is not heard until then.
    pub(super) fn begin(&mut self, source: Source, until: Duration) {
        self.0.insert(source, until);
    }

    /// What is to be heard again.
    pub(super) fn end(&mut self, now: Duration) -> Vec<Source> {
        let over = self.0.iter().filter(|(_, until)| now >= **until);
        let over: Vec<Source> = over.map(|(source, _)| *source).collect();
        for source in &over {
            self.0.remove(source);
        }
        over
    }

    /// The client is gone.
    pub(super) fn forget(&mut self, id: ClientId) {
        self.0.remove(&Source::Socket(id));
        self.0.remove(&Source::Doorbell(id));
    }
}
