//! A device's task at mgbd.

use mgb_probe::TaskId;
use parking_lot::Mutex;

use super::account::Account;

/// A device's task.
pub(super) struct Task {
    pub(super) id: TaskId,
    pub(super) gpu: u32,
    pub(super) account: Mutex<Account>,
    /// Held by the thread that asks mgbd: it expects one request of a task at a time.
    pub(super) growing: Mutex<()>,
}
