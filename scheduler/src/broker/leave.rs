//! Memory that is to leave because a person wants it: gives the orders to those who are suspended, and to
//! those on drained GPUs, and knows what keeps it there.
//!
//! A suspended process is ordered at once, and lets the work that is under way finish before it obeys; on a
//! drained GPU only who is idle is ordered, since programs at work go on. Who could not obey is asked again,
//! every [`super::evict::AGAIN`] at the latest, for as long as the state holds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mgb_probe::view::{Hindrance, LeavingView};
use mgb_probe::wire::Order;

use super::agent::Agent;
use super::{Broker, Snapshot};
use crate::client::ClientId;
use crate::eviction::LEAST_IDLE;

/// What a client has on a GPU where it is to have nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// Bytes of its tasks there.
    bytes: u64,
    /// Those of them that stay for as long as the process lives.
    declared: u64,
    /// Some of its memory, there or elsewhere, is in the host.
    evicted: bool,
}

impl Broker {
    /// Whether there is memory that is to leave because a person wants it, or a request that its user's quota
    /// holds back: rounds are served then even if no request waits.
    pub fn presses(&self) -> bool {
        !self.left().is_empty() || !self.wishes.is_empty() || self.presses_quota()
    }

    /// The clients that have such memory, or share such a quota. They are told that others wait, and keep no
    /// lease.
    pub fn to_leave(&self) -> BTreeSet<ClientId> {
        let left = self.left().into_keys().map(|(client, _)| client);
        left.chain(self.pressed_by_quota()).collect()
    }

    fn left(&self) -> BTreeMap<(ClientId, usize), Left> {
        let mut left = BTreeMap::<(ClientId, usize), Left>::new();
        if self.suspended.is_empty() && self.drained.is_empty() {
            return left;
        }
        for (key, held) in self.ledger.tasks() {
            if self.is_drained(held.gpu) || self.is_suspended(key.client) {
                let there = left.entry((key.client, held.gpu)).or_default();
                there.bytes += held.reserved;
                there.declared += if held.whole_process { held.reserved } else { 0 };
            }
        }
        left.retain(|_, there| there.bytes > 0);
        for ((client, _), there) in &mut left {
            there.evicted = self.ledger.tasks_of(*client).any(|(_, held)| held.evicted > 0);
        }
        left
    }

    /// Gives the orders that can be given now.
    pub(super) fn order_out(&mut self, snapshot: &Snapshot, now: Duration) {
        self.hindrances.clear();
        let left = self.left();
        if left.is_empty() {
            return;
        }
        self.give_up_orders(now);
        let mut host = self.host_room(snapshot).unwrap_or(0);
        for (&(client, gpu), there) in &left {
            let is_suspended = self.is_suspended(client);
            let seen = snapshot.activity.iter();
            let idle = seen
                .filter(|seen| (seen.client, seen.gpu) == (client, gpu))
                .find_map(|seen| seen.idle);
            let Some(entry) = self.clients.get(&client) else {
                continue;
            };
            let bytes = there.bytes - there.declared;
            let agent = entry.agent;
            let is_free = agent.given.is_none() && entry.swap_order.is_none();
            let hindrance = if bytes == 0 {
                Some(Hindrance::Declared)
            } else if !snapshot.listening.contains(&client) {
                Some(Hindrance::NoAgent)
            } else if !is_free || now < agent.not_before {
                what_came(&agent, there, idle)
            } else if !is_suspended && self.move_off(client, gpu, &snapshot.covered, snapshot, now) {
                None
            } else if bytes > host {
                Some(Hindrance::HostMemory)
            } else if !self.may_swap(client, bytes) {
                Some(Hindrance::SwapQuota)
            } else if !is_suspended && idle.is_none_or(|length| length < LEAST_IDLE) {
                Some(Hindrance::Busy)
            } else {
                let hindrance = what_came(&agent, there, idle);
                host -= bytes;
                let on = gpu as u32;
                let order = if is_suspended {
                    Order::Suspend { gpu: on }
                } else {
                    Order::Evict { gpu: on }
                };
                self.give_order(client, order, bytes, now);
                hindrance
            };
            if let Some(hindrance) = hindrance {
                self.hindrances.insert((client, gpu), hindrance);
            }
        }
    }

    /// What is to leave, and what keeps it there, for people.
    pub fn leaving_views(&self) -> Vec<LeavingView> {
        let view = |((client, gpu), there): ((ClientId, usize), Left)| LeavingView {
            pid: self.clients.get(&client).map_or(0, |entry| entry.pid),
            uid: self.user(client),
            gpu: gpu as u32,
            bytes: there.bytes,
            hindrance: self.hindrances.get(&(client, gpu)).copied(),
        };
        self.left().into_iter().map(view).collect()
    }
}

/// What the last orders say of why memory is still there.
fn what_came(agent: &Agent, there: &Left, idle: Option<Duration>) -> Option<Hindrance> {
    if agent.is_deaf && !there.evicted {
        return Some(Hindrance::NoAnswer);
    }
    let failed = agent.in_vain > 0 || agent.is_deaf;
    let why = if idle.is_none() {
        Hindrance::Busy
    } else {
        Hindrance::Stays
    };
    failed.then_some(why)
}
