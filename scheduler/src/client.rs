//! Clients: how they are named, and sets of them.

/// A client's number, in the order of arrival: a smaller one is senior.
pub type ClientId = u64;

/// A set of clients, as far as decisions need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientSet {
    /// The set without any client.
    #[default]
    Empty,
    /// This client only.
    One(ClientId),
    /// More than one client, or processes that are not clients (any more).
    Several,
}

impl ClientSet {
    /// The set with one client more.
    pub fn with(self, client: ClientId) -> ClientSet {
        match self {
            ClientSet::Empty => ClientSet::One(client),
            ClientSet::One(other) if other == client => self,
            _ => ClientSet::Several,
        }
    }

    /// Whether there is nobody in it.
    pub fn is_empty(self) -> bool {
        self == ClientSet::Empty
    }

    /// Whether the set holds anything but this client.
    pub fn others_than(self, client: ClientId) -> bool {
        match self {
            ClientSet::Empty => false,
            ClientSet::One(other) => other != client,
            ClientSet::Several => true,
        }
    }
}
