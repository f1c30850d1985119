//! What of the ledger lasts beyond its process: which entries have changed since they were last taken down,
//! and how the entries of an earlier ledger come into a new one.

use super::Ledger;
use super::changes::{Changes, Touched};

impl Ledger {
    /// What has changed since this was last called.
    pub fn take_changes(&mut self) -> Changes {
        if self.touched.tasks.is_empty() && self.touched.contexts.is_empty() {
            return Changes::default();
        }
        let Touched { tasks, contexts } = std::mem::take(&mut self.touched);
        let task = |key| {
            let held = self.tasks.get(&key).cloned();
            (key, held.map(|held| (held, self.arrival(key))))
        };
        let context = |(client, gpu)| (client, gpu, self.contexts.get(&(client, gpu)).copied());
        Changes {
            tasks: tasks.into_iter().map(task).collect(),
            contexts: contexts.into_iter().map(context).collect(),
        }
    }

    /// Enters what an earlier ledger over the same GPUs had. It is charged whether or not it fits: it is
    /// there.
    pub fn bring_in(&mut self, entries: &Changes) {
        let is_here = |gpu: usize| gpu < self.gpus.len();
        for &(client, gpu, context) in &entries.contexts {
            if let Some(context) = context.filter(|_| is_here(gpu)) {
                self.contexts.insert((client, gpu), context);
                self.charges[gpu].contexts += context.bytes;
                self.charges[gpu].overhead += context.overhead;
                self.processes[gpu] += 1;
            }
        }
        for (key, entry) in &entries.tasks {
            let Some((held, arrival)) = entry.as_ref().filter(|(held, _)| is_here(held.gpu)) else {
                continue;
            };
            self.charges[held.gpu].put_on(held);
            self.tasks.insert(*key, held.clone());
            if let Some(arrival) = arrival.filter(|arrival| is_here(arrival.gpu)) {
                self.charges[arrival.gpu].reserved += arrival.bytes;
                self.arrivals.insert(*key, arrival);
            }
        }
        self.brought = self.charges.iter().map(|charges| charges.bytes()).collect();
        self.check();
    }
}
