//! What the broker remembers of programs: their overhead, and what outlives it.

use mgb_probe::wire::Request;

use super::waiting::is_whole_process;
use super::{Broker, Remembered};
use crate::client::ClientId;

impl Broker {
    /// The driver shows that the client's process has so many bytes on the GPU beside its tasks and an
    /// ordinary context.
    pub fn has_overhead(&mut self, client: ClientId, gpu: usize, bytes: u64) {
        self.ledger.has_taken(client, gpu, bytes);
        // Of a whole process this is what it takes beyond its own word, which it may change.
        if self.ledger.tasks_of(client).any(|(_, held)| held.whole_process) {
            return;
        }
        if let Some(program) = self.clients.get(&client).and_then(|entry| entry.program) {
            self.overheads.took(client, program, bytes);
        }
    }

    /// Bytes to keep for the process that asks, if this is for its first task. A plain program has said what
    /// it needs.
    pub(super) fn expected_overhead(&mut self, client: ClientId, request: &Request) -> u64 {
        if is_whole_process(request) || self.ledger.contexts_of(client).next().is_some() {
            return 0;
        }
        let program = self.clients.get(&client).and_then(|entry| entry.program);
        program.map_or(0, |program| self.overheads.of(program))
    }

    pub(super) fn overhead_ends(&mut self, client: ClientId) {
        let program = self.clients.get(&client).and_then(|entry| entry.program);
        self.overheads.ended(client, program);
    }
}

impl Broker {
    /// Begins with what an earlier broker remembered.
    pub fn recall(&mut self, remembered: &Remembered) {
        self.past.recall(remembered.mean, &remembered.tasks);
        self.overheads.recall(&remembered.programs);
    }

    /// Whether something was learned since it was last asked what is remembered.
    pub fn has_learned(&self) -> bool {
        self.past.has_learned() || self.overheads.has_learned()
    }

    /// What is remembered now.
    pub fn remembered(&mut self) -> Remembered {
        Remembered {
            mean: self.past.mean(),
            tasks: self.past.remembered(),
            programs: self.overheads.remembered(),
        }
    }
}
