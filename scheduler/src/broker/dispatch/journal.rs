//! What of the broker lasts beyond its process ([`crate::journal`]).
//!
//! Not among it: what was learned of tasks that run on, turns at the driver, and which room of the dead is
//! not free yet. The driver shows the last; the others are of the moment.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Broker;
use crate::client::ClientId;
use crate::journal::{Image, Standing};
use crate::ledger::{Changes, TaskKey};

impl Broker {
    /// What has changed since this was last called, to be written down before anybody is told of it.
    pub fn take_changes(&mut self) -> (Changes, Option<Standing>) {
        let changed = self.books.control.take_changed() | self.jobs.take_changed();
        let changes = self.books.ledger.take_changes();
        (changes, changed.then(|| self.standing()))
    }

    fn standing(&self) -> Standing {
        let mut standing = Standing::default();
        self.books.control.write(&mut standing);
        self.jobs.write(&mut standing, self.books.ledger.gpus().len());
        standing
    }

    /// Goes on where an earlier broker over the same GPUs was. Its clients have arrived again, under their
    /// old numbers; `orders`: the number of the last order that each was given.
    pub fn bring_in(&mut self, image: &Image, orders: &BTreeMap<ClientId, u32>, now: Duration) {
        self.books.ledger.bring_in(&image.ledger());
        let running: Vec<TaskKey> = self.books.ledger.tasks().map(|(key, _)| key).collect();
        for key in running {
            self.queue.touches.touch(key, 0, now);
            self.history.runs_on(&self.books, key, now);
        }
        self.orders.bring_in(orders, &self.books.ledger, now);
        // Who waits has waited before.
        self.accounts.count_waiting_from(now);
        let (standing, clients) = (&image.standing, &self.books.clients);
        let gpus = self.books.ledger.gpus().len();
        self.books.control.bring_in(standing, gpus, clients);
        self.jobs.bring_in(standing, clients);
    }
}
