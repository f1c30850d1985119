//! What of the broker lasts beyond its process ([`crate::journal`]).
//!
//! Not among it: what was learned of tasks that run on, turns at the driver, and which room of the dead is
//! not free yet. The driver shows the last; the others are of the moment.

use std::collections::BTreeMap;
use std::time::Duration;

use super::agent::Given;
use super::suspended::Whom;
use super::{Broker, Touch};
use crate::client::ClientId;
use crate::journal::{Image, Standing};
use crate::ledger::Changes;

impl Broker {
    /// What has changed since this was last called, to be taken down before anybody is told of it.
    pub fn take_changes(&mut self) -> (Changes, Option<Standing>) {
        let changed = std::mem::take(&mut self.standing_changed) | self.jobs.take_changed();
        (self.ledger.take_changes(), changed.then(|| self.standing()))
    }

    fn standing(&self) -> Standing {
        let suspended = || self.suspended.0.iter();
        let process = |(whom, since): (&Whom, &Duration)| match whom {
            Whom::Process(pid) => Some((*pid, *since)),
            Whom::Job(_) => None,
        };
        let job = |(whom, since): (&Whom, &Duration)| match whom {
            Whom::Job(job) => Some((*job, *since)),
            Whom::Process(_) => None,
        };
        Standing {
            drained: self.drained,
            processes: suspended().filter_map(process).collect(),
            suspended_jobs: suspended().filter_map(job).collect(),
            exchanged: self.jobs.exchanged(),
        }
    }

    /// Goes on where an earlier broker over the same GPUs was. Its clients have arrived again, under their
    /// old numbers; `orders`: the number of the last order that each was given.
    pub fn bring_in(&mut self, image: &Image, orders: &BTreeMap<ClientId, u32>, now: Duration) {
        self.ledger.bring_in(&image.ledger());
        let running: Vec<_> = self.ledger.tasks().map(|(key, _)| key).collect();
        for key in running {
            self.touched.insert(key, Touch { thread: 0, at: now });
            // What its job took before is forgotten; it has taken what it has now.
            self.took(key.client, Duration::ZERO, now);
        }
        for (client, last) in orders {
            if let Some(entry) = self.clients.get_mut(client) {
                entry.agent.last = *last;
            }
        }
        // Who is on its way says so when it has arrived, or that it could not go.
        let arrivals: Vec<_> = self.ledger.arrivals().collect();
        for (key, arrival) in arrivals {
            let from = self.ledger.task(key).map_or(arrival.gpu, |held| held.gpu);
            if let Some(entry) = self.clients.get_mut(&key.client) {
                entry.agent.given = Some(Given {
                    number: arrival.order,
                    gpu: from,
                    bytes: arrival.bytes,
                    since: now,
                    waits_for_work: true,
                    moves: true,
                });
            }
        }
        let standing = &image.standing;
        self.drained = standing.drained;
        let processes = standing.processes.iter();
        let processes = processes.map(|(pid, since)| (Whom::Process(*pid), *since));
        let jobs = standing.suspended_jobs.iter();
        let jobs = jobs.map(|(job, since)| (Whom::Job(*job), *since));
        self.suspended.0.extend(processes.chain(jobs));
        for &(job, from, to) in &standing.exchanged {
            let members = self.clients.iter();
            let members = members.filter(|(_, entry)| entry.job == job && !entry.looks);
            self.jobs
                .bring_in(job, from, to, members.map(|(client, _)| *client).collect());
        }
    }
}
