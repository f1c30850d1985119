//! What users and groups have and may have, for people.

use std::collections::{BTreeMap, BTreeSet};

use mgb_probe::view::OwnerView;

use super::{Accounts, amounts};
use crate::broker::books::Books;
use crate::broker::queue::{RequestQueue, SuspendReason};
use crate::client::ClientId;
use crate::quota::{Amount, Limits, Owner};

/// Most users and groups in the view.
const MAX_OWNERS: usize = 256;

impl Accounts {
    /// What each user who has a program here has and may have.
    pub(in crate::broker) fn views(&self, books: &Books, queue: &RequestQueue) -> Vec<OwnerView> {
        let mut views: BTreeMap<Owner, OwnerView> = BTreeMap::new();
        for (client, entry) in books.clients.programs() {
            let uid = entry.uid();
            let user = (Owner::User(uid), Limits::default());
            let mine = amounts::of_client(books, client);
            let (waiting, suspended) = waits_of(queue, client);
            let limits = self.limits(uid).iter().copied();
            let owners: BTreeMap<Owner, Limits> = [user].into_iter().chain(limits).collect();
            for (owner, limits) in owners {
                let view = views.entry(owner).or_insert_with(|| self.view(owner, limits));
                add(view, mine);
                view.waiting += waiting;
                view.held_back += suspended;
                if view.is_group && !view.members.contains(&uid) {
                    view.members.push(uid);
                }
            }
        }
        for (uid, amount) in self.reclaiming.values() {
            let owners = self.limits(*uid).iter().map(|(owner, _)| *owner);
            let owners: BTreeSet<Owner> = owners.chain([Owner::User(*uid)]).collect();
            for owner in owners {
                if let Some(view) = views.get_mut(&owner) {
                    add(view, *amount);
                }
            }
        }
        views.into_values().take(MAX_OWNERS).collect()
    }

    fn view(&self, owner: Owner, limits: Limits) -> OwnerView {
        let (id, is_group) = match owner {
            Owner::User(uid) => (uid, false),
            Owner::Group(gid) => (gid, true),
        };
        let account = self.by_user.get(&id).filter(|_| !is_group);
        let most_time = account.and_then(|account| account.most_time);
        OwnerView {
            id,
            is_group,
            most_time_ms: most_time.map(|most| most.as_millis() as u64),
            ends_late: account.is_some_and(|account| account.ends_late),
            weight: if is_group { 0 } else { self.weight(id) },
            most_bytes: limits.bytes,
            most_tasks: limits.tasks,
            most_gpus: limits.gpus,
            most_processes: limits.processes,
            most_alone: limits.alone,
            most_swap_bytes: limits.swap,
            most_waiting: limits.waiting,
            ..OwnerView::default()
        }
    }
}

/// How many requests of a client wait, and how many of them a quota suspends.
fn waits_of(queue: &RequestQueue, client: ClientId) -> (u32, u32) {
    let suspended = queue.suspended.of(client);
    let is_over = |reason| matches!(reason, SuspendReason::Quota(..));
    let over = suspended.clone().filter(|suspended| is_over(suspended.reason));
    let all = queue.pending.of(client).count() + suspended.count();
    (all as u32, over.count() as u32)
}

fn add(view: &mut OwnerView, amount: Amount) {
    view.bytes = view.bytes.saturating_add(amount.bytes);
    view.tasks += amount.tasks;
    view.processes += amount.processes;
    view.alone += amount.alone;
    view.swap_bytes = view.swap_bytes.saturating_add(amount.swap);
    let on = amount.gpus.iter().map(|gpu| gpu as u32);
    let more: Vec<u32> = on.filter(|gpu| !view.gpus.contains(gpu)).collect();
    view.gpus.extend(more);
    view.gpus.sort_unstable();
}
