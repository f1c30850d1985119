//! Takes requests: what can be answered at once is, the rest goes into the queue.

use std::time::Duration;

use mgb_probe::need::ALONE;
use mgb_probe::wire::{MAKES_CONTEXT, Op, PROCESS_DEADLINE, Reply, Request};

use super::Broker;
use crate::Ledger;
use crate::broker::answer::bad;
use crate::broker::history::{Expectation, TaskKind};
use crate::broker::jobs::{Follow, Placing};
use crate::broker::queue::{QueuedRequest, SuspendReason, SuspendedRequest, Waiting};
use crate::broker::round;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;

impl Broker {
    /// Takes a request. `None`: it was put in the queue, and [`Broker::serve`]
    /// answers it.
    pub fn request(
        &mut self,
        client: ClientId,
        cell: usize,
        request: Request,
        now: Duration,
    ) -> Option<Reply> {
        let key = TaskKey {
            client,
            task: request.task,
        };
        match request.op {
            Op::Begin => self.begin(key, cell, request, now),
            Op::Grow => self.grow(key, cell, request, now),
            Op::Swapped => Some(self.swapped(key, request.bytes)),
            Op::GiveBack => Some(self.change(key, |ledger| ledger.shrink(key, request.bytes))),
            Op::Withdraw => Some(self.withdraw(key)),
            Op::Turn => {
                self.turns
                    .ask(client, cell, request.flags & MAKES_CONTEXT != 0, now);
                None
            }
            Op::Moved => Some(self.moved(key, now)),
            Op::Place => Some(self.place(client, &request)),
            Op::Expect => Some(self.expect(client, &request, now)),
            Op::Suspend | Op::Resume | Op::Drain | Op::EndDrain | Op::Move => {
                Some(self.control(client, &request, now))
            }
            // The server's to answer: the broker knows no classes.
            Op::BecomeLatency => Some(bad("the broker knows no classes")),
            Op::Obeyed => Some(self.obeyed(client, request.task, request.bytes, now)),
            Op::TurnOver => {
                self.turns.over(client);
                Some(Reply::Done)
            }
            Op::End => {
                if let Some(kind) = self.history.task_ends(&self.books, key, now) {
                    self.relearn(kind);
                }
                Some(self.change(key, |ledger| ledger.end(key, request.bytes)))
            }
        }
    }

    /// So many bytes of the task went to the host.
    fn swapped(&mut self, key: TaskKey, bytes: u64) -> Reply {
        if let Some(holding) = self.books.ledger.task(key) {
            self.orders.left(key.client, holding.gpu, bytes);
        }
        self.change(key, |ledger| ledger.swap(key, bytes))
    }

    fn change<E>(&mut self, key: TaskKey, change: impl FnOnce(&mut Ledger) -> Result<u64, E>) -> Reply {
        if change(&mut self.books.ledger).is_err() {
            return unknown(key.task);
        }
        self.forget_if_over(key);
        Reply::Done
    }

    /// The client does not want what the task waits for any more. It is told that nothing has changed.
    fn withdraw(&mut self, key: TaskKey) -> Reply {
        let cells = self.queue.withdraw(key).into_iter();
        for cell in cells.chain(self.jobs.withdraw(key)) {
            self.queue.answer_later(key.client, cell, Reply::Unchanged);
        }
        Reply::Done
    }

    /// Chooses GPUs for a job that uses several.
    fn place(&mut self, client: ClientId, request: &Request) -> Reply {
        let uid = self.books.clients.user(client);
        let usable = self.accounts.usable(uid);
        let reply = match self.jobs.place(&self.books, usable, client, request) {
            Placing::Answered(reply) => return reply,
            Placing::NoGpu => Reply::NoGpu,
            Placing::OthersGpus => self.accounts.none_usable(&self.books, uid, request),
        };
        self.history.count_refused();
        reply
    }

    fn begin(&mut self, key: TaskKey, cell: usize, mut request: Request, now: Duration) -> Option<Reply> {
        if let Some(why) = self.may_not_begin(key, &request) {
            return Some(bad(why));
        }
        let clients = &self.books.clients;
        match self.jobs.follow(clients, key, cell, &request, now) {
            Follow::IsPlaced => {}
            Follow::Waits => return None,
            Follow::Answered(reply) => return Some(reply),
        }
        self.lower_claims(key, &mut request);
        let (fit, open) = match self.gpus_for(key, cell, &request, now) {
            Ok(gpus) => gpus,
            Err(reply) => return reply,
        };
        if let Some(reply) = self.accounts.over_quota_alone(&self.books, key, &request, open) {
            self.history.count_refused();
            return Some(reply);
        }
        let Expectation {
            kind,
            lasts,
            is_known,
            grows,
            overhead,
        } = self.history.expectation(&self.books, key.client, &request);
        self.jobs.lead(&self.books.clients, key, &request);
        let is_of_process = request.flags & PROCESS_DEADLINE != 0;
        // With the program's deadline in mind all that it has before it counts.
        let whole = self.history.run_remains(&self.books, key.client, now);
        let whole = whole.filter(|_| is_of_process && self.books.rules.queue.by_deadline());
        let more = grows.saturating_add(overhead);
        let waiting = Waiting {
            queued: QueuedRequest {
                client: key.client,
                cell,
                request,
                since: now,
            },
            bytes: request.need.reserved_bytes(),
            expected_bytes: self.books.expected_bytes(&request, open, more),
            overhead,
            gpus: open,
            fit,
            kind,
            is_known: is_known || whole.is_some(),
            at_least: whole.unwrap_or_default(),
        };
        self.asks(&waiting);
        let waiter = round::waiter(&self.books, &waiting, lasts.max(waiting.at_least));
        self.queue.pending.begin(waiting, waiter);
        None
    }

    fn may_not_begin(&self, key: TaskKey, request: &Request) -> Option<&'static str> {
        let ledger = &self.books.ledger;
        if request.task == 0 || ledger.task(key).is_some() || self.queue.has(key) {
            return Some("that task number is taken, or 0");
        }
        if let Some(why) = self.accounts.has_too_many(&self.books, key.client) {
            return Some(why);
        }
        let is_known = (request.first as usize) < ledger.gpus().len();
        (!is_known).then_some("its first GPU is unknown")
    }

    /// A task has no GPU for itself and no higher priority than an administrator gives its user.
    fn lower_claims(&self, key: TaskKey, request: &mut Request) {
        let uid = self.books.clients.user(key.client);
        if request.need.flags & ALONE != 0 && !self.accounts.may_be_alone(uid) {
            tracing::info!(
                client = key.client,
                task = key.task,
                "its user may have no GPU for himself: it shares one"
            );
            request.need.flags &= !ALONE;
        }
        let most = self.accounts.max_priority(uid);
        if request.need.priority > most {
            tracing::debug!(client = key.client, most, "its user may have no higher priority");
            request.need.priority = most;
        }
    }

    /// The GPUs that can hold a task that begins, and those of them that its user may use. An error is the answer, or
    /// nothing if it waits until it is known what its user may use.
    fn gpus_for(
        &mut self,
        key: TaskKey,
        cell: usize,
        request: &Request,
        now: Duration,
    ) -> Result<(GpuSet, GpuSet), Option<Reply>> {
        let (bytes, ledger) = (request.need.reserved_bytes(), &self.books.ledger);
        let uid = self.books.clients.user(key.client);
        let asked = GpuSet::from_bits(request.gpus);
        let (allowed, may) = (asked & ledger.all_gpus(), self.accounts.usable(uid));
        let usable = allowed & may;
        if usable.is_empty() && !allowed.is_empty() {
            if self.accounts.is_provisional(uid) {
                self.suspend_until_known(key.client, cell, *request, now);
                return Err(None);
            }
            self.history.count_refused();
            return Err(Some(self.accounts.none_usable(&self.books, uid, request)));
        }
        let gpus = ledger.gpus();
        let Some(largest) = usable.iter().max_by_key(|&gpu| gpus[gpu].usable_bytes) else {
            self.history.count_refused();
            return Err(Some(Reply::NoGpu));
        };
        let fits = |gpu: &usize| bytes.saturating_add(gpus[*gpu].context_bytes) <= ledger.most_bytes(*gpu);
        let fit: GpuSet = allowed.iter().filter(fits).collect();
        if !(fit & may).is_empty() {
            return Ok((fit, fit & may));
        }
        let wanted = bytes.saturating_add(gpus[largest].context_bytes);
        let largest = gpus[largest].usable_bytes;
        if request.site != 0 {
            // A static task's need is advice: it asks again for what it really allocates.
            self.history.count_refused();
        } else {
            self.history.never_fits(&self.books, key.client, wanted, now);
        }
        Err(Some(Reply::NeverFits { wanted, largest }))
    }

    /// A request waits until it is known which GPUs its user may use.
    fn suspend_until_known(&mut self, client: ClientId, cell: usize, request: Request, since: Duration) {
        self.queue.suspended.add(SuspendedRequest {
            queued: QueuedRequest {
                client,
                cell,
                request,
                since,
            },
            bytes: request.need.reserved_bytes(),
            fit: GpuSet::from_bits(request.gpus),
            reason: SuspendReason::OthersGpus,
        });
    }

    fn grow(&mut self, key: TaskKey, cell: usize, request: Request, now: Duration) -> Option<Reply> {
        let Some(holding) = self.books.ledger.task(key) else {
            return Some(unknown(request.task));
        };
        if self.queue.has(key) {
            return Some(bad("the task waits already"));
        }
        let (gpu, reserved, bytes) = (holding.gpu, holding.reserved, request.bytes);
        let info = &self.books.ledger.gpus()[gpu];
        let largest = info.usable_bytes;
        let wanted = reserved.saturating_add(bytes).saturating_add(info.context_bytes);
        if wanted > self.books.ledger.most_bytes(gpu) {
            self.history.never_fits(&self.books, key.client, wanted, now);
            return Some(Reply::NeverFits { wanted, largest });
        }
        let there = GpuSet::of(gpu);
        if let Some(reply) = self.accounts.over_quota_alone(&self.books, key, &request, there) {
            self.history.count_refused();
            return Some(reply);
        }
        if bytes == 0 {
            return Some(Reply::Granted {
                gpu: gpu as u32,
                reserved,
            });
        }
        let waiting = Waiting {
            queued: QueuedRequest {
                client: key.client,
                cell,
                request,
                since: now,
            },
            bytes,
            expected_bytes: bytes,
            overhead: 0,
            gpus: there,
            fit: there,
            kind: None,
            is_known: false,
            at_least: Duration::ZERO,
        };
        self.asks(&waiting);
        self.queue.touches.touch(key, request.thread, now);
        self.queue.pending.grow(waiting);
        None
    }

    /// A task of this kind has ended: those that wait and are like it are expected to last as it did, and
    /// those of which nothing is known as long as tasks do on average.
    pub(super) fn relearn(&mut self, ended: TaskKind) {
        if self.books.rules.queue.by_deadline() {
            let history = &self.history;
            let mean = history.mean().unwrap_or(Duration::MAX);
            self.queue
                .pending
                .relearn(mean, ended, |kind| history.lasted(kind));
        }
    }

    /// A request is about to enter the queue.
    fn asks(&mut self, waiting: &Waiting) {
        let thread = waiting.request.thread;
        self.orders.asks_again(&self.books.ledger, waiting.client, thread);
    }
}

fn unknown(task: u64) -> Reply {
    bad(&format!("task {task} is not known"))
}
