//! What users may have, and what becomes of requests beyond that.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Broker;
use crate::broker::accounts::Times;
use crate::broker::answer::{Answer, over_quota};
use crate::broker::queue::{SuspendReason, SuspendedRequest, WaitingTask};
use crate::broker::round::Round;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::quota::{Account, Owner};

impl Broker {
    /// This holds for a user from now on.
    pub fn has_account(&mut self, uid: u32, account: Account) {
        self.accounts.set(uid, account);
    }

    /// Whether it is known what holds for a user.
    pub fn knows_account(&self, uid: u32) -> bool {
        self.accounts.has(uid)
    }

    /// The user of a client.
    pub fn user_of(&self, client: ClientId) -> u32 {
        self.books.clients.user(client)
    }

    /// The users who have programs here; what is known of others is forgotten.
    pub fn users(&mut self) -> BTreeSet<u32> {
        let here = self.books.clients.users();
        self.accounts.retain(&here);
        here
    }

    /// Looks at how long tasks have had their memory.
    pub fn check_times(&mut self, now: Duration) -> Times {
        self.accounts.check_times(&mut self.books, now)
    }

    /// After a round: refuses tasks that came since the last time and wait, where more wait than may.
    pub fn refuse_beyond_waiting(&mut self, now: Duration) -> Vec<Answer> {
        let (queue, jobs) = (&self.queue, &self.jobs);
        let waiting = || {
            let followers = jobs.followers().iter().map(|follower| WaitingTask {
                client: follower.client,
                cell: follower.cell,
                since: follower.since,
            });
            queue.waiting_tasks().chain(followers)
        };
        let beyond = self.accounts.beyond_waiting(&self.books.clients, waiting, now);
        let mut answers = Vec::new();
        for (WaitingTask { client, cell, .. }, beyond) in beyond {
            tracing::info!(
                client,
                limit = beyond.limit,
                "as many tasks of its user wait as may: refused"
            );
            self.queue.remove(client, cell);
            self.jobs.remove(client, cell);
            self.history.count_refused();
            let reply = over_quota(beyond);
            answers.push(Answer { client, cell, reply });
        }
        answers
    }

    /// Refuses tasks that wait for GPUs which are others' by now.
    pub(super) fn refuse_without_gpu(&mut self) {
        if !self.accounts.keeps_gpus() {
            return;
        }
        let is_without = |client: ClientId, fit: GpuSet| {
            let uid = self.books.clients.user(client);
            (fit & self.accounts.usable(uid)).is_empty() && !self.accounts.is_provisional(uid)
        };
        let suspended = self.queue.suspended.iter().filter(|request| request.begins());
        let suspended = suspended.map(|request| (request.client, request.cell, request.fit, request.request));
        let pending = self.queue.pending.iter().filter(|waiting| !waiting.grows());
        let pending = pending.map(|waiting| (waiting.client, waiting.cell, waiting.fit, waiting.request));
        let without: Vec<_> = suspended
            .chain(pending)
            .filter(|(client, _, fit, _)| is_without(*client, *fit))
            .collect();
        for (client, cell, _, request) in without {
            tracing::info!(client, "its GPUs are kept for others: refused");
            self.history.count_refused();
            let uid = self.books.clients.user(client);
            let reply = self.accounts.none_usable(&self.books, uid, &request);
            self.queue.refuse_later(client, cell, reply);
        }
    }

    /// Where all who share a quota and hold something wait, lets the eldest go beyond it.
    pub(super) fn let_eldest_beyond(&mut self, round: &Round<'_>) {
        for (owner, client) in self.accounts.eldest_over_quota(&self.books, &self.queue) {
            let mut sharing = self.accounts.sharing(&self.books, owner);
            if sharing.any(|client| self.can_client_go_on(client, round)) {
                continue;
            }
            drop(sharing);
            let its = |suspended: &SuspendedRequest| {
                suspended.client == client
                    && matches!(suspended.reason, SuspendReason::Quota(of, _) if of == owner)
            };
            if let Some(suspended) = self.queue.suspended.take_first(its) {
                self.let_beyond(&suspended, owner, round.now);
            }
        }
    }

    fn let_beyond(&mut self, suspended: &SuspendedRequest, owner: Owner, now: Duration) {
        let client = suspended.client;
        match self.accounts.let_beyond(&self.books, suspended) {
            None => {
                tracing::info!(client, %owner, "all who share its quota wait: it goes beyond it");
                self.ask_again(suspended, now);
            }
            Some(beyond) => {
                tracing::warn!(client, %owner, "it alone has twice its quota and waits: refused");
                self.history.count_refused();
                self.queue
                    .answer_later(client, suspended.cell, over_quota(beyond));
            }
        }
    }

    fn can_client_go_on(&self, client: ClientId, round: &Round<'_>) -> bool {
        let asking = self.queue.asked_by(client);
        let mut tasks = self.books.ledger.tasks_of(client);
        let can_go_on = |(key, holding): (_, &crate::ledger::Holding)| {
            let is_busy = round.snapshot.busy.contains(&(client, holding.gpu));
            self.queue
                .touches
                .can_go_on(key, holding, &asking, is_busy, round.now)
        };
        asking.is_empty() || tasks.any(can_go_on)
    }
}
