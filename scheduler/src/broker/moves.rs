//! What is kept of tasks that have moved, or are to.

use std::time::Duration;

use crate::ledger::TaskKey;

/// A person wants a task to go on, on another GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) key: TaskKey,
    pub(super) to: usize,
    pub(super) since: Duration,
}

/// How often a task has moved, and when last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moves {
    pub(super) times: u32,
    pub(super) last: Duration,
}
