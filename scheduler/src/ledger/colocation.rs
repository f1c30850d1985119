//! Which processes are on which GPU: this decides whether a task can have one for itself.
//!
//! A process is on a GPU if it has room or a running task there. Its context alone disturbs nobody, and stays
//! until it ends: whoever waited for that would wait for the whole life of a neighbour. Nor does a task that
//! is swapped out, unless it is to be alone: its GPU is kept for it.

use super::{Holding, Ledger};
use crate::client::{ClientId, ClientSet};

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

/// The processes on a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnGpu {
    /// How many processes are there.
    pub count: u32,
    /// The clients there, with what dead ones left running.
    pub present: ClientSet,
    /// Clients whose tasks have it for themselves.
    pub alone: ClientSet,
    last: Option<ClientId>,
}

/// Which processes are on which GPU.
#[derive(Clone, Debug)]
pub struct Colocation(Vec<OnGpu>);

impl Colocation {
    /// As the ledger has it now.
    pub fn of(ledger: &Ledger) -> Colocation {
        let mut gpus = vec![OnGpu::default(); ledger.gpus().len()];
        // A client's tasks follow each other.
        for (key, held) in ledger.tasks().filter(|(_, held)| held.is_present()) {
            let on = &mut gpus[held.gpu];
            on.count += u32::from(on.last != Some(key.client));
            on.last = Some(key.client);
            on.present = on.present.with(key.client);
            if held.keeps_others_out() {
                on.alone = on.alone.with(key.client);
            }
        }
        for (key, arrival) in ledger.arrivals() {
            let on = &mut gpus[arrival.gpu];
            on.present = on.present.with(key.client);
        }
        for entry in ledger.reclaiming() {
            gpus[entry.gpu].present = ClientSet::Several;
        }
        Colocation(gpus)
    }

    /// The processes on the GPU.
    pub fn on(&self, gpu: usize) -> &OnGpu {
        &self.0[gpu]
    }

    /// Whether the GPU is closed to the client: a task of another process has it for itself.
    pub fn is_closed(&self, gpu: usize, client: ClientId) -> bool {
        self.0[gpu].alone.others_than(client)
    }
}
