//! What was left out of a node view.

use serde::{Deserialize, Serialize};

/// How many entries of each list were left out because they did not fit: whoever waits for something in the
/// view does not know of those. Each user has a budget of their own, so that none fills the view of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CutView {
    /// Tasks that were left out.
    pub tasks: u64,
    /// Waiting requests that were left out.
    pub queue: u64,
    /// Suspended processes that were left out.
    pub suspended: u64,
    /// Of memory that is to leave.
    pub leaving: u64,
    /// Jobs that were left out.
    pub jobs: u64,
    /// Of users and groups with a quota.
    pub owners: u64,
}

impl CutView {
    /// Whether nothing was left out.
    pub fn is_none(&self) -> bool {
        *self == CutView::default()
    }

    /// Whether the view has all that is to leave the GPUs.
    pub fn shows_all_that_leaves(&self) -> bool {
        self.suspended == 0 && self.leaving == 0
    }
}
