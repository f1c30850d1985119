//! Going on where an `mgbd` that ended without a word was: its clients, what they hold and wait for, and what
//! people wanted. The clients notice nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::Hello;
use mgb_probe::wire::{OLDEST, Request, VERSION};
use rustix::event::epoll;

use crate::broker::Answer;
use crate::client::ClientId;
use crate::daemon::accept::greet::{self, Offence};
use crate::daemon::client::Client;
use crate::daemon::client::inherited::InheritedClient;
use crate::daemon::poll;
use crate::daemon::restart::book::Book;
use crate::daemon::restart::predecessor::Predecessor;
use crate::daemon::server::Server;
use crate::daemon::source::EventSource;
use crate::journal::{Image, KnownClient};

impl Server {
    /// Takes over what was left, and begins a journal of its own.
    pub(crate) fn recover(&mut self, left: Predecessor) {
        let gpus: Vec<String> = self.hello.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        let new = || Image {
            gpus: gpus.clone(),
            next_client: 1,
            ..Image::default()
        };
        let read = left.journal.map(Book::read).transpose();
        let mut image = match read {
            Ok(image) => image.unwrap_or_else(new),
            Err(error) => {
                tracing::error!(%error, "failed to read the journal of the mgbd before");
                new()
            }
        };
        if image.gpus != gpus {
            tracing::error!(
                then = ?image.gpus,
                now = ?gpus,
                "the mgbd before shared other GPUs: its programs are left to themselves"
            );
            image = new();
        }
        let now = self.now();
        let mut requests: Vec<(Duration, ClientId, usize, Request)> = Vec::new();
        let (mut taken, mut breaches) = (BTreeMap::new(), Vec::new());
        for left in left.clients {
            let (id, pid) = (left.id, left.pid);
            let speaks =
                |known: &&KnownClient| known.pid == pid && (OLDEST..=VERSION).contains(&known.version);
            let known = image.clients.get(&id).filter(speaks).copied();
            let client = match known {
                Some(known) => self
                    .connect_again(&known, left)
                    .map(|client| (known, client))
                    .map_err(|offence| offence.to_string()),
                None => Err("the journal does not know it".to_owned()),
            };
            match client {
                Ok((known, mut client)) => {
                    match client.take_again(&image.calls, now) {
                        Ok(again) => {
                            let again = again.into_iter();
                            requests.extend(again.map(|(since, cell, request)| (since, id, cell, request)));
                        }
                        Err(breach) => breaches.push((id, breach)),
                    }
                    taken.insert(id, (known, client));
                }
                Err(why) => {
                    tracing::warn!(client = id, pid, why, "not gone on with");
                    self.restart.forgo(id);
                }
            }
        }
        let lost: BTreeSet<ClientId> = image.clients.keys().copied().collect();
        for id in lost.into_iter().filter(|id| !taken.contains_key(id)) {
            image.forget(id);
        }
        self.accept.begin_with(image.next_client);
        let orders = taken.iter().map(|(id, (_, client))| (*id, client.last_order()));
        let orders: BTreeMap<ClientId, u32> = orders.collect();
        let mut programs = BTreeSet::new();
        for (id, (known, client)) in taken {
            self.accounts.ask(known.uid, now);
            self.join_again(id, &known, client, now);
            if self.accounts.lookups().program(id, known.uid, known.pid) {
                programs.insert(id);
            }
        }
        self.await_lookups(programs);
        self.broker.bring_in(&image, &orders, now);
        let (clients, tasks) = (image.clients.len(), image.tasks.len());
        self.restart.begin(image);
        if clients > 0 {
            let waiting = requests.len();
            tracing::info!(
                clients,
                tasks,
                waiting,
                "went on with the programs of the mgbd before"
            );
        }
        for (id, breach) in breaches {
            self.cut_off(id, &breach);
        }
        self.note_views();
        // Who waited longest comes first, and keeps that time.
        requests.sort_by_key(|(since, id, cell, _)| (*since, *id, *cell));
        for (since, client, cell, request) in requests {
            if let Some(reply) = self.broker.request(client, cell, request, since) {
                self.deliver(vec![Answer { client, cell, reply }]);
            }
        }
        self.view.changed();
    }

    /// A client with what was left of it, watched. It is told again that it is one if it may not have heard
    /// that.
    fn connect_again(&mut self, known: &KnownClient, left: InheritedClient) -> Result<Client, Offence> {
        let id = left.id;
        let client = Client::again(left, known.uid, known.reader.unwrap_or(known.uid))?;
        let Some(line) = &client.line else {
            return Err(Offence::Silent);
        };
        self.watch(&client.pidfd, EventSource::Process(id), epoll::EventFlags::IN)
            .and_then(|()| self.watch(&line.doorbell, EventSource::Doorbell(id), poll::DOORBELL))
            .and_then(|()| self.watch(&line.socket, EventSource::Socket(id), poll::SOCKET))?;
        if !client.has_heard_hello() {
            let (class, mps_client) = self.joins(known.uid, client.class());
            let hello = Hello {
                version: known.version,
                client_pid: Some(known.pid),
                exchanged: None,
                numbering: Vec::new(),
                usable: self.accounts.usable_by(known.uid),
                class: Some(class),
                mps_client,
                view: self.view.of(client.uid, client.reader).ok().map(|(name, _)| name),
                ..self.hello.clone()
            };
            greet::welcome(&line.socket, hello)?;
        }
        Ok(client)
    }

    fn join_again(&mut self, id: ClientId, known: &KnownClient, client: Client, now: Duration) {
        self.broker.arrive(id, known.pid);
        self.belongs_to(id, known.uid);
        self.broker.join(id, known.job);
        self.clients.insert_again(client, now);
        self.notes_class(id);
    }
}
