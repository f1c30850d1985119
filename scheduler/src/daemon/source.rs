//! What an event of the loop is about.

use rustix::event::epoll;

use crate::client::ClientId;

/// What an event is about. Travels through epoll as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
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

impl Source {
    pub(crate) fn data(self) -> epoll::EventData {
        let (kind, id) = match self {
            Source::Listener => (0, 0),
            Source::Stop => (1, 0),
            Source::Guest(id) => (2, id),
            Source::Socket(id) => (3, id),
            Source::Doorbell(id) => (4, id),
            Source::Process(id) => (5, id),
            Source::Holder => (6, 0),
            Source::Reload => (7, 0),
            Source::Lookups => (8, 0),
        };
        epoll::EventData::new_u64(kind << 56 | id)
    }

    pub(crate) fn from_data(data: epoll::EventData) -> Option<Source> {
        let word = data.u64();
        let id = word & ((1 << 56) - 1);
        Some(match word >> 56 {
            0 => Source::Listener,
            1 => Source::Stop,
            2 => Source::Guest(id),
            3 => Source::Socket(id),
            4 => Source::Doorbell(id),
            5 => Source::Process(id),
            6 => Source::Holder,
            7 => Source::Reload,
            8 => Source::Lookups,
            _ => return None,
        })
    }
}
