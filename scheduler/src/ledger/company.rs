//! Who is on which GPU: what decides whether a task can have one for itself.
//!
//! A process is on a GPU if it has room or a running task there. Its context alone disturbs nobody, and stays until it
//! ends: whoever waited for that would wait for the whole life of a neighbour. Nor does a task that is swapped out, unless it
//! is to be alone: its GPU is kept for it.

use std::collections::BTreeSet;

use super::{ClientId, Holding, Ledger};

impl Holding {
    /// Whether its process is on the GPU by it.
    pub fn is_present(&self) -> bool {
        self.reserved > 0 || self.running && (self.alone || !self.swapped)
    }

    /// Whether it has the GPU for itself now.
    pub fn keeps_others_out(&self) -> bool {
        self.alone && self.running
    }
}

#[derive(Clone, Debug, Default)]
struct OnGpu {
    present: BTreeSet<ClientId>,
    alone: BTreeSet<ClientId>,
    reclaiming: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Company(Vec<OnGpu>);

impl Company {
    /// As the ledger has it now.
    pub fn of(ledger: &Ledger) -> Company {
        let mut gpus = vec![OnGpu::default(); ledger.gpus().len()];
        for (key, held) in ledger.tasks().filter(|(_, held)| held.is_present()) {
            gpus[held.gpu].present.insert(key.client);
            if held.keeps_others_out() {
                gpus[held.gpu].alone.insert(key.client);
            }
        }
        for entry in ledger.reclaiming() {
            gpus[entry.gpu].reclaiming = true;
        }
        Company(gpus)
    }

    /// Processes on the GPU.
    pub fn count(&self, gpu: usize) -> u32 {
        self.0[gpu].present.len() as u32
    }

    /// Whether the GPU is closed to the client: a task of another process has it for itself.
    pub fn is_closed(&self, gpu: usize, client: ClientId) -> bool {
        self.0[gpu].alone.iter().any(|&other| other != client)
    }

    /// Whether a task of the client would share the GPU with anybody, or with what a dead process left running.
    pub fn is_shared(&self, gpu: usize, client: ClientId) -> bool {
        let on = &self.0[gpu];
        on.reclaiming || on.present.iter().any(|&other| other != client)
    }
}
