//! The tasks of a ledger, and how many each client has.

use std::collections::BTreeMap;
use std::ops::Deref;

use super::entries::{Holding, TaskKey};
use crate::client::ClientId;

/// Read as the map that it is; every change of how many there are goes through here.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    entries: BTreeMap<TaskKey, Holding>,
    /// Of clients that have any.
    counts: BTreeMap<ClientId, usize>,
}

impl Tasks {
    pub(super) fn insert(&mut self, key: TaskKey, held: Holding) {
        if self.entries.insert(key, held).is_none() {
            *self.counts.entry(key.client).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, key: &TaskKey) -> Option<Holding> {
        let held = self.entries.remove(key)?;
        if let Some(count) = self.counts.get_mut(&key.client) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key.client);
            }
        }
        Some(held)
    }

    pub(super) fn get_mut(&mut self, key: &TaskKey) -> Option<&mut Holding> {
        self.entries.get_mut(key)
    }

    pub(super) fn counts(&self) -> &BTreeMap<ClientId, usize> {
        &self.counts
    }
}

impl Deref for Tasks {
    type Target = BTreeMap<TaskKey, Holding>;

    fn deref(&self) -> &BTreeMap<TaskKey, Holding> {
        &self.entries
    }
}
