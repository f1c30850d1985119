//! Answering: a look at the GPUs, a round of the broker over what was seen, and its answers into the
//! channels.

use std::time::Duration;

use mgb_probe::wire::Reply;

use crate::broker::{Answer, OrderTo, Snapshot};
use crate::client::ClientId;
use crate::daemon::clock::computed;
use crate::daemon::server::Server;
use crate::ledger::TaskKey;

/// How long what was seen is good for granting: as long as it takes a client to use a grant, and others the
/// memory meanwhile.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_millis(1);

impl Server {
    /// Answers whoever can be answered.
    pub(crate) fn serve(&mut self, reclaiming: bool, now: Duration) {
        if self.rounds.are_brief(now) {
            return self.serve_briefly(reclaiming, now);
        }
        let began = computed();
        self.serve_wholly(reclaiming, now);
        let length = computed().saturating_sub(began);
        let (ended, waiting) = (self.now(), self.broker.waiting());
        self.rounds.was_whole(length, ended, waiting);
    }

    /// While requests wait that a whole round has left waiting: grants what has come free since, and what has
    /// come since and fits.
    fn serve_briefly(&mut self, reclaiming: bool, now: Duration) {
        let (mut snapshot, seen) = match self.rounds.take_seen(SNAPSHOT_TIMEOUT, now) {
            Some(young) if !reclaiming => young,
            _ => (self.sample(), now),
        };
        self.check_reclaims(reclaiming, &mut snapshot, now);
        let answers = self.broker.serve_newcomers(&mut snapshot, now);
        self.deliver(answers);
        self.rounds.was_brief(snapshot, seen);
    }

    fn serve_wholly(&mut self, reclaiming: bool, now: Duration) {
        let mut fresh = None;
        if let Some((remembered, seen)) = self.rounds.take_recent()
            && !reclaiming
        {
            // Most new requests find room; the fast path may use a snapshot up to 1 ms old.
            let is_young = now.saturating_sub(seen) < SNAPSHOT_TIMEOUT;
            let (mut snapshot, seen) = if is_young {
                (remembered, seen)
            } else {
                (self.sample(), now)
            };
            let answers = self.broker.serve_newcomers(&mut snapshot, now);
            self.deliver(answers);
            if !self.broker.waiting() && !self.broker.presses() {
                self.rounds.set_recent(snapshot, seen);
                return;
            }
            fresh = (!is_young).then_some(snapshot);
        }
        let to_leave = self.broker.to_leave();
        if !to_leave.is_empty() && self.take_leases_of(|client| to_leave.contains(&client)) {
            fresh = None;
        }
        let mut snapshot = fresh.unwrap_or_else(|| self.sample());
        self.check_reclaims(reclaiming, &mut snapshot, now);
        let answers = self.broker.serve(&mut snapshot, now);
        self.deliver(answers);
        if self.broker.waiting() && self.take_leases_of(|_| true) {
            snapshot = self.sample();
            let answers = self.broker.serve(&mut snapshot, now);
            self.deliver(answers);
        }
        let refused = self.broker.refuse_beyond_waiting(now);
        self.deliver(refused);
        if !self.broker.waiting() {
            self.rounds.set_recent(snapshot, now);
        }
        self.carry_orders();
    }

    /// If it is time to: takes back what the dead had, as far as the snapshot shows it free.
    fn check_reclaims(&mut self, is_time: bool, snapshot: &mut Snapshot, now: Duration) {
        if is_time && self.monitor.reclaim(&mut self.broker, now) {
            self.view.changed();
            *snapshot = self.sample();
        }
    }

    /// Carries to the clients what the broker has decided on.
    pub(crate) fn carry_orders(&mut self) {
        for OrderTo {
            client,
            number,
            order,
        } in self.broker.take_orders()
        {
            self.view.changed();
            if let Some(client) = self.clients.get(&client) {
                client.order(number, order);
            }
        }
    }

    /// A request waits, or memory is to leave: from here on none of these clients keeps a lease, and existing
    /// ones end. False: there was none.
    pub(crate) fn take_leases_of(&mut self, whose: impl Fn(ClientId) -> bool) -> bool {
        let mut taken = Vec::new();
        for client in self.clients.values_mut().filter(|client| whose(client.id)) {
            client.want(true);
            let tasks = client.take_leases().into_iter();
            taken.extend(tasks.map(|task| TaskKey {
                client: client.id,
                task,
            }));
        }
        for key in &taken {
            self.broker.take_lease(*key);
        }
        if !taken.is_empty() {
            self.view.changed();
        }
        !taken.is_empty()
    }

    /// Looks at the GPUs.
    pub(crate) fn sample(&mut self) -> Snapshot {
        let (mut snapshot, has_changed) =
            self.monitor
                .sample(self.node.as_ref(), &self.broker, &self.clients, self.now());
        snapshot.latency = self.latency_clients().collect();
        self.broker.saw_work(&snapshot, self.now());
        // To be shown, also where nobody is there.
        if has_changed {
            self.view.changed();
        }
        snapshot
    }

    /// Evens out the work of the GPUs while nobody waits.
    pub(crate) fn even_out(&mut self, now: Duration) {
        let mut snapshot = self.sample();
        if self.broker.may_balance() {
            snapshot.listening = self.clients.listening();
            self.broker.even_out(&snapshot, now);
            self.carry_orders();
        }
    }

    pub(crate) fn deliver(&mut self, answers: Vec<Answer>) {
        if !answers.is_empty() {
            self.view.changed();
        }
        for Answer { client, cell, reply } in &answers {
            let Some(client) = self.clients.get_mut(client) else {
                continue;
            };
            if matches!(reply, Reply::Granted { .. }) {
                self.restart.granted(client);
            }
            client.write(*cell, reply);
        }
        self.note(&answers);
        for Answer { client, cell, .. } in answers {
            self.clients.answered(client, cell);
        }
    }
}
