//! The devices' tasks at mgbd.

use std::collections::HashMap;

use mgb_probe::TaskId;
use parking_lot::{Mutex, RwLock};

use super::ledger_account::Account;
use crate::session::Session;

/// A device's task.
pub(super) struct DeviceTask {
    pub(super) id: TaskId,
    pub(super) gpu: u32,
    pub(super) account: Mutex<Account>,
    /// Held by the thread that asks mgbd: it expects one request of a task at a time.
    pub(super) growing: Mutex<()>,
}

/// A device and its task.
pub(super) type NumberedTask = (i32, &'static DeviceTask);

/// The tasks, by the program's number of their device.
static TASKS: RwLock<Option<HashMap<i32, &'static DeviceTask>>> = RwLock::new(None);

/// A device's task.
pub(super) fn task(device: i32) -> Option<&'static DeviceTask> {
    TASKS.read().as_ref()?.get(&device).copied()
}

/// All of them.
pub(super) fn all() -> Vec<NumberedTask> {
    let tasks = TASKS.read();
    let tasks = tasks.iter().flatten();
    tasks.map(|(device, task)| (*device, *task)).collect()
}

/// The device that is this GPU of mgbd's.
pub(super) fn on(gpu: u32) -> Option<NumberedTask> {
    all().into_iter().find(|(_, task)| task.gpu == gpu)
}

/// A device's task has begun.
pub(super) fn note(device: i32, task: &'static DeviceTask) {
    TASKS.write().get_or_insert_default().insert(device, task);
}

/// Gives back what is reserved, and neither charged nor declared.
pub(super) fn give_back(session: &Session, task: &DeviceTask) {
    let more = {
        let mut account = task.account.lock();
        let more = account.surplus();
        account.reserved -= more;
        more
    };
    if more > 0 {
        session.client.give_back(task.id, more);
    }
}
