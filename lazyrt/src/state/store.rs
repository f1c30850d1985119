//! The state itself, and its lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use mgb_core::arena::Arena;
use mgb_core::memory::Spares;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::charges::Elsewhere;
use super::device_table::Devices;
use super::extent::{Extent, Key, Object};
use crate::launch_view::LaunchView;
use crate::task::Task;
use crate::thread::Activation;

/// Objects, extents and tasks of the process.
#[derive(Debug, Default)]
pub struct ProcessState {
    /// Made at the first allocation.
    pub arena: Option<Arena>,
    pub(super) objects: BTreeMap<u64, Object>,
    /// All extents, by address.
    pub(super) extents: BTreeMap<u64, Extent>,
    pub(super) tasks: BTreeMap<Key, Task>,
    pub(super) by_handle: HashMap<u64, Key>,
    pub(super) pending: HashMap<Activation, Key>,
    pub(super) begun: HashMap<Activation, Key>,
    pub(super) moved: HashMap<Key, Key>,
    pub(super) devices: Devices,
    pub(super) elsewhere: Elsewhere,
    pub(super) next_key: Key,
    pub(super) unused: Vec<&'static LaunchView>,
    /// Memory that freed objects left, by the GPU that it is of. It is no task's, and charged with the process's
    /// context.
    pub spares: Spares<u32>,
    /// Bytes of such memory that are behind extents, and not charged to the extents' tasks yet.
    pub(super) uncharged_spares: u64,
    /// Tasks that are gone, if the program is traced.
    pub past: Vec<Task>,
}

static STATE: LazyLock<Mutex<ProcessState>> = LazyLock::new(Mutex::default);

/// Notified when a task stops being busy.
pub static CHANGED: Condvar = Condvar::new();

/// Locks the state of the process.
pub fn lock() -> MutexGuard<'static, ProcessState> {
    STATE.lock()
}

/// The state, once no thread changes what is behind the object that starts here.
pub fn lock_still(start: u64) -> MutexGuard<'static, ProcessState> {
    let mut state = lock();
    while state.is_moving(start) {
        CHANGED.wait(&mut state);
    }
    state
}

/// The state, once no thread changes what is behind the task's extents.
pub fn lock_task_still(key: Key) -> MutexGuard<'static, ProcessState> {
    let mut state = lock();
    while state.task(key).is_some_and(|task| task.is_moving()) {
        CHANGED.wait(&mut state);
    }
    state
}

/// The state, if no thread holds its lock for long: for the end of the process.
pub fn try_lock() -> Option<MutexGuard<'static, ProcessState>> {
    STATE.try_lock_for(std::time::Duration::from_millis(200))
}

impl ProcessState {
    /// The task that took this one over, or itself.
    pub fn resolve(&self, mut key: Key) -> Key {
        while let Some(&next) = self.moved.get(&key) {
            key = next;
        }
        key
    }

    /// The task of this key itself.
    pub fn task_at(&self, key: Key) -> Option<&Task> {
        self.tasks.get(&key)
    }

    /// The tasks of the process, with their keys.
    pub fn tasks(&self) -> impl Iterator<Item = (Key, &Task)> {
        self.tasks.iter().map(|(&key, task)| (key, task))
    }

    /// The tasks of the process, to change them.
    pub fn tasks_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.tasks.values_mut()
    }

    /// A task, after what may have taken it over.
    pub fn task(&mut self, key: Key) -> Option<&mut Task> {
        let key = self.resolve(key);
        self.tasks.get_mut(&key)
    }
}
