//! Memory that is to leave because a person wants it: gives the orders to those who are suspended, and to
//! those on drained GPUs, and knows what keeps it there.
//!
//! A suspended process is ordered at once, and lets the work that is under way finish before it obeys; on a
//! drained GPU only who is idle is ordered, since programs at work go on. Who could not obey is asked again
//! before long, for as long as the state holds.

use std::collections::BTreeSet;

use mgb_probe::view::{Hindrance, LeavingView};
use mgb_probe::wire::Order;

use super::Broker;
use crate::broker::orders::{LeavingBytes, leaving};
use crate::broker::round::Round;
use crate::client::ClientId;
use crate::eviction::LEAST_IDLE;

impl Broker {
    /// Whether there is memory that is to leave because a person wants it, or a request that its user's quota
    /// suspends: rounds are served then even if no request waits.
    pub fn presses(&self) -> bool {
        let mut suspended = self.queue.suspended.iter();
        !leaving(&self.books).is_empty()
            || self.orders.moves.has_wishes()
            || suspended.any(|request| request.reason.is_of_user())
    }

    /// The clients that have such memory, or share such a quota. They are told that others wait, and keep no
    /// lease.
    pub fn to_leave(&self) -> BTreeSet<ClientId> {
        let leaving = leaving(&self.books).into_keys().map(|(client, _)| client);
        let suspended = self.queue.suspended.iter();
        leaving
            .chain(self.accounts.pressed(&self.books, suspended))
            .collect()
    }

    /// Gives the orders that can be given now.
    pub(super) fn order_out(&mut self, round: &Round<'_>) {
        self.orders.leavings_mut().clear();
        let leaving = leaving(&self.books);
        if leaving.is_empty() {
            return;
        }
        self.give_up_orders(round.now);
        let mut host = round.host_room(&self.books).unwrap_or(0);
        for ((client, gpu), there) in leaving {
            if let Some(hindrance) = self.order_off(client, gpu, &there, &mut host, round) {
                self.orders.leavings_mut().note(client, gpu, hindrance);
            }
        }
    }

    /// Orders a client's memory off a GPU, while the host has room. Returns what keeps the memory there.
    fn order_off(
        &mut self,
        client: ClientId,
        gpu: usize,
        there: &LeavingBytes,
        host: &mut u64,
        round: &Round<'_>,
    ) -> Option<Hindrance> {
        let agent = *self.orders.agent(client)?;
        let is_suspended = self.books.is_suspended(client);
        let seen = round.snapshot.activity.iter();
        let idle = seen
            .filter(|seen| (seen.client, seen.gpu) == (client, gpu))
            .find_map(|seen| seen.idle);
        let bytes = there.bytes - there.declared;
        let may_swap = |broker: &Broker| {
            let uid = broker.books.clients.user(client);
            broker.accounts.may_swap(uid, bytes)
        };
        if bytes == 0 {
            Some(Hindrance::Declared)
        } else if !round.snapshot.listening.contains(&client) {
            Some(Hindrance::NoAgent)
        } else if self
            .orders
            .free_agent(client, round.snapshot, round.now)
            .is_none()
        {
            there.hindrance(&agent, idle)
        } else if !is_suspended && self.move_off(client, gpu, round) {
            None
        } else if bytes > *host {
            Some(Hindrance::HostMemory)
        } else if !may_swap(self) {
            Some(Hindrance::SwapQuota)
        } else if !is_suspended && idle.is_none_or(|length| length < LEAST_IDLE) {
            Some(Hindrance::Busy)
        } else {
            *host -= bytes;
            let on = gpu as u32;
            let order = if is_suspended {
                Order::Suspend { gpu: on }
            } else {
                Order::Evict { gpu: on }
            };
            self.give_order(client, order, bytes, round.now);
            there.hindrance(&agent, idle)
        }
    }

    /// What is to leave, and what keeps it there, for people.
    pub fn leaving_views(&self) -> Vec<LeavingView> {
        let view = |((client, gpu), there): ((ClientId, usize), LeavingBytes)| LeavingView {
            pid: self.books.clients.pid(client),
            uid: self.books.clients.user(client),
            gpu: gpu as u32,
            bytes: there.bytes,
            hindrance: self.orders.leavings().of(client, gpu),
        };
        leaving(&self.books).into_iter().map(view).collect()
    }
}
