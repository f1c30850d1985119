//! What users and groups have and may have, for people.

use std::collections::{BTreeMap, BTreeSet};

use mgb_probe::view::OwnerView;

use super::Broker;
use super::held::Why;
use crate::client::ClientId;
use crate::quota::{Amount, Limits, Owner};

/// Most owners in the view.
const MOST_SHOWN: usize = 256;

impl Broker {
    /// What everybody who has a program here has and may have.
    pub fn owner_views(&self) -> Vec<OwnerView> {
        let mut views: BTreeMap<Owner, OwnerView> = BTreeMap::new();
        for (&client, entry) in self.clients.iter().filter(|(_, entry)| !entry.looks) {
            let user = (Owner::User(entry.uid), Limits::default());
            let mine = self.amount_of_client(client);
            let (waiting, held) = self.waits_of(client);
            let limits = self.accounts.limits(entry.uid).iter().copied();
            let owners: BTreeMap<Owner, Limits> = [user].into_iter().chain(limits).collect();
            for (owner, limits) in owners {
                let view = views
                    .entry(owner)
                    .or_insert_with(|| self.owner_view(owner, limits));
                add(view, mine);
                view.waiting += waiting;
                view.held_back += held;
                if view.is_group && !view.members.contains(&entry.uid) {
                    view.members.push(entry.uid);
                }
            }
        }
        for (uid, amount) in self.accounts.reclaiming.values() {
            let owners = self.accounts.limits(*uid).iter().map(|(owner, _)| *owner);
            let owners: BTreeSet<Owner> = owners.chain([Owner::User(*uid)]).collect();
            for owner in owners {
                if let Some(view) = views.get_mut(&owner) {
                    add(view, *amount);
                }
            }
        }
        views.into_values().take(MOST_SHOWN).collect()
    }

    fn owner_view(&self, owner: Owner, limits: Limits) -> OwnerView {
        let (id, is_group) = match owner {
            Owner::User(uid) => (uid, false),
            Owner::Group(gid) => (gid, true),
        };
        let account = self.accounts.by_user.get(&id).filter(|_| !is_group);
        let most_time = account.and_then(|account| account.most_time);
        OwnerView {
            id,
            is_group,
            most_time_ms: most_time.map(|most| most.as_millis() as u64),
            ends_late: account.is_some_and(|account| account.ends_late),
            weight: if is_group { 0 } else { self.accounts.weight(id) },
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

    fn waits_of(&self, client: ClientId) -> (u32, u32) {
        let held = self.held.iter().filter(|held| held.client == client);
        let over = held.clone().filter(|held| matches!(held.why, Why::Quota(..)));
        let all = self.queue.of(client).count() + held.count();
        (all as u32, over.count() as u32)
    }
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
