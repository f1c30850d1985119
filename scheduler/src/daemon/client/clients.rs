//! The clients there are, and how much is heard of whom.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Client;
use super::client_fds::ClientFds;
use crate::client::ClientId;
use crate::daemon::limits::{
    FILE_LISTS, LOG_LINES, Limiter, MAX_FREE_REQUESTS, Pauses, USER_LOG_LINES, WAITING_REQUESTS,
};
use crate::daemon::source::EventSource;
use crate::node::NodeDriver;

/// All clients, by their numbers.
pub(crate) struct Clients {
    all: BTreeMap<ClientId, Client>,
    /// Clients with requests that are not taken yet.
    posting: BTreeSet<ClientId>,
    /// The first of them that is heard.
    hears_from: ClientId,
    /// Requests that are taken and not answered, by user.
    unanswered: Limiter<u32>,
    /// Lists of files to be kept, by user.
    file_lists: Limiter<u32>,
    pauses: Pauses<EventSource>,
    /// Files of processes that are gone.
    fds: ClientFds,
    /// Descriptors kept for clients, at once.
    max_fds: usize,
    /// How often a client did what no honest one does.
    offences: u64,
    /// Lines of the log about that,
    offence_lines: Limiter<()>,
    /// and about people's orders, by user.
    audit_lines: Limiter<u32>,
    /// Since when nobody needs `mgbd`.
    idle_since: Option<Duration>,
}

impl Clients {
    /// No clients, for which so many files may be kept.
    pub(crate) fn new(node: &dyn NodeDriver, max_fds: usize, now: Duration) -> Clients {
        Clients {
            all: BTreeMap::new(),
            posting: BTreeSet::new(),
            hears_from: 0,
            unanswered: Limiter::new(WAITING_REQUESTS),
            file_lists: Limiter::new(FILE_LISTS),
            pauses: Pauses::default(),
            fds: ClientFds::new(node),
            max_fds,
            offences: 0,
            offence_lines: Limiter::new(LOG_LINES),
            audit_lines: Limiter::new(USER_LOG_LINES),
            idle_since: Some(now),
        }
    }

    /// All of them, by number.
    pub(crate) fn all(&self) -> &BTreeMap<ClientId, Client> {
        &self.all
    }

    /// The client with this number.
    pub(crate) fn get(&self, id: &ClientId) -> Option<&Client> {
        self.all.get(id)
    }

    /// The client with this number, to be changed.
    pub(crate) fn get_mut(&mut self, id: &ClientId) -> Option<&mut Client> {
        self.all.get_mut(id)
    }

    /// Every client, by number.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Client> {
        self.all.values()
    }

    /// Every client, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.all.values_mut()
    }

    /// The clients that obey orders.
    pub(crate) fn listening(&self) -> BTreeSet<ClientId> {
        let listening = self.all.values().filter(|client| client.listens());
        listening.map(|client| client.id).collect()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is one with this number.
    pub(crate) fn contains_key(&self, id: &ClientId) -> bool {
        self.all.contains_key(id)
    }

    /// A client came.
    pub(crate) fn insert(&mut self, client: Client) {
        self.all.insert(client.id, client);
    }

    /// One that an earlier `mgbd` has left came, with requests that wait.
    pub(crate) fn insert_again(&mut self, client: Client, now: Duration) {
        self.unanswered.charge(client.uid, client.unanswered(), now);
        self.all.insert(client.id, client);
    }

    /// A client is gone, and its requests are void.
    pub(crate) fn remove(&mut self, id: ClientId) -> Option<Client> {
        self.drop_calls(id);
        self.pauses.forget(EventSource::Socket(id));
        self.pauses.forget(EventSource::Doorbell(id));
        self.all.remove(&id)
    }

    /// The clients, as `mgbd` ends.
    pub(crate) fn into_values(self) -> impl Iterator<Item = Client> {
        self.all.into_values()
    }

    /// A client has posted requests.
    pub(crate) fn posted(&mut self, id: ClientId) {
        self.posting.insert(id);
    }

    /// Whether there are requests that are not taken yet.
    pub(crate) fn are_posting(&self) -> bool {
        !self.posting.is_empty()
    }

    /// The clients that have posted requests, in the order in which they are heard in this turn of the loop.
    pub(crate) fn take_posting(&mut self) -> impl Iterator<Item = ClientId> + use<> {
        let mut posting = std::mem::take(&mut self.posting);
        let later = posting.split_off(&self.hears_from);
        self.hears_from = 0;
        later.into_iter().chain(posting)
    }

    /// A client could not be heard in this turn: it is the first in the next one.
    pub(crate) fn hears_next(&mut self, id: ClientId) {
        self.hears_from = id;
    }

    /// Requests of a client were taken. True: its user has more than may wait, and it has more than a few of
    /// them.
    pub(crate) fn took(&mut self, id: ClientId, count: usize, now: Duration) -> bool {
        let Some(client) = self.all.get(&id) else {
            return false;
        };
        self.unanswered.charge(client.uid, count as u32, now);
        client.unanswered() > MAX_FREE_REQUESTS && self.unanswered.is_exceeded(client.uid)
    }

    /// A client's request was answered.
    pub(crate) fn answered(&mut self, id: ClientId, cell: usize) {
        if let Some(client) = self.all.get_mut(&id)
            && client.answer(cell)
        {
            self.unanswered.give_back(client.uid, 1);
        }
    }

    /// A client's requests are void.
    pub(crate) fn drop_calls(&mut self, id: ClientId) {
        if let Some(client) = self.all.get_mut(&id) {
            let count = client.drop_calls();
            self.unanswered.give_back(client.uid, count);
        }
    }

    /// A client's list of files came. False: its user's come too often.
    pub(crate) fn may_list_files(&mut self, id: ClientId, now: Duration) -> bool {
        let uid = self.all.get(&id).map(|client| client.uid);
        uid.is_none_or(|uid| self.file_lists.take(uid, now).is_some())
    }

    /// Files of processes that are gone.
    pub(crate) fn fds(&self) -> &ClientFds {
        &self.fds
    }

    /// The same, to let go of some.
    pub(crate) fn fds_mut(&mut self) -> &mut ClientFds {
        &mut self.fds
    }

    /// A client's process is gone: its files stay as long as its work goes on. With a client, the holder is to
    /// hear that it has none any more.
    pub(crate) fn outlive(&mut self, id: ClientId, gpus: usize, now: Duration) -> Option<&mut Client> {
        let client = self.all.get_mut(&id)?;
        client.say_gone();
        let (files, busy) = (std::mem::take(&mut client.kept), client.busy_gpus(gpus));
        self.fds.outlive(id, (client.pid, client.uid), files, busy, now);
        (client.is_held && !self.fds.keeps_client(id)).then_some(client)
    }

    /// Descriptors that may be kept for clients, at once.
    pub(crate) fn max_fds(&self) -> usize {
        self.max_fds
    }

    /// What is not heard for a moment.
    pub(crate) fn pauses(&mut self) -> &mut Pauses<EventSource> {
        &mut self.pauses
    }

    /// How long until something is heard again.
    pub(crate) fn hears_in(&self, now: Duration) -> Option<Duration> {
        self.pauses.end_in(now)
    }

    /// A client did what no honest one does. With a number the log is to tell of it: so many such lines were left
    /// out before.
    pub(crate) fn offends(&mut self, now: Duration) -> Option<u32> {
        self.offences += 1;
        self.offence_line(now)
    }

    /// The same for what is not the client's fault.
    pub(crate) fn offence_line(&mut self, now: Duration) -> Option<u32> {
        self.offence_lines.take((), now)
    }

    /// A process has more than it was granted.
    pub(crate) fn exceeds(&mut self) {
        self.offences += 1;
    }

    /// How often a client did what no honest one does.
    pub(crate) fn offences(&self) -> u64 {
        self.offences
    }

    /// Whether the log is to tell of a user's order; with it, how many it was not told of before.
    pub(crate) fn audit_line(&mut self, uid: u32, now: Duration) -> Option<u32> {
        self.audit_lines.take(uid, now)
    }

    /// Since when nobody needs `mgbd`.
    pub(crate) fn idle_since(&self) -> Option<Duration> {
        self.idle_since
    }

    /// Somebody needs it, or (with a time) nobody does.
    pub(crate) fn set_idle(&mut self, now: Option<Duration>) -> Option<Duration> {
        self.idle_since = now.map(|now| self.idle_since.unwrap_or(now));
        self.idle_since
    }
}
