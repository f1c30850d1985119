//! Headroom: what a running task is expected to need beyond what it has. It is charged as if it were
//! reserved, so that nobody else is placed there, and only the task itself can grow into it. Clients are not
//! told of it.
//!
//! It is a wish, as what is kept for a process's overhead is ([`super::ContextCharge`]): whoever finds that it is
//! in the way has the ledger forgo both. It ends with the task, and when the task's memory goes to the host,
//! and never comes back.

use super::{Holding, Ledger, LedgerError, TaskKey};
use crate::client::ClientId;

impl Holding {
    /// Bytes that it is charged.
    pub fn charged(&self) -> u64 {
        self.reserved.max(self.expected_bytes)
    }

    /// Of those, the bytes that it has not asked for yet.
    pub fn headroom(&self) -> u64 {
        self.charged() - self.reserved
    }
}

impl Ledger {
    /// Bytes of room that a task takes when it grows by `more`: what its headroom does not hold.
    pub fn beyond_headroom(&self, key: TaskKey, more: u64) -> u64 {
        more.saturating_sub(self.task(key).map_or(0, Holding::headroom))
    }

    /// What is kept for the client on the GPU: headroom of its tasks, and its own overhead.
    pub fn kept_for(&self, client: ClientId, gpu: usize) -> u64 {
        let here = self.tasks_of(client).filter(|(_, held)| held.gpu == gpu);
        let headroom: u64 = here.map(|(_, held)| held.headroom()).sum();
        headroom + self.overhead_of(client, gpu)
    }

    /// Nothing is kept any more on the GPU for this client, or for all.
    pub fn forgo(&mut self, gpu: usize, only: Option<ClientId>) {
        let concerned =
            |key: TaskKey, held: &Holding| held.gpu == gpu && only.is_none_or(|only| key.client == only);
        let concerned = self.tasks().filter(|(key, held)| concerned(*key, held));
        let keys: Vec<TaskKey> = concerned.map(|(key, _)| key).collect();
        for key in keys {
            // They are all there.
            let _ = self.alter(key, |held| held.expected_bytes = 0);
        }
        let concerned = |client: ClientId| only.is_none_or(|only| client == only);
        let there = self
            .contexts()
            .filter(|&(client, at, _)| at == gpu && concerned(client));
        let clients: Vec<ClientId> = there.map(|(client, ..)| client).collect();
        for client in clients {
            self.keep_at_most(client, gpu, 0);
        }
        self.check();
    }

    /// Changes what a task has, and the sums with it; the task as it is then.
    pub(super) fn alter(
        &mut self,
        key: TaskKey,
        change: impl FnOnce(&mut Holding),
    ) -> Result<&Holding, LedgerError> {
        self.touched.task(key);
        let holding = self.tasks.get_mut(&key).ok_or(LedgerError::Task(key, false))?;
        let charges = &mut self.charges[holding.gpu];
        charges.take_off(holding);
        change(holding);
        holding.peak = holding.peak.max(holding.reserved);
        charges.put_on(holding);
        Ok(holding)
    }
}
