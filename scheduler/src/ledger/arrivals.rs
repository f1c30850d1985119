//! Arrivals: room on a GPU for a task that is on its way there from another one. The task is charged on both
//! until it has arrived, or stays where it is.

use super::{Arrival, Ledger, LedgerError, TaskKey};

impl Ledger {
    /// Bytes of room that a task takes on another GPU: what it is charged, the context of its process if that
    /// has none there, and what the process has beside its tasks where it is.
    pub fn cost_of_arrival(&self, key: TaskKey, gpu: usize) -> Result<u64, LedgerError> {
        let held = self.tasks.get(&key).ok_or(LedgerError::Task(key, false))?;
        let cost = self.cost(key.client, gpu, held.charged());
        Ok(cost.saturating_add(self.overhead_there(key, held.gpu, gpu)))
    }

    fn overhead_there(&self, key: TaskKey, from: usize, gpu: usize) -> u64 {
        let there = self.contexts.get(&(key.client, from));
        match there.filter(|_| !self.has_context(key.client, gpu)) {
            Some(context) => context.overhead.saturating_add(context.taken),
            None => 0,
        }
    }

    /// Charges a GPU for a task that is to come there. One that is on its way already goes nowhere else: its
    /// memory may be on either of the two.
    pub fn expect_arrival(&mut self, key: TaskKey, gpu: usize, order: u32) -> Result<(), LedgerError> {
        if self.arrivals.contains_key(&key) {
            return Err(LedgerError::Task(key, true));
        }
        let cost = self.cost_of_arrival(key, gpu)?;
        self.admit(gpu, cost)?;
        let held = &self.tasks[&key];
        let (from, bytes) = (held.gpu, held.charged());
        if !self.has_context(key.client, gpu) {
            let overhead = self.overhead_there(key, from, gpu);
            self.make_context(key.client, gpu, overhead);
        }
        self.charges[gpu].reserved += bytes;
        self.arrivals.insert(key, Arrival { gpu, bytes, order });
        self.touched.task(key);
        self.check();
        Ok(())
    }

    /// The room that waits for a task, if it is on its way.
    pub fn arrival(&self, key: TaskKey) -> Option<Arrival> {
        self.arrivals.get(&key).copied()
    }

    /// All of them.
    pub fn arrivals(&self) -> impl Iterator<Item = (TaskKey, Arrival)> {
        self.arrivals.iter().map(|(key, arrival)| (*key, *arrival))
    }

    /// The task stays where it is.
    pub fn give_up_arrival(&mut self, key: TaskKey) {
        if let Some(arrival) = self.arrivals.remove(&key) {
            self.charges[arrival.gpu].reserved -= arrival.bytes;
            self.touched.task(key);
        }
        self.check();
    }

    /// The task has arrived; the GPUs from and to which it went.
    pub fn arrive(&mut self, key: TaskKey) -> Result<(usize, usize), LedgerError> {
        let arrival = self.arrival(key).ok_or(LedgerError::Task(key, false))?;
        self.give_up_arrival(key);
        self.relocate(key, arrival.gpu)
    }

    /// Charges another GPU for the task, which has nothing where it was.
    pub fn relocate(&mut self, key: TaskKey, gpu: usize) -> Result<(usize, usize), LedgerError> {
        let from = self.tasks.get(&key).ok_or(LedgerError::Task(key, false))?.gpu;
        let cost = self.cost_of_arrival(key, gpu)?;
        self.admit(gpu, cost)?;
        if !self.has_context(key.client, gpu) {
            let overhead = self.overhead_there(key, from, gpu);
            self.make_context(key.client, gpu, overhead);
        }
        self.touched.task(key);
        if let Some(held) = self.tasks.get_mut(&key) {
            self.charges[from].take_off(held);
            held.gpu = gpu;
            self.charges[gpu].put_on(held);
        }
        self.check();
        Ok((from, gpu))
    }
}
