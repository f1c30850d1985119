//! Changing what is behind a task's extents: commit, evict. Each has two steps under the lock, taking the
//! extents out and settling them; between the steps one thread works on them without the lock. The task is
//! marked as moving meanwhile, so that no other thread uses what it has.

use mgb_core::memory::Range;
use mgb_probe::TaskId;
use mgb_probe::need::MOVABLE;

use super::extent::{Backing, Key};
use super::store::{CHANGED, ProcessState};
use crate::task::Task;

/// An extent that was taken out. The state has [`Backing::Moving`] in its place meanwhile.
#[derive(Debug)]
pub struct TakenExtent {
    /// The first address of the extent.
    pub address: u64,
    /// The size of the extent in bytes.
    pub length: u64,
    /// What is behind it.
    pub backing: Backing,
}

impl TakenExtent {
    /// The addresses of the extent.
    pub fn range(&self) -> Range {
        Range::new(self.address, self.length)
    }
}

/// A task's memory, taken out to be evicted.
#[derive(Debug)]
pub struct Evicting {
    /// The task at mgbd.
    pub id: TaskId,
    /// The GPU that it is on.
    pub gpu: u32,
    /// The ordinal of that GPU in this process.
    pub ordinal: i32,
    /// Its extents that have memory of that GPU.
    pub parts: Vec<TakenExtent>,
}

impl ProcessState {
    /// Whether bytes of the task were swapped out, and have not come back.
    pub fn has_bytes_in_host(&self, key: Key) -> bool {
        let in_host = |start| {
            let extent = self.extents.get(start);
            extent.is_some_and(|extent| matches!(extent.backing, Backing::Host(_)))
        };
        let task = self.task_at(key);
        task.is_some_and(|task| task.unbacked.iter().any(in_host))
    }

    /// Takes the task's extents without memory, to put memory behind them. From here on they count as
    /// mapped, and the task is moving unless there are none. [`ProcessState::end_commit`] is called next.
    pub fn begin_commit(&mut self, key: Key) -> Vec<TakenExtent> {
        let mut parts = Vec::new();
        let Some(task) = self.tasks.get_mut(&key) else {
            return parts;
        };
        while let Some(address) = task.unbacked.pop_first() {
            let Some(extent) = self.extents.get_mut(&address) else {
                continue;
            };
            let backing = std::mem::replace(&mut extent.backing, Backing::Moving);
            if matches!(backing, Backing::Spare(..)) {
                self.uncharged_spares -= extent.length;
            }
            task.unbacked_bytes -= extent.length;
            task.mapped += extent.length;
            parts.push(TakenExtent {
                address,
                length: extent.length,
                backing,
            });
        }
        if !parts.is_empty() {
            task.begin_move();
        }
        parts
    }

    /// Ends a commit: sets what is behind the extents now, whether or not it worked.
    pub fn end_commit(&mut self, key: Key, parts: Vec<TakenExtent>) {
        let any = parts.iter().any(TakenExtent::has_device_memory);
        self.settle(key, parts);
        if let Some(task) = self.tasks.get_mut(&key).filter(|_| any) {
            task.note_backed();
        }
        self.end_move(key);
    }

    /// Takes the task's extents that have memory of its GPU, to bring their bytes elsewhere. From here on
    /// the task is moving, until [`ProcessState::end_evict`] and [`ProcessState::end_move`]. `None`: it is not bound, or
    /// another thread moves it.
    pub fn begin_evict(&mut self, key: Key) -> Option<Evicting> {
        let task = self.tasks.get_mut(&key)?;
        let (id, (gpu, ordinal)) = (task.id?, task.shared.placement());
        if task.is_moving() {
            return None;
        }
        let mut parts = Vec::new();
        for &address in &task.extents {
            if let Some(extent) = self.extents.get_mut(&address)
                && matches!(extent.backing, Backing::Device(_))
            {
                parts.push(TakenExtent {
                    address,
                    length: extent.length,
                    backing: std::mem::replace(&mut extent.backing, Backing::Moving),
                });
            }
        }
        task.begin_move();
        Some(Evicting {
            id,
            gpu,
            ordinal,
            parts,
        })
    }

    /// Sets what is behind the extents after an eviction, whether or not it worked; the bytes of the task's
    /// reservation that it no longer needs, and no longer has.
    pub fn end_evict(&mut self, key: Key, parts: Vec<TakenExtent>) -> u64 {
        self.settle(key, parts);
        let Some(task) = self.tasks.get_mut(&key) else {
            return 0;
        };
        let freed = task.reserved - task.resident().min(task.reserved);
        task.reserved -= freed;
        freed
    }

    /// Whether the task is on that GPU, and may go on, on another one: the pass has proven that nothing in
    /// its data depends on the GPU, and nothing of the process ties it there.
    pub fn may_move(&self, key: Key, gpu: u32) -> bool {
        let task = self.tasks.get(&key);
        task.is_some_and(|task| !task.is_held() && self.is_loose_from(task, gpu))
    }

    fn is_loose_from(&self, task: &Task, gpu: u32) -> bool {
        let is_tied = self.anchor(task.device).is_some()
            || super::may_be_several()
            || task.lazy
            || task.ended
            || task.need.heap_bytes > 0
            || task.committed() != task.mapped + task.unbacked_bytes
            || task.borrowers != 0
            || task.shared.is_lent_at_all();
        task.need.flags & MOVABLE != 0 && task.occupied() == Some(gpu) && !is_tied
    }

    /// The GPU of a task that has nothing there, if it may go on, on another one. This thread asks for the
    /// task.
    pub fn may_come_back_elsewhere(&self, key: Key) -> Option<u32> {
        let task = self.tasks.get(&key)?;
        let has_nothing = task.reserved == 0 && task.mapped == 0 && !task.is_moving();
        task.occupied()
            .filter(|gpu| has_nothing && self.is_loose_from(task, *gpu))
    }

    /// Sets what is behind the task's extents, none of which has memory of its old GPU any more, and binds it
    /// to the new one.
    pub fn end_relocate(&mut self, key: Key, parts: Vec<TakenExtent>, gpu: u32, ordinal: i32) {
        self.settle(key, parts);
        if let Some(task) = self.tasks.get_mut(&key) {
            task.move_to(gpu, ordinal);
        }
    }

    /// The task is moving no longer; threads that wait for that go on.
    pub fn end_move(&mut self, key: Key) {
        if let Some(task) = self.task(key) {
            task.end_move();
        }
        CHANGED.notify_all();
    }

    /// Puts extents back that were taken out and count as mapped.
    fn settle(&mut self, key: Key, parts: Vec<TakenExtent>) {
        let Some(task) = self.tasks.get_mut(&key) else {
            return;
        };
        for part in parts {
            let Some(extent) = self.extents.get_mut(&part.address) else {
                continue;
            };
            if !part.has_device_memory() {
                // Memory that it gets later is lent to nobody.
                extent.lent = 0;
                task.note_unbacked(part.address, part.length);
            }
            if matches!(part.backing, Backing::Spare(..)) {
                self.uncharged_spares += part.length;
            }
            extent.backing = part.backing;
        }
    }
}

impl TakenExtent {
    fn has_device_memory(&self) -> bool {
        matches!(self.backing, Backing::Device(_))
    }
}
