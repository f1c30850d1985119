//! What people order: to suspend and resume processes and jobs, to drain GPUs, and to move tasks.

use std::time::Duration;

use mgb_probe::view::SuspendedView;
use mgb_probe::wire::{Op, Reply, Request};

use super::Broker;
use crate::broker::answer::bad;
use crate::broker::clients::{ClientState, Subject};
use crate::client::ClientId;
use crate::node::health::{Ailment, News};

impl Broker {
    /// Whether the GPU is drained: a person wants it, or it fails.
    pub fn is_drained(&self, gpu: usize) -> bool {
        self.books.control.drained().contains(gpu)
    }

    /// Whether anything is kept here that a person wants and that would be lost with the broker.
    pub fn has_drained(&self) -> bool {
        !self.books.control.drained().is_empty()
    }

    /// What is wrong with a GPU by the driver's word.
    pub fn ailments(&self, gpu: usize) -> &[Ailment] {
        self.books.control.ailments(gpu)
    }

    /// The driver says this of a GPU. Returns what is wrong with it that was not known.
    pub fn has_health(&mut self, gpu: usize, news: News, now: Duration) -> Vec<Ailment> {
        if gpu >= self.books.ledger.gpus().len() {
            return Vec::new();
        }
        let drains = self.books.rules.drains_failing;
        let (new, is_drained_now) = self.books.control.hear(gpu, news, drains);
        if is_drained_now {
            self.suspend_requests(now);
        }
        new
    }

    /// Whether a client's orders may be about everybody's programs.
    pub fn administers(&self, client: ClientId) -> bool {
        self.books.clients.administers(client)
    }

    /// The processes that are suspended, for people.
    pub fn suspended_views(&self, now: Duration) -> Vec<SuspendedView> {
        let control = &self.books.control;
        if control.suspends_none() {
            return Vec::new();
        }
        let view = |(client, entry): (ClientId, &ClientState)| {
            let since = control.suspended_since(entry)?;
            let mut evicted = vec![0; self.books.ledger.gpus().len()];
            for (_, holding) in self.books.ledger.tasks_of(client) {
                evicted[holding.gpu] += holding.evicted;
            }
            Some(SuspendedView {
                pid: entry.pid(),
                uid: entry.uid(),
                job: entry.job_text(),
                whole_job: control.suspends(Subject::Job(entry.job_of_user())),
                age_ms: now.saturating_sub(since).as_millis() as u64,
                evicted_bytes: evicted,
            })
        };
        self.books.clients.iter().filter_map(view).collect()
    }

    /// Does what a person wants.
    pub(super) fn control(&mut self, client: ClientId, request: &Request, now: Duration) -> Reply {
        if !self.books.clients.observes(client) {
            return bad("a program cannot ask for that");
        }
        if let Some(why) = self.books.clients.may_not_order(client, request) {
            return bad(why);
        }
        let reply = match request.op {
            Op::Suspend => self.suspend(client, request, now),
            Op::Resume => self.resume(client, request),
            Op::Drain => self.drain(request.task, true),
            Op::EndDrain => self.drain(request.task, false),
            Op::Move => self.move_process(request, now),
            _ => bad("that is no order of a person"),
        };
        if reply == Reply::Done {
            self.books.control.note_change();
        }
        // At once, so that whoever looks next sees which requests are suspended, and those that are not any more are
        // served.
        self.suspend_requests(now);
        reply
    }

    fn suspend(&mut self, client: ClientId, request: &Request, now: Duration) -> Reply {
        let subjects = self.books.clients.subjects(client, request);
        if subjects.is_empty() {
            return Reply::Unknown;
        }
        let mut reply = Reply::Unchanged;
        for subject in subjects {
            if self.books.control.suspend(subject, now) {
                tracing::info!(?subject, "suspended");
                self.clear_way_of(subject, now);
                reply = Reply::Done;
            }
        }
        reply
    }

    /// Nothing is kept for those that are to have nothing, and they are ordered out at once.
    fn clear_way_of(&mut self, subject: Subject, now: Duration) {
        for (client, _) in self.books.clients.of(subject) {
            self.orders.forget_failures(client, now);
            for gpu in 0..self.books.ledger.gpus().len() {
                self.books.ledger.forgo(gpu, Some(client));
            }
        }
    }

    fn resume(&mut self, client: ClientId, request: &Request) -> Reply {
        let subjects = self.books.clients.subjects(client, request);
        if subjects.is_empty() {
            return Reply::Unknown;
        }
        let (mut was, mut still) = (false, false);
        for subject in subjects {
            let (clients, control) = (&self.books.clients, &mut self.books.control);
            was |= control.resume(subject, clients);
            let mut entries = clients.of(subject);
            still |= entries.any(|(_, entry)| control.suspended_since(entry).is_some());
            tracing::info!(?subject, was, still, "resumed");
        }
        if still {
            return bad("its whole job is suspended: resume it with --job");
        }
        if was { Reply::Done } else { Reply::Unchanged }
    }

    /// Has a GPU drained, or used again.
    fn drain(&mut self, gpu: u64, drained: bool) -> Reply {
        if gpu >= self.books.ledger.gpus().len() as u64 {
            return Reply::Unknown;
        }
        if !self.books.control.drain(gpu as usize, drained) {
            return Reply::Unchanged;
        }
        tracing::info!(gpu, drained, "drain");
        Reply::Done
    }
}
