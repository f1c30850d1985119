//! Whose launches are held for whom: what latency programs say, and what batch programs are told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::view::TaskView;
use mgb_probe::{Class, MpsClient};

use crate::broker::Broker;
use crate::client::ClientId;
use crate::daemon::client::Client;
use crate::daemon::server::Server;
use crate::pace::LatencyProgram;

/// The GPUs on which a client has a context, one bit each: by its own word only those where it was granted
/// one.
fn contexts(broker: &Broker, client: &Client) -> u64 {
    let granted = broker.ledger().contexts_of(client.id);
    client.contexts() & granted.fold(0, |set, gpu| set | 1u64.checked_shl(gpu as u32).unwrap_or(0))
}

impl Server {
    /// The class of a user's program which says that it is of this one, and how it is to join MPS. Batch
    /// programs are below latency programs there, and leave some multiprocessors to those that are here now.
    pub(crate) fn joins(&self, uid: u32, said: Class) -> (Class, MpsClient) {
        let class = self.accounts.class(uid, said);
        let reserve = self.config.latency_reserve;
        let mps_client = match class {
            _ if self.hello.mps_pipe.is_none() => MpsClient::default(),
            Class::Latency => MpsClient {
                priority: Some(0),
                percentage: None,
            },
            Class::Batch => MpsClient {
                priority: Some(1),
                percentage: (reserve > 0 && self.paces.has_latency()).then(|| 100 - reserve),
            },
        };
        (class, mps_client)
    }

    /// A client has come, perhaps from another `mgbd`.
    pub(crate) fn notes_class(&mut self, id: ClientId) {
        let client = self.clients.get(&id);
        if client.is_some_and(|client| !client.observer && client.class() == Class::Latency) {
            self.paces.arrive(id);
        }
    }

    /// The clients that are latency programs. That is as they said when they came: one that changes its word
    /// later changes nobody's place in the queue.
    pub(crate) fn latency_clients(&self) -> BTreeSet<ClientId> {
        let is_one = |id: &ClientId| {
            let client = self.clients.get(id).filter(|client| client.line.is_some());
            client.is_some_and(|client| self.accounts.latency_percent(client.uid) > 0)
        };
        self.paces.latency_clients().filter(is_one).collect()
    }

    /// The latency programs that are connected, as far as their users may have any.
    fn latency_programs(&mut self) -> Vec<LatencyProgram> {
        let (clients, accounts, broker) = (&self.clients, &self.accounts, &self.broker);
        let is_there = |id| clients.get(&id).is_some_and(|client| client.line.is_some());
        let programs = self.paces.latency(is_there).filter_map(|id| clients.get(&id));
        programs
            .map(|client| LatencyProgram {
                uid: client.uid,
                percent: accounts.latency_percent(client.uid),
                urgent: client.urgent(),
                contexts: contexts(broker, client),
            })
            .collect()
    }

    /// Adds to tasks what their processes are, and for how long their launches were held.
    pub(crate) fn show_paces(&self, tasks: &mut [TaskView]) {
        let clients = self.clients.values().filter(|client| !client.observer);
        let by_pid: BTreeMap<u32, &Client> = clients.map(|client| (client.pid, client)).collect();
        for task in tasks {
            if let Some(client) = by_pid.get(&task.pid) {
                task.class = self.accounts.class(client.uid, client.class());
                task.paused_ms = client.held().as_millis() as u64;
                task.speed = self.paces.speed_of(client.id).map(|part| (part * 1000.0) as u32);
            }
        }
    }

    /// Tells batch programs what latency programs change for them.
    pub(crate) fn pace(&mut self, now: Duration) {
        if self.paces.are_none(now) {
            return;
        }
        let programs = self.latency_programs();
        let (paced, anew) = self.paces.step(&programs, now);
        let accounts = &self.accounts;
        let broker = &self.broker;
        let batch = self.clients.values().filter_map(|client| {
            let contexts = contexts(broker, client);
            let is_batch =
                client.line.is_some() && accounts.class(client.uid, client.class()) == Class::Batch;
            let gpu = contexts.trailing_zeros();
            (is_batch && contexts.count_ones() == 1)
                .then(|| (client.id, gpu, client.is_busy(gpu as usize), client.launched()))
        });
        self.paces.share(batch, now);
        let paces = &self.paces;
        for client in self.clients.values_mut().filter(|client| !client.observer) {
            match accounts.class(client.uid, client.class()) {
                Class::Batch => {
                    let own = paces.of(client.id, paced, now);
                    client.pace(own.holds, own.bounds, anew);
                }
                Class::Latency => client.pace(0, 0, false),
            }
        }
    }
}
