//! What is kept of a request that is held back ([`super::hold_back`]).

use std::time::Duration;

use mgb_probe::limited::Limited;
use mgb_probe::view::HeldBack;
use mgb_probe::wire::{Op, Request};

use super::waiting::Waiting;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;
use crate::quota::Owner;

/// A request that is held back.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) client: ClientId,
    pub(super) cell: usize,
    pub(super) request: Request,
    pub(super) since: Duration,
    pub(super) bytes: u64,
    /// GPUs that could serve it if none were drained.
    pub(super) fit: GpuSet,
    pub(super) why: Why,
}

/// Why a request is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// A person wants it.
    Person(HeldBack),
    /// The driver cannot reach any GPU that it could go to.
    Lost,
    /// Its user has as many processes on its GPUs as one of several users may have.
    Places,
    /// The GPUs that it could go to are kept for others.
    OthersGpus,
    /// With it, these would have more of that than they may have.
    Quota(Owner, Limited),
}

impl Held {
    pub(super) fn of(waiting: &Waiting, why: Why) -> Held {
        Held {
            client: waiting.client,
            cell: waiting.cell,
            request: waiting.request,
            since: waiting.since,
            bytes: waiting.bytes,
            fit: waiting.fit,
            why,
        }
    }

    pub(super) fn key(&self) -> TaskKey {
        TaskKey {
            client: self.client,
            task: self.request.task,
        }
    }

    pub(super) fn grows(&self) -> bool {
        self.request.op == Op::Grow
    }
}
