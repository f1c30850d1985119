//! One round over the queue: growth first, then what the policy grants, then
//! the way out of a deadlock.
//!
//! Growth goes before new tasks, since others wait for those who grow; among
//! growths the senior process goes first, and after the patience no junior
//! growth passes it on its GPU. On a stalled GPU (see [`crate::deadlock`])
//! nothing is kept for anybody: there only those who pass can set it going.
//!
//! While a task has a GPU for itself, nobody else grows or begins there.

use std::time::Duration;

use mgb_probe::wire::Reply;

use super::{Answer, Broker, Sight, Touch, Waiting, is_whole_process};
use crate::ledger::{Company, Holding};
use crate::policies::{GpuState, Placement, View, Waiter, warps_charged};

impl Broker {
    /// Answers whoever can be answered now. While anybody waits although there are
    /// leases, the caller takes those away and serves again.
    pub fn serve(&mut self, sight: &Sight, now: Duration) -> Vec<Answer> {
        let mut answers = Vec::new();
        if self.queue.is_empty() {
            return answers;
        }
        let mut covered = sight.covered.clone();
        covered.resize(self.ledger.gpus().len(), None);
        let stalled = self.stalled(sight, now);
        self.serve_growth(&mut covered, stalled, now, &mut answers);
        self.admit_aged(&mut covered, sight, now, &mut answers);
        self.serve_beginners(&mut covered, sight, stalled, now, &mut answers);
        if sight.leased.is_empty() && !self.ledger.blind() {
            self.break_deadlocks(&mut covered, sight, now, &mut answers);
        }
        answers
    }

    /// Bytes that can be granted: what the ledger has left, if the driver shows
    /// them free too.
    pub(super) fn grantable(&self, covered: &[Option<u64>], gpu: usize) -> u64 {
        if self.ledger.blind() {
            return u64::MAX;
        }
        self.ledger.room(gpu).min(covered[gpu].unwrap_or(u64::MAX))
    }

    fn serve_growth(
        &mut self,
        covered: &mut [Option<u64>],
        stalled: u64,
        now: Duration,
        answers: &mut Vec<Answer>,
    ) {
        let mut growing: Vec<Waiting> = self.queue.iter().filter(|w| w.grows()).cloned().collect();
        growing.sort_by_key(|waiting| (waiting.client, waiting.since));
        let mut kept = 0u64;
        let company = Company::of(&self.ledger);
        for waiting in growing {
            let Some(gpu) = self.ledger.task(waiting.key()).map(|held| held.gpu) else {
                continue;
            };
            if company.is_closed(gpu, waiting.client) {
                continue;
            }
            let fits = waiting.bytes <= self.grantable(covered, gpu);
            if kept & (1 << gpu) != 0 || !fits {
                if waiting.waits(now) >= self.rules.patience {
                    kept |= 1 << gpu & !stalled;
                }
                continue;
            }
            self.grant_growth(&waiting, gpu, covered, now, answers);
        }
    }

    /// Grants more to a task. False if the ledger has no room for it, which would be an error of the caller's.
    pub(super) fn grant_growth(
        &mut self,
        waiting: &Waiting,
        gpu: usize,
        covered: &mut [Option<u64>],
        now: Duration,
        answers: &mut Vec<Answer>,
    ) -> bool {
        match self.ledger.grow(waiting.key(), waiting.bytes) {
            Ok(reserved) => {
                spend(covered, gpu, waiting.bytes);
                self.counts.grown += 1;
                self.granted(waiting, gpu, reserved, now, answers);
                true
            }
            Err(error) => {
                tracing::error!(%error, "the ledger refused a growth that fits");
                false
            }
        }
    }

    fn serve_beginners(
        &mut self,
        covered: &mut [Option<u64>],
        sight: &Sight,
        stalled: u64,
        now: Duration,
        answers: &mut Vec<Answer>,
    ) {
        let beginners: Vec<Waiting> = self.queue.iter().filter(|w| !w.grows()).cloned().collect();
        if beginners.is_empty() {
            return;
        }
        let company = Company::of(&self.ledger);
        let gpus: Vec<GpuState> = (0..self.ledger.gpus().len())
            .map(|gpu| self.gpu_state(covered, sight, stalled, gpu, &company, now))
            .collect();
        let waiters: Vec<Waiter> = beginners
            .iter()
            .map(|waiting| self.waiter(waiting, &company, now))
            .collect();
        let view = View {
            gpus: &gpus,
            waiting: &waiters,
            patience: self.rules.patience,
        };
        for Placement { waiter, gpu } in self.rules.policy.place(&view) {
            self.grant(&beginners[waiter], gpu, covered, now, answers);
        }
    }

    /// Grants a task that begins. False if the ledger has no room for it, which would be an error of the caller's.
    pub(super) fn grant(
        &mut self,
        waiting: &Waiting,
        gpu: usize,
        covered: &mut [Option<u64>],
        now: Duration,
        answers: &mut Vec<Answer>,
    ) -> bool {
        let cost = self.ledger.cost(waiting.client, gpu, waiting.bytes);
        let max_warps = self.ledger.gpus()[gpu].max_warps;
        let holding = Holding {
            gpu,
            reserved: waiting.bytes,
            warps: warps_charged(waiting.request.need.warps(), max_warps),
            running: true,
            swapped: false,
            whole_process: is_whole_process(&waiting.request),
            alone: self.wants_alone(waiting),
            label: waiting.request.label.to_text(),
            granted: now,
        };
        if let Err(error) = self.ledger.grant(waiting.key(), holding) {
            tracing::error!(%error, "what does not fit was placed");
            return false;
        }
        spend(covered, gpu, cost);
        self.counts.granted += 1;
        let thread = waiting.request.thread;
        self.touched.insert(waiting.key(), Touch { thread, at: now });
        self.granted(waiting, gpu, waiting.bytes, now, answers);
        true
    }

    fn gpu_state(
        &self,
        covered: &[Option<u64>],
        sight: &Sight,
        stalled: u64,
        gpu: usize,
        company: &Company,
        now: Duration,
    ) -> GpuState {
        let resting = sight.leased.iter().filter_map(|key| self.ledger.task(*key));
        let resting: u64 = resting
            .filter(|held| held.gpu == gpu)
            .map(|held| held.warps)
            .sum();
        let info = &self.ledger.gpus()[gpu];
        let growing = |aged: bool| {
            self.queue.iter().any(|waiting| {
                waiting.grows()
                    && waiting.gpus == 1 << gpu
                    && !company.is_closed(gpu, waiting.client)
                    && (!aged || waiting.waits(now) >= self.rules.patience)
            })
        };
        GpuState {
            room: self.grantable(covered, gpu),
            context_bytes: info.context_bytes,
            max_warps: info.max_warps,
            warps: self.ledger.charges(gpu).warps.saturating_sub(resting),
            processes: self.ledger.processes(gpu),
            max_processes: self.rules.max_processes,
            present: company.count(gpu),
            growth_waits: growing(false),
            growth_aged: growing(true),
            stalled: stalled & (1 << gpu) != 0,
        }
    }

    fn waiter(&self, waiting: &Waiting, company: &Company, now: Duration) -> Waiter {
        let client = waiting.client;
        let alone = self.wants_alone(waiting);
        let is_closed =
            |&gpu: &usize| company.is_closed(gpu, client) || alone && company.is_shared(gpu, client);
        Waiter {
            client,
            gpus: waiting.gpus,
            contexts: (0..self.ledger.gpus().len())
                .filter(|&gpu| self.ledger.has_context(client, gpu))
                .fold(0, |mask, gpu| mask | 1 << gpu),
            alone,
            closed: (0..self.ledger.gpus().len())
                .filter(is_closed)
                .fold(0, |mask, gpu| mask | 1 << gpu),
            bytes: waiting.bytes,
            warps: waiting.request.need.warps(),
            waited: waiting.waits(now),
            holds: self.ledger.contexts().any(|(other, ..)| other == client),
        }
    }

    fn granted(
        &mut self,
        waiting: &Waiting,
        gpu: usize,
        reserved: u64,
        now: Duration,
        answers: &mut Vec<Answer>,
    ) {
        let pid = self.clients.get(&waiting.client).map_or(0, |client| client.pid);
        tracing::debug!(
            pid,
            task = waiting.request.task,
            gpu,
            bytes = waiting.bytes,
            growth = waiting.grows(),
            waited_us = waiting.waits(now).as_micros() as u64,
            "granted"
        );
        if let Some(client) = self.clients.get_mut(&waiting.client) {
            client.cannot_swap = 0;
        }
        self.answer(
            waiting,
            Reply::Granted {
                gpu: gpu as u32,
                reserved,
            },
            answers,
        );
    }

    /// Answers a waiting request, which leaves the queue.
    pub(super) fn answer(&mut self, waiting: &Waiting, reply: Reply, answers: &mut Vec<Answer>) {
        self.queue
            .retain(|other| (other.client, other.cell) != (waiting.client, waiting.cell));
        answers.push(Answer {
            client: waiting.client,
            cell: waiting.cell,
            reply,
        });
    }
}

fn spend(covered: &mut [Option<u64>], gpu: usize, bytes: u64) {
    covered[gpu] = covered[gpu].map(|left| left.saturating_sub(bytes));
}
