//! Tasks in the state: making, finding, merging and dropping them.

use mgb_probe::TaskId;

use super::extent::{Backing, Key};
use super::store::ProcessState;
use crate::launch_view::{Device, LaunchView};
use crate::task::{OwnSite, Task};
use crate::thread::{Activation, SiteHint, current_device as current};

/// A task with objects, as one call sees it that may touch all of them.
#[derive(Clone, Copy, Debug)]
pub struct WithObjects {
    /// The key of the task in the state.
    pub key: Key,
    /// Whether it is of the device that was asked for.
    pub is_own: bool,
    /// What launches see of it.
    pub shared: &'static LaunchView,
    /// Whether it had all its memory.
    pub is_ready: bool,
}

impl ProcessState {
    /// A new task.
    pub fn new_task(&mut self, site: Option<OwnSite>, activation: Option<Activation>, lazy: bool) -> Key {
        let shared = self.unused.pop().unwrap_or_else(LaunchView::leak);
        self.next_key += 1;
        self.tasks
            .insert(self.next_key, Task::new(shared, site, activation, lazy));
        self.next_key
    }

    /// The task of a handle.
    pub fn by_handle(&self, handle: u64) -> Option<Key> {
        self.by_handle
            .get(&handle)
            .map(|&key| self.resolve(key))
            .filter(|key| self.tasks.contains_key(key))
    }

    pub(super) fn is_moving(&self, start: u64) -> bool {
        let task = self.owner(start).and_then(|key| self.tasks.get(&key));
        task.is_some_and(Task::is_moving)
    }

    /// Says which task a handle means.
    pub fn name(&mut self, handle: u64, key: Key) {
        self.by_handle.insert(handle, key);
    }

    /// No task is meant by this handle any more.
    pub fn forget_handle(&mut self, handle: u64) {
        self.by_handle.remove(&handle);
    }

    /// Whether the handle means a device's lazy task: that of a static task which became part of it.
    pub fn means_lazy(&self, handle: u64) -> bool {
        self.by_handle(handle).is_some_and(|key| self.is_lazy(key))
    }

    /// The task itself if it is the current device's, else that one's lazy task.
    fn of_current_device(&mut self, key: Key) -> Key {
        let is_own = |task: &Task| task.device == current();
        if self.tasks.get(&key).is_some_and(is_own) {
            key
        } else {
            self.lazy_task()
        }
    }

    /// The task that an operation belongs to by the hint of the pass, else the lazy one.
    pub fn task_of_hint(&mut self, hint: Option<SiteHint>) -> Key {
        let Some(hint) = hint else {
            return self.lazy_task();
        };
        let key = match (hint.task(), hint.activation()) {
            (Some(handle), _) => self.by_handle(handle),
            (None, Some(activation)) => Some(self.gathering(activation, hint.id)),
            (None, None) => None,
        };
        match key {
            Some(key) => self.of_current_device(key),
            None => self.lazy_task(),
        }
    }

    /// Forgets a task that owns nothing, and is over or has not begun: its function may return before it does.
    pub fn drop_if_over(&mut self, key: Key) {
        let over = |task: &Task| {
            (task.ended || task.refused || self.only_gathers(key, task))
                && task.objects == 0
                && task.extents.is_empty()
                && !task.is_held()
        };
        if self.is_lazy(key) || !self.tasks.get(&key).is_some_and(over) {
            return;
        }
        let Some(mut task) = self.tasks.remove(&key) else {
            return;
        };
        task.stop_clock();
        self.by_handle.retain(|_, named| *named != key);
        self.leave_activation(key, task.activation);
        self.moved.retain(|_, to| *to != key);
        self.unused.push(task.shared);
        if mgb_probe::trace::is_wanted() {
            self.past.push(task);
        }
    }

    /// The tasks with objects but for the device's lazy one, and those that cannot have memory.
    pub fn with_objects(&self, device: Device) -> Vec<WithObjects> {
        self.tasks
            .iter()
            .filter(|(key, task)| {
                let own_lazy = task.device == device && self.is_lazy(**key);
                !task.refused && !own_lazy && !task.extents.is_empty()
            })
            .map(|(key, task)| WithObjects {
                key: *key,
                is_own: task.device == device,
                shared: task.shared,
                is_ready: task.is_ready(),
            })
            .collect()
    }

    /// Tasks on other GPUs whose memory this one was lent before, or all on others. Some may have no memory at the
    /// moment.
    pub fn lenders(&self, gpu: u32, all: bool) -> Vec<(Key, &'static LaunchView)> {
        let tasks = self.tasks.iter().filter(|(_, task)| {
            let is_meant = all || task.borrowers & (1 << gpu) != 0;
            is_meant && !task.refused && !task.extents.is_empty() && task.gpu.is_some_and(|own| own != gpu)
        });
        tasks.map(|(key, task)| (*key, task.shared)).collect()
    }

    /// What the process has reserved on the GPU: the bytes of tasks that have them, and those of each
    /// task that only keeps its grant, which mgbd may have revoked.
    pub fn reserved_on(&self, gpu: u32) -> (u64, Vec<(TaskId, u64)>) {
        let (mut firm, mut resting) = (0, Vec::new());
        for task in self.tasks.values().filter(|task| task.gpu == Some(gpu)) {
            match task.id {
                Some(id) if task.shared.is_resting() => resting.push((id, task.reserved)),
                Some(_) => firm += task.reserved,
                None => {}
            }
        }
        (firm, resting)
    }

    /// Bytes of all objects of a device's tasks, backed or not.
    pub fn committed_of(&self, device: Device) -> u64 {
        let own = self.tasks.values().filter(|task| task.device == device);
        own.map(Task::committed).sum()
    }

    /// Bytes that launches of a static task need on its GPU beside its own: those of its device's lazy task, which they
    /// may reach. One on another GPU is lent.
    pub fn beside(&self, key: Key) -> u64 {
        let Some(task) = self.tasks.get(&key) else {
            return 0;
        };
        let lazy = self.devices.0[task.device].lazy.filter(|lazy| *lazy != key);
        let lazy = lazy.and_then(|lazy| self.tasks.get(&lazy));
        let is_there = |lazy: &&Task| lazy.gpu.is_none() || task.gpu.is_none() || lazy.gpu == task.gpu;
        lazy.filter(is_there).map_or(0, Task::unevictable)
    }

    /// Bytes of all objects of a device's tasks as asked for, and of what it has outside the arena and that cannot
    /// be evicted.
    pub fn live_of(&self, device: Device) -> u64 {
        let own = self.tasks.values().filter(|task| task.device == device);
        own.map(|task| task.live + task.outside.unevictable()).sum()
    }

    /// Bytes that the process's tasks have on the GPU now.
    pub fn resident_on(&self, gpu: u32) -> u64 {
        let there = self
            .tasks
            .values()
            .filter(|task| task.gpu == Some(gpu) && task.id.is_some());
        there.map(Task::resident).sum()
    }

    /// Task `from`, which was never bound or holds no memory of a GPU, becomes part of `into`.
    pub fn merge(&mut self, from: Key, into: Key) {
        if from == into || !self.tasks.contains_key(&into) {
            return;
        }
        let Some(mut gone) = self.tasks.remove(&from) else {
            return;
        };
        self.leave_activation(from, gone.activation);
        self.moved.insert(from, into);
        let Some(task) = self.tasks.get_mut(&into) else {
            return;
        };
        for &address in &gone.extents {
            if let Some(extent) = self.extents.get_mut(&address) {
                extent.owner = into;
                match extent.backing {
                    Backing::Device(_) => {
                        task.extents.insert(address);
                        task.mapped += extent.length;
                        task.seen.mapped = task.seen.mapped.max(task.mapped);
                    }
                    Backing::None | Backing::Host(_) | Backing::Spare(..) | Backing::Moving => {
                        task.add_unbacked(address, extent.length)
                    }
                }
            }
        }
        // Its bytes in the host may mean something on the GPU where it was only.
        task.gpu = task.gpu.or(gone.gpu);
        task.pool.absorb(std::mem::take(&mut gone.pool));
        task.records.absorb(std::mem::take(&mut gone.records));
        task.swaps.append(&mut gone.swaps);
        task.live += gone.live;
        task.objects += gone.objects;
        task.seen.objects += gone.seen.objects;
        task.seen.peak = task.seen.peak.max(task.live);
        task.publish();
        // No thread takes it for the task's any more.
        gone.shared.renew(gone.device);
        self.unused.push(gone.shared);
    }
}
