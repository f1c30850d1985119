//! Which entries of the ledger have changed, and as what they are taken down.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::entries::{Arrival, ContextCharge, Holding, TaskKey};
use crate::client::ClientId;

/// Entries that have changed, by their names.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    pub(super) tasks: BTreeSet<TaskKey>,
    pub(super) contexts: BTreeSet<(ClientId, usize)>,
}

impl Touched {
    pub(super) fn task(&mut self, key: TaskKey) {
        self.tasks.insert(key);
    }

    pub(super) fn context(&mut self, client: ClientId, gpu: usize) {
        self.contexts.insert((client, gpu));
    }
}

/// A task, and the room that waits for it elsewhere.
pub type TaskHolding = (Holding, Option<Arrival>);

/// Entries as they are now; without one: it is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Tasks by client and number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<(TaskKey, Option<TaskHolding>)>,
    /// Contexts of clients, by GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<(ClientId, usize, Option<ContextCharge>)>,
}

impl Changes {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.contexts.is_empty()
    }
}
