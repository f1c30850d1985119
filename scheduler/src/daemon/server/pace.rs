//! Whose launches are held for whom: what latency programs say, and what batch programs are told.

use std::collections::BTreeMap;
use std::time::Duration;

use mgb_probe::view::{PacedFor, TaskView, WaitView};
use mgb_probe::wire::Reply;
use mgb_probe::{Class, MpsClient};

use crate::broker::Broker;
use crate::client::ClientId;
use crate::daemon::client::Client;
use crate::daemon::server::Server;
use crate::fair::Member;
use crate::lacks::{KnownProgram, lacks};
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
                percentage: (reserve > 0 && self.latency_clients().next().is_some()).then(|| 100 - reserve),
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

    /// A client that runs says that it is a latency program from here on.
    pub(crate) fn becomes_latency(&mut self, id: ClientId) -> Reply {
        let Some(client) = self.clients.get_mut(&id).filter(|client| !client.observer) else {
            return Reply::Unchanged;
        };
        client.becomes_latency();
        let (uid, said) = (client.uid, client.class());
        let class = self.accounts.class(uid, said);
        self.notes_class(id);
        if class == Class::Latency {
            Reply::Done
        } else {
            Reply::Unchanged
        }
    }

    /// The connected clients that have said that they are latency programs, and whose users have the right:
    /// one that changes its word later changes nobody's place in the queue.
    pub(crate) fn latency_clients(&self) -> impl Iterator<Item = ClientId> {
        self.paces.say_latency().filter(|id| {
            let client = self.clients.get(id).filter(|client| client.line.is_some());
            client.is_some_and(|client| self.accounts.latency_percent(client.uid) > 0)
        })
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

    /// The class that a client has.
    fn class_of(&self, client: &Client) -> Class {
        self.accounts.class(client.uid, client.class())
    }

    /// Adds to tasks and requests what their processes are, and what is asked of their launches.
    pub(crate) fn show_paces(&self, tasks: &mut [TaskView], queue: &mut [WaitView]) {
        let clients = self.clients.values().filter(|client| !client.observer);
        let by_pid: BTreeMap<u32, &Client> = clients.map(|client| (client.pid, client)).collect();
        let is_latency = |client: &&&Client| client.line.is_some() && self.class_of(client) == Class::Latency;
        let latency = by_pid.values().filter(is_latency);
        let beside = latency.fold(0, |set, client| set | contexts(&self.broker, client));
        for task in tasks {
            let Some(client) = by_pid.get(&task.pid) else {
                continue;
            };
            let bit = 1u64.checked_shl(task.gpu).unwrap_or(0);
            let program = KnownProgram {
                said: client.class(),
                class: self.class_of(client),
                joined: client.joined_mps(),
                is_beside_latency: beside & bit != 0,
            };
            task.class = program.class;
            task.lacks = lacks(
                program,
                self.hello.mps_pipe.is_some(),
                self.config.latency_reserve,
            );
            task.pace = match client.is_paced(task.gpu) {
                (true, _) if self.paces.is_held_for_latency(task.gpu) => Some(PacedFor::LatencyWork),
                (true, _) => Some(PacedFor::Share),
                (false, true) => Some(PacedFor::Bound),
                (false, false) => None,
            };
            task.latency = client.bursts().filter(|_| task.class == Class::Latency);
            let joined = program.joined.filter(|joined| !joined.is_outside);
            task.multiprocessors_percent = joined
                .and_then(|joined| joined.percentage)
                .filter(|percent| *percent < 100);
            task.paused_ms = client.held().as_millis() as u64;
            task.speed = self.paces.speed_of(client.id).map(|part| (part * 1000.0) as u32);
        }
        for wait in queue {
            if let Some(client) = by_pid.get(&wait.pid) {
                wait.class = self.class_of(client);
                wait.has_no_right = client.class() != wait.class;
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
        let (accounts, broker) = (&self.accounts, &self.broker);
        let class = |client: &Client| accounts.class(client.uid, client.class());
        // Batch programs with one context each, and where.
        let batch = || {
            let clients = self.clients.values().filter(|client| client.line.is_some());
            clients.filter_map(|client| {
                let contexts = contexts(broker, client);
                let is_one = contexts.count_ones() == 1 && class(client) == Class::Batch;
                is_one.then(|| (client, contexts.trailing_zeros()))
            })
        };
        let member = |(client, gpu): (&Client, u32)| {
            let one = Member {
                client: client.id,
                gpu,
                launched: client.launched(),
                time_left: broker.time_left(client.id, now),
            };
            (one, client.is_busy(gpu as usize))
        };
        self.paces.share(batch().map(member), now);
        let paces = &self.paces;
        for client in self.clients.values_mut().filter(|client| !client.observer) {
            match class(client) {
                Class::Batch => {
                    let contexts = contexts(broker, client);
                    let own = if contexts.count_ones() == 1 {
                        paces.of(client.id, contexts.trailing_zeros(), paced, now)
                    } else {
                        paced
                    };
                    client.pace(own.holds, own.bounds, anew);
                }
                Class::Latency => client.pace(0, 0, false),
            }
        }
    }
}
