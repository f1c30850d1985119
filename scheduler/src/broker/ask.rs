//! Takes requests: what can be answered at once is, the rest goes into the queue.

use std::time::Duration;

use mgb_probe::need::ALONE;
use mgb_probe::wire::{MAKES_CONTEXT, Op, Reply, Request, Text};

use super::follow::Follow;
use super::past::Past;
use super::{Answer, Broker, Touch, Waiting, reserved_on};
use crate::Ledger;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;

/// Most tasks that all clients of one of several users can have in the ledger at once. A task costs mgbd
/// 1.6 KiB with all that is kept of it (the ledger, the journal and its image, what it learns), so that these
/// take 3.2 MiB.
/// Each round of decisions goes through all of them: beside 65,536, grants took others 21 ms, not 0.1 ms.
const MAX_TASKS_OF_USER: usize = 2 << 10;

/// The same where there is one user, who takes nobody's room or time but his own: what an honest program
/// never comes near.
const MAX_TASKS_ALONE: usize = 16 << 10;

/// Tasks that each client may have beside: a program with a few must not fail because of others.
const FEW_TASKS: usize = 16;

/// Most bytes in one request under a policy that knows no memory: more than any GPU has, so that the program
/// that asks could not be served in any case.
const MOST_BYTES: u64 = 1 << 50;

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
            Op::Swapped => Some(self.change(key, request, |ledger| ledger.swap(key, request.bytes))),
            Op::GiveBack => Some(self.change(key, request, |ledger| ledger.shrink(key, request.bytes))),
            Op::Withdraw => {
                self.withdraw(key);
                Some(Reply::Done)
            }
            Op::Turn => {
                self.turns
                    .ask(client, cell, request.flags & MAKES_CONTEXT != 0, now);
                None
            }
            Op::Moved => Some(self.moved(key, now)),
            Op::Place => Some(self.place(client, &request)),
            Op::Suspend | Op::Resume | Op::Drain | Op::EndDrain | Op::Move => {
                Some(self.control(client, &request, now))
            }
            Op::Obeyed => Some(self.obeyed(client, request.task, request.bytes, now)),
            Op::TurnOver => {
                self.turns.over(client);
                Some(Reply::Done)
            }
            Op::End => {
                if let Some(held) = self.ledger.task(key) {
                    let (lasted, runs) = (now.saturating_sub(held.granted), held.running);
                    self.work_ended.insert(held.gpu, now);
                    self.past.ended(key, lasted);
                    if runs {
                        self.held_for(client, lasted, now);
                    }
                }
                Some(self.change(key, request, |ledger| ledger.end(key, request.bytes)))
            }
        }
    }

    fn change<E>(
        &mut self,
        key: TaskKey,
        request: Request,
        change: impl FnOnce(&mut Ledger) -> Result<u64, E>,
    ) -> Reply {
        if change(&mut self.ledger).is_err() {
            return unknown(request.task);
        }
        self.forget_if_over(key);
        Reply::Done
    }

    /// Drops what is kept of a task that has left the ledger. A growth of it that waits is answered: one
    /// thread can ask for more while another ends the task.
    pub(super) fn forget_if_over(&mut self, key: TaskKey) {
        if self.ledger.task(key).is_some() {
            return;
        }
        self.touched.remove(&key);
        self.moves.remove(&key);
        let waiting = self.queue.take_growths_of(key).into_iter();
        let waiting = waiting.map(|waiting| (waiting.client, waiting.cell));
        let held = self.take_held_growths_of(key).into_iter();
        let cells: Vec<_> = waiting.chain(held.map(|held| (held.client, held.cell))).collect();
        for (client, cell) in cells {
            self.overdue.push(Answer {
                client,
                cell,
                reply: bad("the task ended while it waited to grow"),
            });
        }
    }

    /// The client does not want what the task waits for any more. It is told that nothing has changed.
    fn withdraw(&mut self, key: TaskKey) {
        let client = key.client;
        let waiting = self.queue.of(client).filter(|waiting| waiting.key() == key);
        let mut cells: Vec<usize> = waiting.map(|waiting| waiting.cell).collect();
        for &cell in &cells {
            self.queue.remove(client, cell);
        }
        cells.extend(self.take_held_of(key));
        cells.extend(self.jobs.take_follower(key));
        for cell in cells {
            self.overdue.push(Answer {
                client,
                cell,
                reply: Reply::Unchanged,
            });
        }
    }

    fn begin(&mut self, key: TaskKey, cell: usize, mut request: Request, now: Duration) -> Option<Reply> {
        if request.task == 0 || self.ledger.task(key).is_some() || self.is_queued(key) {
            return Some(bad("that task number is taken, or 0"));
        }
        if let Some(why) = self.has_too_many(key.client) {
            return Some(bad(why));
        }
        if request.first as usize >= self.ledger.gpus().len() {
            return Some(bad("its first GPU is unknown"));
        }
        match self.follow(key, cell, &request, now) {
            Follow::IsPlaced => {}
            Follow::Waits => return None,
            Follow::Answered(reply) => return Some(reply),
        }
        if request.need.flags & ALONE != 0 && !self.may_be_alone(key.client) {
            tracing::info!(
                client = key.client,
                task = key.task,
                "its user may have no GPU for himself: it shares one"
            );
            request.need.flags &= !ALONE;
        }
        self.lower_priority(key, &mut request);
        let bytes = request.need.reserved_bytes();
        let gpus = self.ledger.gpus();
        let asked = GpuSet::from_bits(request.gpus);
        let allowed: Vec<usize> = (0..gpus.len()).filter(|gpu| asked.contains(gpu)).collect();
        let may = self.usable(key.client);
        let usable: Vec<usize> = allowed.iter().copied().filter(|gpu| may.contains(gpu)).collect();
        if usable.is_empty() && !allowed.is_empty() {
            if self.is_provisional(key.client) {
                self.hold_until_known(key.client, cell, request, asked, now);
                return None;
            }
            self.counts.refused += 1;
            return Some(self.none_usable(key.client, &request));
        }
        let Some(&largest) = usable.iter().max_by_key(|&&gpu| gpus[gpu].usable_bytes) else {
            self.counts.refused += 1;
            return Some(Reply::NoGpu);
        };
        let fit: GpuSet = allowed
            .iter()
            .filter(|&&gpu| bytes.saturating_add(gpus[gpu].context_bytes) <= self.most_bytes(gpu))
            .copied()
            .collect();
        let open = fit & may;
        if open.is_empty() {
            let (context, usable) = (gpus[largest].context_bytes, gpus[largest].usable_bytes);
            let wanted = bytes.saturating_add(context);
            if request.site != 0 {
                // A static task's need is advice: it asks again for what it really allocates.
                self.counts.refused += 1;
                return Some(Reply::NeverFits {
                    wanted,
                    largest: usable,
                });
            }
            return Some(self.never_fits(key.client, wanted, usable, now));
        }
        if let Some(reply) = self.over_quota_alone(key, &request, open) {
            self.counts.refused += 1;
            return Some(reply);
        }
        let program = self.clients.get(&key.client).and_then(|entry| entry.program);
        let which = program.map(|program| Past::which(program, &request));
        let past = which.as_ref().and_then(|which| self.past.of(which));
        let lasts = past.and_then(|past| past.lasted).or(self.past.mean());
        let grows = past.map_or(0, |past| past.grown_bytes);
        let overhead = self.expected_overhead(key.client, &request);
        self.lead(key, &request);
        self.enqueue(
            Waiting {
                client: key.client,
                cell,
                request,
                since: now,
                bytes,
                expected_bytes: self.expected_bytes(&request, open, grows.saturating_add(overhead)),
                overhead,
                gpus: open,
                fit,
                which,
            },
            lasts.unwrap_or(Duration::MAX),
        );
        None
    }

    /// A task has no higher priority than an administrator gives its user.
    fn lower_priority(&self, key: TaskKey, request: &mut Request) {
        let account = self.accounts.by_user.get(&self.user(key.client));
        let most = account.and_then(|account| account.most_priority);
        let most = most.unwrap_or(u32::MAX);
        if request.need.priority > most {
            tracing::debug!(client = key.client, most, "its user may have no higher priority");
            request.need.priority = most;
        }
    }

    fn never_fits(&mut self, client: ClientId, wanted: u64, largest: u64, now: Duration) -> Reply {
        self.counts.refused += 1;
        self.refused_to(client, wanted, now);
        Reply::NeverFits { wanted, largest }
    }

    /// Why a client can begin no more tasks; `None`: it can.
    fn has_too_many(&self, client: ClientId) -> Option<&'static str> {
        let most = if self.has_several_users() {
            MAX_TASKS_OF_USER
        } else {
            MAX_TASKS_ALONE
        };
        // Most of the time all users together have fewer.
        if self.ledger.count_of(client) < FEW_TASKS || self.ledger.count() < most {
            return None;
        }
        let user = |client: ClientId| self.clients.get(&client).map(|entry| entry.uid);
        let own = user(client);
        let others = self.ledger.counts().filter(|(of, _)| user(*of) == own);
        let of_user: usize = others.map(|(_, count)| count).sum();
        (of_user >= most).then_some("the user has too many tasks at once")
    }

    fn grow(&mut self, key: TaskKey, cell: usize, request: Request, now: Duration) -> Option<Reply> {
        let Some(holding) = self.ledger.task(key) else {
            return Some(unknown(request.task));
        };
        if self.is_queued(key) {
            return Some(bad("the task waits already"));
        }
        let (gpu, reserved) = (holding.gpu, holding.reserved);
        let bytes = request.bytes;
        let usable = self.ledger.gpus()[gpu].usable_bytes;
        let whole = reserved
            .saturating_add(bytes)
            .saturating_add(self.ledger.gpus()[gpu].context_bytes);
        if whole > self.most_bytes(gpu) {
            return Some(self.never_fits(key.client, whole, usable, now));
        }
        if let Some(reply) = self.over_quota_alone(key, &request, GpuSet::of(gpu)) {
            self.counts.refused += 1;
            return Some(reply);
        }
        if bytes == 0 {
            return Some(Reply::Granted {
                gpu: gpu as u32,
                reserved,
            });
        }
        self.enqueue(
            Waiting {
                client: key.client,
                cell,
                request,
                since: now,
                bytes,
                expected_bytes: bytes,
                overhead: 0,
                gpus: GpuSet::of(gpu),
                fit: GpuSet::of(gpu),
                which: None,
            },
            Duration::MAX,
        );
        None
    }

    /// Bytes that a process may have on the GPU, its context included.
    fn most_bytes(&self, gpu: usize) -> u64 {
        if self.ledger.blind() {
            MOST_BYTES
        } else {
            self.ledger.gpus()[gpu].usable_bytes
        }
    }

    pub(super) fn is_queued(&self, key: TaskKey) -> bool {
        self.queue.has(key) || self.is_held(key)
    }

    fn enqueue(&mut self, waiting: Waiting, expected: Duration) {
        let thread = waiting.request.thread;
        if let Some(client) = self.clients.get_mut(&waiting.client)
            && let Some(order) = client.swap_order.filter(|order| order.thread == thread)
        {
            // It asks again: did it make room?
            client.swap_order = None;
            let reserved = reserved_on(&self.ledger, waiting.client, order.gpu);
            if reserved >= order.reserved {
                client.cannot_swap.insert(order.gpu);
            } else {
                client.cannot_swap.remove(order.gpu);
            }
        }
        if !waiting.grows() {
            let waiter = self.waiter(&waiting, expected);
            self.queue.begin(waiting, waiter);
        } else {
            self.touched.insert(
                waiting.key(),
                Touch {
                    thread,
                    at: waiting.since,
                },
            );
            self.queue.grow(waiting);
        }
    }
}

/// Why a request makes no sense.
pub(super) fn bad(text: &str) -> Reply {
    Reply::Bad(Text::new(text))
}

fn unknown(task: u64) -> Reply {
    bad(&format!("task {task} is not known"))
}
