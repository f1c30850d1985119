//! What all parts of the broker read: how it serves, the ledger, the clients, and what people want of GPUs and
//! processes.

mod expected;

use mgb_probe::Gpu;
use mgb_probe::need::ALONE;
use mgb_probe::wire::{ELSEWHERE, Op, Request, WHOLE_PROCESS};

use super::clients::Clients;
use super::control::Control;
use super::rules::ServingRules;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::{Holding, Ledger, TaskKey};

/// How the broker serves, the ledger, the clients, and what people want of GPUs and processes.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) rules: ServingRules,
    pub(super) ledger: Ledger,
    pub(super) clients: Clients,
    pub(super) control: Control,
}

impl Books {
    /// The books over idle GPUs.
    pub(super) fn new(gpus: Vec<Gpu>, rules: ServingRules) -> Books {
        Books {
            ledger: Ledger::new(gpus, rules.policy.places_processes()),
            rules,
            clients: Clients::default(),
            control: Control::default(),
        }
    }

    /// Whether a person has suspended the client's process.
    pub(super) fn is_suspended(&self, client: ClientId) -> bool {
        if self.control.suspends_none() {
            return false;
        }
        let entry = self.clients.get(client);
        entry.is_some_and(|entry| self.control.suspended_since(entry).is_some())
    }

    /// Whether the request is for a task that wants a GPU for itself. Policies that know no memory know none.
    pub(super) fn wants_alone(&self, request: &Request) -> bool {
        !self.ledger.blind() && request.op != Op::Grow && request.need.flags & ALONE != 0
    }

    /// Whether tasks are moved between GPUs.
    pub(super) fn balances(&self) -> bool {
        self.rules.moves
            && self.ledger.gpus().len() > 1
            && !self.ledger.blind()
            && !self.rules.policy.compute_hard()
    }

    /// Whether a task that asks for all that it has may move to a GPU that takes processes.
    pub(super) fn may_go_elsewhere(&self, key: TaskKey, request: &Request) -> bool {
        let task = self.ledger.task(key);
        let may = task.filter(|holding| holding.reserved == 0 && !holding.alone);
        let others = may.map_or(GpuSet::EMPTY, |holding| {
            holding.may_go
                & GpuSet::from_bits(request.gpus)
                & !GpuSet::of(holding.gpu)
                & !self.control.closed()
        });
        request.flags & ELSEWHERE != 0 && self.balances() && !others.is_empty()
    }
}

/// Whether a task may be moved while it runs.
pub(super) fn is_movable(holding: &Holding) -> bool {
    !holding.may_go.is_empty() && holding.running && !holding.alone && !holding.whole_process
}

/// Whether the request is for a process as a whole: a program that was not built with MGB.
pub(super) fn is_whole_process(request: &Request) -> bool {
    request.flags & WHOLE_PROCESS != 0
}

#[cfg(test)]
mod tests {
    use mgb_interface::Policy;

    use super::*;
    use crate::node::test_gpu;

    #[test]
    fn tasks_are_moved_where_there_is_more_than_one_gpu_and_the_rules_say_so() {
        let gpus = |count: u32| (0..count).map(|gpu| test_gpu(gpu, 100, 1)).collect();
        let mut books = Books::new(gpus(2), ServingRules::new(Policy::Mgb));
        assert!(books.balances());
        books.rules.moves = false;
        assert!(!books.balances());
        assert!(!Books::new(gpus(1), ServingRules::new(Policy::Mgb)).balances());
        assert!(!books.is_suspended(1), "there is no such client");
    }
}
