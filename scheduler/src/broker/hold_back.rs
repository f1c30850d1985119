//! Holds requests back: because a person wants it, those of suspended processes and those that can only be
//! served by a drained GPU; those that can only be served by a GPU that the driver cannot reach; and those of
//! users who have as much as they may have ([`super::quota`], [`super::user_places`]).
//!
//! They are not in the queue, so nothing else in the broker sees them: nobody is swapped or evicted for them,
//! nothing is kept for them, they pass no patience, and a process that waits in one is part of no deadlock. A
//! request comes back as if it were asked then: what was known when it came may be different now. Only one
//! that a quota held back keeps its place among its user's.

use std::time::Duration;

use mgb_probe::view::HeldBack;
use mgb_probe::wire::{Op, Request};

use super::held::{Held, Why};
use super::{Answer, Broker, Waiting, reserved_on};
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;

impl Broker {
    /// Takes out of the queue what is to be held back, and puts in again what is not any more. Called before
    /// anything is granted.
    pub(super) fn hold_back(&mut self, now: Duration) {
        self.refuse_without_gpu();
        let is_limited = self.counts_amounts() | self.counts_places();
        if self.suspended.is_empty()
            && self.closed().is_empty()
            && self.held.is_empty()
            && !is_limited
            && !self.keeps_gpus()
        {
            self.widen();
            return;
        }
        for mut held in std::mem::take(&mut self.held) {
            match self.why_held(held.key(), &held.request, held.fit) {
                Some(why) => {
                    held.why = why;
                    self.held.push(held);
                }
                None if self.are_enough(&held) => self.held.push(held),
                None => self.let_go_on(&held, now),
            }
        }
        let held = |waiting: &Waiting| {
            let why = self.why_held(waiting.key(), &waiting.request, waiting.fit)?;
            Some(Held::of(waiting, why))
        };
        let leave: Vec<Held> = self.queue.iter().filter_map(held).collect();
        for held in leave {
            self.queue.remove(held.client, held.cell);
            self.held.push(held);
        }
        self.widen();
    }

    /// A request is considered again.
    pub(super) fn let_go_on(&mut self, held: &Held, now: Duration) {
        let since = match held.why {
            Why::Person(_) | Why::Lost => now,
            Why::Quota(..) | Why::Places | Why::OthersGpus => held.since,
        };
        let (client, cell) = (held.client, held.cell);
        if let Some(reply) = self.request(client, cell, held.request, since) {
            self.overdue.push(Answer { client, cell, reply });
        }
    }

    fn why_held(&self, key: TaskKey, request: &Request, fit: GpuSet) -> Option<Why> {
        if self.is_suspended(key.client) {
            return Some(Why::Person(HeldBack::Suspended));
        }
        let fit = if request.op == Op::Begin {
            fit & self.usable(key.client)
        } else {
            fit
        };
        if fit.is_empty() {
            return Some(Why::OthersGpus);
        }
        if request.op == Op::Begin
            && self.open_among(key.client, fit).is_empty()
            && !(fit & !self.drained).is_empty()
        {
            let is_lost = (fit & !self.closed()).is_empty();
            return Some(if is_lost { Why::Lost } else { Why::Places });
        }
        let is_closed = if request.op == Op::Grow {
            // Who is at work there goes on.
            let gpu = self.ledger.task(key)?.gpu;
            let is_there = reserved_on(&self.ledger, key.client, gpu) > 0;
            self.is_drained(gpu) && !is_there && !self.may_go_elsewhere(key, request)
        } else {
            (fit & !self.drained).is_empty()
        };
        if is_closed {
            return Some(Why::Person(HeldBack::Drained));
        }
        self.over_quota(key, request, self.open_among(key.client, fit))
            .map(|(owner, what)| Why::Quota(owner, what))
    }

    /// Of these GPUs, those that take a client's task. Where a process has a context on a GPU that is lost,
    /// it is to hear so of the driver, as soon as it can, and does not wait until the GPU is back: the
    /// context will not be.
    fn open_among(&self, client: ClientId, gpus: GpuSet) -> GpuSet {
        let gpus = gpus & self.usable(client);
        let open = gpus & !self.closed();
        if open.is_empty() {
            gpus & !self.drained & self.contexts_of(client)
        } else {
            self.with_place(client, open)
        }
    }

    /// Has requests to begin go to all GPUs that are not drained and within their users' quotas, and to no
    /// others.
    fn widen(&mut self) {
        let narrows =
            !self.closed().is_empty() || self.keeps_gpus() || self.has_limits() || self.is_any_full();
        if !narrows && !self.narrowed {
            return;
        }
        self.narrowed = narrows;
        for at in 0..self.queue.waiters().len() {
            let waiting = self.queue.beginner(at);
            let gpus = self.within_quota(waiting, self.open_among(waiting.client, waiting.fit));
            if gpus != waiting.gpus {
                let more = waiting.expected_bytes - waiting.bytes;
                let expected = self.expected_bytes(&waiting.request, gpus, more);
                self.queue.send_to(at, gpus, expected);
            }
        }
    }

    /// The client asks for nothing any more.
    pub(super) fn drop_held(&mut self, client: ClientId) {
        self.held.retain(|held| held.client != client);
    }

    /// Growths of a task that is over, which are held back, leave.
    pub(super) fn take_held_growths_of(&mut self, key: TaskKey) -> Vec<Held> {
        let is_its = |held: &mut Held| held.key() == key && held.grows();
        self.held.extract_if(.., is_its).collect()
    }

    /// Requests of a task that are held back leave; their cells.
    pub(super) fn take_held_of(&mut self, key: TaskKey) -> Vec<usize> {
        let leave = self.held.extract_if(.., |held| held.key() == key);
        leave.map(|held| held.cell).collect()
    }

    pub(super) fn is_held(&self, key: TaskKey) -> bool {
        self.held.iter().any(|held| held.key() == key)
    }
}
