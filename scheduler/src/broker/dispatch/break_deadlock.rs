//! Breaks deadlocks ([`crate::deadlock`]): tells the victims.

use mgb_probe::wire::Reply;

use super::Broker;
use crate::broker::answer::over_quota;
use crate::broker::queue::Waiting;
use crate::broker::round::Round;
use crate::client::ClientId;
use crate::deadlock::{self, GpuProcess, Remedy};
use crate::gpu_set::GpuSet;

impl Broker {
    /// Finds the way out of every deadlock there is, one victim at a time.
    pub(super) fn break_deadlocks(&mut self, round: &mut Round<'_>) {
        // Each round answers a request, so there are no more rounds than those.
        for _ in 0..=self.queue.pending.len() {
            let blocked = round.blocked(&self.books, &self.queue);
            if blocked.is_empty() {
                return;
            }
            let holders = self.holders_that_may_swap(round);
            match deadlock::resolve(&holders, &blocked, &round.rooms(&self.books)) {
                None => return,
                Some(Remedy::Swap { client, gpu, whose }) => {
                    self.reserve.claims.add(gpu, whose, client);
                    self.order_swap(client, gpu, client == whose, round);
                }
                Some(Remedy::Admit { client, gpu }) => {
                    if !self.admit(client, gpu, round) {
                        return;
                    }
                }
                Some(Remedy::Refuse { client }) => self.refuse_all(client, round),
            }
        }
    }

    /// Every process on every GPU; what its user may not have in the host cannot be swapped.
    fn holders_that_may_swap(&self, round: &Round<'_>) -> Vec<GpuProcess> {
        let mut holders = round.all_holders(&self.books, &self.queue, &self.orders);
        for holder in &mut holders {
            let uid = self.books.clients.user(holder.client);
            if !self.accounts.may_swap(uid, holder.swappable) {
                holder.swappable = 0;
            }
        }
        holders
    }

    /// Refuses all requests of a client.
    fn refuse_all(&mut self, client: ClientId, round: &mut Round<'_>) {
        let refused: Vec<Waiting> = self.queue.pending.of(client).cloned().collect();
        for waiting in refused {
            tracing::warn!(client, "everybody waits and nobody can be swapped: refused");
            self.history.count_refused();
            let uid = self.books.clients.user(client);
            let by_quota = self.accounts.beyond_swap(uid, self.swappable(client));
            let reply = by_quota.map_or(Reply::Deadlock, over_quota);
            round.answer(&mut self.queue, &waiting, reply);
        }
    }

    /// Bytes of the client's tasks that are not its whole process.
    fn swappable(&self, client: ClientId) -> u64 {
        let tasks = self.books.ledger.tasks_of(client);
        let parts = tasks.filter(|(_, holding)| !holding.whole_process);
        parts.map(|(_, holding)| holding.reserved).sum()
    }

    /// Lets tasks begin that have wanted a GPU for themselves very long, where all others on one only wait.
    pub(super) fn admit_aged(&mut self, round: &mut Round<'_>) {
        // No lease is left while a request waits that long.
        if !round.snapshot.leased.is_empty() {
            return;
        }
        loop {
            let blocked = round.blocked(&self.books, &self.queue);
            if !blocked.iter().any(|request| request.aged) {
                return;
            }
            let holders = round.all_holders(&self.books, &self.queue, &self.orders);
            let way = deadlock::beside(&holders, &blocked, &round.rooms(&self.books));
            let Some(Remedy::Admit { client, gpu }) = way else {
                return;
            };
            if !self.admit(client, gpu, round) {
                return;
            }
        }
    }

    /// Lets a process have its room on a GPU where others wait to grow, or where a task is to be alone.
    fn admit(&mut self, client: ClientId, gpu: usize, round: &mut Round<'_>) -> bool {
        let fits =
            |waiting: &&Waiting| waiting.gpus.contains(gpu) && self.could_be_admitted(waiting, gpu, round);
        let Some(mut waiting) = self.queue.pending.of(client).find(fits).cloned() else {
            return false;
        };
        // It has what it asks for, and no more.
        waiting.expected_bytes = waiting.bytes;
        tracing::info!(client, gpu, "those on the GPU only wait: let in beside them");
        if waiting.grows() {
            return self.grant_growth(&waiting, gpu, round);
        }
        self.grant(&waiting, gpu, round)
    }

    fn could_be_admitted(&self, waiting: &Waiting, gpu: usize, round: &Round<'_>) -> bool {
        let (books, accounts, ledger) = (&self.books, &self.accounts, &self.books.ledger);
        if waiting.grows() {
            round.has_room_to_grow(ledger, waiting, gpu) && accounts.may_grow(books, waiting)
        } else {
            ledger.cost(waiting.client, gpu, waiting.bytes) <= ledger.grantable(round.covered(), gpu)
                && !accounts.within_quota(books, waiting, GpuSet::of(gpu)).is_empty()
        }
    }

    fn order_swap(&mut self, client: ClientId, gpu: usize, for_itself: bool, round: &mut Round<'_>) {
        let ledger = &self.books.ledger;
        let has_memory = |waiting: &Waiting| {
            let task = ledger.task(waiting.key());
            task.is_some_and(|holding| holding.reserved > 0)
        };
        // Its growth there, if that task has memory of its own to give up.
        let own = self.queue.pending.of(client).find(|waiting| {
            !for_itself && waiting.grows() && waiting.gpus == GpuSet::of(gpu) && has_memory(waiting)
        });
        let on = gpu as u32;
        let (waiting, reply) = match own {
            Some(waiting) => (waiting.clone(), Reply::SwapOut { gpu: on }),
            None => match self.queue.pending.of(client).next() {
                Some(waiting) => (waiting.clone(), Reply::SwapOthers { gpu: on }),
                None => return,
            },
        };
        tracing::info!(
            client,
            gpu,
            reserved = ledger.reserved_on(client, gpu),
            "everybody on the GPU waits: the youngest makes room"
        );
        let thread = waiting.request.thread;
        self.orders.order_swap(ledger, client, thread, gpu);
        self.history.counts_mut().swapped_out += 1;
        round.answer(&mut self.queue, &waiting, reply);
    }
}
