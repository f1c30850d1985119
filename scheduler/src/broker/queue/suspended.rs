//! Requests that are suspended: because a person wants it, those of suspended processes and those that can only be
//! served by a drained GPU; those that can only be served by a GPU that the driver cannot reach; and those of
//! users who have as much as they may have.
//!
//! They are not among those that are scheduled ([`super::Pending`]): no process is swapped or evicted for them,
//! nothing is kept for them, their time does not count, and a process that waits in one is part of no deadlock.

use std::ops::Deref;

use mgb_probe::limited::Limited;
use mgb_probe::view::HeldBack;

use super::queued::QueuedRequest;
use super::waiting::Waiting;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;
use crate::quota::Owner;

/// A request that is suspended.
#[derive(Clone, Debug)]
pub(in crate::broker) struct SuspendedRequest {
    pub(in crate::broker) queued: QueuedRequest,
    pub(in crate::broker) bytes: u64,
    /// GPUs that could serve it if none were drained.
    pub(in crate::broker) fit: GpuSet,
    pub(in crate::broker) reason: SuspendReason,
}

/// Why a request is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) enum SuspendReason {
    /// A person has suspended the process, or drained the GPU.
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

impl SuspendReason {
    /// Whether the request waits for what others of its user have.
    pub(in crate::broker) fn is_of_user(self) -> bool {
        matches!(self, SuspendReason::Quota(..) | SuspendReason::Places)
    }

    /// Whether a request keeps its place among its user's, instead of coming back as if it were asked then.
    pub(in crate::broker) fn keeps_place(self) -> bool {
        self.is_of_user() || self == SuspendReason::OthersGpus
    }
}

impl Deref for SuspendedRequest {
    type Target = QueuedRequest;

    fn deref(&self) -> &QueuedRequest {
        &self.queued
    }
}

impl SuspendedRequest {
    pub(in crate::broker) fn of(waiting: &Waiting, reason: SuspendReason) -> SuspendedRequest {
        SuspendedRequest {
            queued: waiting.queued.clone(),
            bytes: waiting.bytes,
            fit: waiting.fit,
            reason,
        }
    }
}

/// The requests that are suspended.
#[derive(Debug, Default)]
pub(in crate::broker) struct SuspendedRequests(Vec<SuspendedRequest>);

impl SuspendedRequests {
    pub(in crate::broker) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::broker) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::broker) fn iter(&self) -> impl Iterator<Item = &SuspendedRequest> + Clone {
        self.0.iter()
    }

    /// The suspended requests of a client.
    pub(in crate::broker) fn of(&self, client: ClientId) -> impl Iterator<Item = &SuspendedRequest> + Clone {
        self.iter().filter(move |request| request.client == client)
    }

    pub(in crate::broker) fn has(&self, key: TaskKey) -> bool {
        self.0.iter().any(|request| request.key() == key)
    }

    /// Adds a request.
    pub(in crate::broker) fn add(&mut self, request: SuspendedRequest) {
        self.0.push(request);
    }

    /// All of them leave, to be looked at again.
    pub(in crate::broker) fn take_all(&mut self) -> Vec<SuspendedRequest> {
        std::mem::take(&mut self.0)
    }

    /// The first request of which that is true leaves.
    pub(in crate::broker) fn take_first(
        &mut self,
        is_meant: impl Fn(&SuspendedRequest) -> bool,
    ) -> Option<SuspendedRequest> {
        let at = self.0.iter().position(is_meant)?;
        Some(self.0.remove(at))
    }

    /// The growths of a task leave; their cells.
    pub(super) fn take_growths_of(&mut self, key: TaskKey) -> Vec<usize> {
        let leave = self
            .0
            .extract_if(.., |request| request.key() == key && request.grows());
        leave.map(|request| request.cell).collect()
    }

    /// The requests of a task leave; their cells.
    pub(super) fn take_of(&mut self, key: TaskKey) -> Vec<usize> {
        let leave = self.0.extract_if(.., |request| request.key() == key);
        leave.map(|request| request.cell).collect()
    }

    /// The request of the client's cell leaves.
    pub(super) fn remove(&mut self, client: ClientId, cell: usize) {
        self.0
            .retain(|request| (request.client, request.cell) != (client, cell));
    }

    /// The requests of a client leave.
    pub(super) fn hang_up(&mut self, client: ClientId) {
        self.0.retain(|request| request.client != client);
    }
}
