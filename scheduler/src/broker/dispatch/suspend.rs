//! Suspends requests: because a person wants it, those of suspended processes and those that can only be
//! served by a drained GPU; those that can only be served by a GPU that the driver cannot reach; and those of
//! users who have as much as they may have.
//!
//! A request comes back as if it were asked then: what was known when it came may be different now. Only one
//! that a quota suspended keeps its place among its user's.

use std::time::Duration;

use mgb_probe::view::HeldBack;
use mgb_probe::wire::{Op, Request};

use super::Broker;
use crate::broker::queue::{SuspendReason, SuspendedRequest, Waiting, asked_later};
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;

impl Broker {
    /// Takes out of the queue what is to be suspended, and puts in again what is not any more. Called before
    /// anything is granted.
    pub(super) fn suspend_requests(&mut self, now: Duration) {
        self.refuse_without_gpu();
        let is_limited = self.count_what_users_have();
        let control = &self.books.control;
        if control.suspends_none()
            && control.closed().is_empty()
            && self.queue.suspended.is_empty()
            && !is_limited
            && !self.accounts.keeps_gpus()
        {
            self.widen();
            return;
        }
        for mut suspended in self.queue.suspended.take_all() {
            match self.reason_to_suspend(suspended.key(), &suspended.request, suspended.fit) {
                Some(reason) => {
                    suspended.reason = reason;
                    self.queue.suspended.add(suspended);
                }
                None if self.accounts.are_enough(&self.books, &self.queue, &suspended) => {
                    self.queue.suspended.add(suspended);
                }
                None => self.ask_again(&suspended, now),
            }
        }
        let suspended = |waiting: &Waiting| {
            let reason = self.reason_to_suspend(waiting.key(), &waiting.request, waiting.fit)?;
            Some(SuspendedRequest::of(waiting, reason))
        };
        let leave: Vec<SuspendedRequest> = self.queue.pending.iter().filter_map(suspended).collect();
        for suspended in leave {
            self.queue.pending.remove(suspended.client, suspended.cell);
            self.queue.suspended.add(suspended);
        }
        self.widen();
    }

    /// Counts what users have, where that is limited or scarce; false: no request can be suspended for it.
    fn count_what_users_have(&mut self) -> bool {
        let on_their_way = self.orders.on_their_way();
        let are_limited = self.accounts.count_amounts(&self.books, on_their_way);
        let waiting = self.queue.pending.waiters().len() + self.queue.suspended.len();
        self.accounts.count_places(&self.books, waiting) | are_limited
    }

    /// A request is considered again.
    pub(super) fn ask_again(&mut self, suspended: &SuspendedRequest, now: Duration) {
        let since = if suspended.reason.keeps_place() {
            suspended.since
        } else {
            now
        };
        let (client, cell) = (suspended.client, suspended.cell);
        if let Some(reply) = self.request(client, cell, suspended.asked_at(since), since) {
            self.queue.answer_later(client, cell, reply);
        }
    }

    fn reason_to_suspend(&self, key: TaskKey, request: &Request, fit: GpuSet) -> Option<SuspendReason> {
        let (books, accounts) = (&self.books, &self.accounts);
        if books.is_suspended(key.client) {
            return Some(SuspendReason::Person(HeldBack::Suspended));
        }
        let begins = request.op == Op::Begin;
        let fit = if begins {
            fit & accounts.usable(books.clients.user(key.client))
        } else {
            fit
        };
        if fit.is_empty() {
            return Some(SuspendReason::OthersGpus);
        }
        let (drained, open) = (
            books.control.drained(),
            accounts.open_among(books, key.client, fit),
        );
        let is_drained = (fit & !drained).is_empty();
        if begins && open.is_empty() && !is_drained {
            let is_lost = (fit & !books.control.closed()).is_empty();
            return Some(if is_lost {
                SuspendReason::Lost
            } else {
                SuspendReason::Places
            });
        }
        let is_closed = if request.op == Op::Grow {
            // Who is at work there goes on.
            let gpu = books.ledger.task(key)?.gpu;
            let is_there = books.ledger.reserved_on(key.client, gpu) > 0;
            drained.contains(gpu) && !is_there && !books.may_go_elsewhere(key, request)
        } else {
            is_drained
        };
        if is_closed {
            return Some(SuspendReason::Person(HeldBack::Drained));
        }
        accounts
            .over_quota(books, key, request, open)
            .map(|(owner, what)| SuspendReason::Quota(owner, what))
    }

    /// Has requests to begin go to all GPUs that are not drained and within their users' quotas, and to no
    /// others.
    fn widen(&mut self) {
        let (books, accounts) = (&self.books, &self.accounts);
        let narrows = !books.control.closed().is_empty()
            || accounts.keeps_gpus()
            || accounts.has_limits()
            || accounts.is_any_full(&books.rules);
        if !self.queue.pending.narrow(narrows) {
            return;
        }
        for at in 0..self.queue.pending.waiters().len() {
            let waiting = self.queue.pending.beginner(at);
            let open = accounts.open_among(books, waiting.client, waiting.fit);
            let gpus = accounts.within_quota(books, waiting, open);
            if gpus != waiting.gpus {
                let more = waiting.expected_bytes - waiting.bytes;
                let expected = books.expected_bytes(&waiting.request, gpus, more);
                self.queue.pending.send_to(at, gpus, expected);
            }
        }
    }

    /// Where a job's first process waits no more and was not placed, the next one is the first.
    pub(super) fn replace_leaders(&mut self, now: Duration) {
        let queue = &self.queue;
        let waits = |key| {
            let mut suspended = queue.suspended.iter();
            queue.pending.has(key)
                || suspended.any(|request| request.key() == key && request.reason.keeps_place())
        };
        for follower in self.jobs.replace_leaders(waits) {
            let (client, cell) = (follower.client, follower.cell);
            let request = asked_later(follower.request, now.saturating_sub(follower.since));
            if let Some(reply) = self.request(client, cell, request, now) {
                self.queue.answer_later(client, cell, reply);
            }
        }
    }
}
