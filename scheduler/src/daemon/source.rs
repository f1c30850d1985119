//! What an event of the loop is about.

use rustix::event::epoll;

use crate::client::ClientId;

/// What an event is about. Travels through epoll as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventSource {
    Listener,
    Stop,
    Guest(u64),
    Socket(ClientId),
    Doorbell(ClientId),
    Process(ClientId),
    Holder,
    Reload,
    Lookups,
}

impl EventSource {
    pub(crate) fn data(self) -> epoll::EventData {
        let (kind, id) = match self {
            EventSource::Listener => (0, 0),
            EventSource::Stop => (1, 0),
            EventSource::Guest(id) => (2, id),
            EventSource::Socket(id) => (3, id),
            EventSource::Doorbell(id) => (4, id),
            EventSource::Process(id) => (5, id),
            EventSource::Holder => (6, 0),
            EventSource::Reload => (7, 0),
            EventSource::Lookups => (8, 0),
        };
        epoll::EventData::new_u64(kind << 56 | id)
    }

    pub(crate) fn from_data(data: epoll::EventData) -> Option<EventSource> {
        let word = data.u64();
        let id = word & ((1 << 56) - 1);
        Some(match word >> 56 {
            0 => EventSource::Listener,
            1 => EventSource::Stop,
            2 => EventSource::Guest(id),
            3 => EventSource::Socket(id),
            4 => EventSource::Doorbell(id),
            5 => EventSource::Process(id),
            6 => EventSource::Holder,
            7 => EventSource::Reload,
            8 => EventSource::Lookups,
            _ => return None,
        })
    }
}
