//! What of the broker lasts beyond its process ([`crate::journal`]).
//!
//! Not among it: what was learned of tasks that run on, turns at the driver, and which room of the dead is
//! not free yet. The driver shows the last; the others are of the moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::Numbering;

use super::agent::Given;
use super::control::is;
use super::health::Health;
use super::jobs::{JobOfUser, Order};
use super::suspended::Whom;
use super::{Broker, Touch};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::journal::{Image, Numbered, Standing};
use crate::ledger::Changes;

impl Broker {
    /// What has changed since this was last called, to be taken down before anybody is told of it.
    pub fn take_changes(&mut self) -> (Changes, Option<Standing>) {
        let changed = std::mem::take(&mut self.standing_changed)
            | self.jobs.take_changed()
            | self.places.take_changed();
        (self.ledger.take_changes(), changed.then(|| self.standing()))
    }

    fn standing(&self) -> Standing {
        let suspended = || self.suspended.0.iter();
        let process = |(whom, since): (&Whom, &Duration)| match whom {
            Whom::Process(pid) => Some((*pid, *since)),
            Whom::Job(_) => None,
        };
        let job = |(whom, since): (&Whom, &Duration)| match whom {
            Whom::Job((uid, job)) => Some((*uid, *job, *since)),
            Whom::Process(_) => None,
        };
        let suspended_jobs: Vec<_> = suspended().filter_map(job).collect();
        Standing {
            drained: self.drained.bits(),
            ailments: self.health.ailments.clone().into_iter().collect(),
            health: self.health.states.clone().into_iter().collect(),
            processes: suspended().filter_map(process).collect(),
            suspended_jobs: suspended_jobs
                .iter()
                .map(|(_, job, since)| (*job, *since))
                .collect(),
            suspended_jobs_of: Some(suspended_jobs),
            exchanged: self
                .jobs
                .orders()
                .map(|((_, job), order)| (job, order.first, order.numbering.gpu(order.first)))
                .collect(),
            numbered: self
                .jobs
                .orders()
                .map(|(job, order)| self.numbered(job, order))
                .collect(),
            placed: self.places.all(),
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
        // Who waits has waited before.
        self.accounts.counted_waiting = now;
        let standing = &image.standing;
        self.drained = GpuSet::from_bits(standing.drained);
        self.health = Health::of(standing, self.ledger.gpus().len());
        let processes = standing.processes.iter();
        let processes = processes.map(|(pid, since)| (Whom::Process(*pid), *since));
        let jobs = self.suspended_jobs(standing);
        // Of those who ended meanwhile nobody has told, and their numbers may be others' by now.
        let is_here = |whom: Whom| self.clients.values().any(|entry| is(whom, entry));
        let here = processes
            .chain(jobs)
            .filter(|(whom, _)| is_here(*whom))
            .collect::<Vec<_>>();
        self.suspended.0.extend(here);
        for numbered in &standing.numbered {
            if let Some(numbering) = Numbering::of(&numbered.stands_for) {
                let order = Order {
                    first: numbered.first,
                    gpus: GpuSet::from_bits(numbered.gpus),
                    numbering,
                };
                for uid in self.users_with(numbered.job, numbered.uid) {
                    self.bring_in_order((uid, numbered.job), order);
                }
            }
        }
        for &(job, first, gpu) in &standing.exchanged {
            // Of an mgbd that knew no numberings.
            if standing.numbered.is_empty() {
                let numbering = Numbering::exchanging(first, gpu);
                let order = Order {
                    first,
                    gpus: GpuSet::EMPTY,
                    numbering,
                };
                for uid in self.users_with(job, None) {
                    self.bring_in_order((uid, job), order);
                }
            }
        }
        let clients = &self.clients;
        self.places
            .bring_in(&standing.placed, |client| clients.contains_key(&client));
    }

    /// The jobs that are suspended, and since when. An `mgbd` that knew no users of jobs named numbers alone:
    /// then the jobs of all who are here with that number.
    fn suspended_jobs(&self, standing: &Standing) -> Vec<(Whom, Duration)> {
        let by_number = || {
            let jobs = standing.suspended_jobs.iter();
            jobs.flat_map(|&(job, since)| {
                let users = self
                    .clients
                    .values()
                    .filter(move |entry| entry.job == job || mgb_probe::slurm_whole(entry.job) == Some(job));
                users.map(move |entry| (entry.uid, job, since))
            })
            .collect()
        };
        let jobs = standing.suspended_jobs_of.clone().unwrap_or_else(by_number);
        jobs.into_iter()
            .map(|(uid, job, since)| (Whom::Job((uid, job)), since))
            .collect()
    }

    /// The user of a job where it is known, else all who are here with one of that number.
    fn users_with(&self, job: u64, user: Option<u32>) -> BTreeSet<u32> {
        let here = self.clients.values().filter(|entry| entry.job == job);
        user.map_or_else(
            || here.map(|entry| entry.uid).collect(),
            |uid| BTreeSet::from([uid]),
        )
    }

    fn bring_in_order(&mut self, job: JobOfUser, order: Order) {
        let members = self.clients.iter();
        let members = members.filter(|(_, entry)| entry.job_of_user() == job && !entry.looks);
        let members = members.map(|(client, _)| *client).collect();
        self.jobs.bring_in(job, order, members);
    }

    fn numbered(&self, (uid, job): JobOfUser, order: Order) -> Numbered {
        Numbered {
            uid: Some(uid),
            job,
            first: order.first,
            gpus: order.gpus.bits(),
            stands_for: order.numbering.first(self.ledger.gpus().len()),
        }
    }
}
