//! Answering: a look at the GPUs, a round of the broker over what was seen, and its answers into the
//! channels.

use std::time::Duration;

use mgb_probe::wire::Reply;

use super::server::Server;
use crate::broker::{Answer, Sight};
use crate::ledger::TaskKey;

/// How long what was seen is good for granting: as long as it takes a client to use a grant, and others the
/// memory meanwhile.
const YOUNG: Duration = Duration::from_millis(1);

impl Server {
    /// Answers whoever can be answered.
    pub(super) fn serve(&mut self, reclaiming: bool, now: Duration) {
        let mut fresh = None;
        if let Some((remembered, seen)) = self.recent.take()
            && !reclaiming
        {
            // Most of those who come find room, by what was seen a moment ago.
            let is_young = now.saturating_sub(seen) < YOUNG;
            let (mut sight, seen) = if is_young {
                (remembered, seen)
            } else {
                (self.look(), now)
            };
            let answers = self.broker.serve_newcomers(&mut sight, now);
            self.deliver(answers);
            if !self.broker.waiting() {
                self.recent = Some((sight, seen));
                return;
            }
            fresh = (!is_young).then_some(sight);
        }
        let mut sight = fresh.unwrap_or_else(|| self.look());
        if self.reclaims.check(&self.eyes.gpus, &mut self.broker, now) {
            self.changed = true;
            sight = self.look();
        }
        let answers = self.broker.serve(&mut sight, now);
        self.deliver(answers);
        if self.broker.waiting() && self.take_leases() {
            sight = self.look();
            let answers = self.broker.serve(&mut sight, now);
            self.deliver(answers);
        }
        self.recent = (!self.broker.waiting()).then_some((sight, now));
    }

    /// Somebody waits: from here on no client keeps a lease, and those there are end. False: there was none.
    fn take_leases(&mut self) -> bool {
        for client in self.clients.values_mut() {
            client.want(true);
        }
        let mut taken = Vec::new();
        for client in self.clients.values() {
            let tasks = client.take_leases().into_iter();
            taken.extend(tasks.map(|task| TaskKey {
                client: client.id,
                task,
            }));
        }
        for key in &taken {
            self.broker.take_lease(*key);
        }
        self.changed |= !taken.is_empty();
        !taken.is_empty()
    }

    /// Looks at the GPUs.
    pub(super) fn look(&mut self) -> Sight {
        let (ledger, now) = (self.broker.ledger(), self.now());
        let mut sight = self.eyes.look(self.node.as_ref(), ledger, &self.clients);
        sight.activity = self.activities.sample(ledger, &self.clients, now);
        sight
    }

    pub(super) fn deliver(&mut self, answers: Vec<Answer>) {
        self.changed |= !answers.is_empty();
        for Answer { client, cell, reply } in answers {
            if matches!(reply, Reply::Granted { .. }) {
                self.hold(client);
            }
            if let Some(client) = self.clients.get_mut(&client) {
                client.answer(cell, &reply);
            }
        }
    }
}
