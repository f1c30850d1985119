//! Objects and the extents they lie in: placing, finding, freeing.

use mgb_core::arena::{ALIGN, Arena, extent_bytes, extent_of};
use mgb_core::memory::{Range, Spare};
use mgb_probe::need::spare_bytes;

use super::extent::{Backing, Extent, Freed, Key, Object, Returned};
use super::store::ProcessState;
use crate::launch_view::Device;
use crate::session;

impl ProcessState {
    /// Places an object; its address. `None`: the arena has no such room.
    pub fn allocate(&mut self, key: Key, bytes: u64) -> Option<u64> {
        let (arena, task) = (self.arena.as_mut()?, self.tasks.get_mut(&key)?);
        let length = extent_bytes(bytes)?;
        let is_guarded = arena.is_guarded();
        let mut new = None;
        let mut extent = || {
            let (start, backing) = match self.spares.take(length, |_| true) {
                Some(spare) => {
                    self.uncharged_spares += length;
                    (spare.range.start, Backing::Spare(spare.device, spare.memory))
                }
                None => (arena.take(bytes)?.0, Backing::None),
            };
            let extent = Extent {
                backing,
                ..Extent::new(length, key)
            };
            self.extents.insert(start, extent);
            new = Some(start);
            new
        };
        let address = if is_guarded {
            // What lies behind it lies behind the extent.
            extent()? + length - bytes.next_multiple_of(ALIGN).min(length)
        } else {
            task.pool.place(bytes, extent)?
        };
        if let Some(start) = new {
            task.add_unbacked(start, length);
        }
        debug_assert_eq!(address % ALIGN, 0);
        task.count_object(bytes);
        self.objects.insert(address, Object { bytes });
        Some(address)
    }

    /// The object that holds this address: its start and itself.
    pub fn find(&self, address: u64) -> Option<(u64, Object)> {
        let (&start, &object) = self.objects.range(..=address).next_back()?;
        (address - start < object.bytes).then_some((start, object))
    }

    /// The object that starts here.
    pub fn object_at(&self, address: u64) -> Option<Object> {
        self.objects.get(&address).copied()
    }

    /// The addresses of all objects of the device's tasks.
    pub fn objects_of(&self, device: Device) -> Vec<u64> {
        let of_device = |start: &u64| self.device_of(*start) == Some(device);
        self.objects.keys().copied().filter(of_device).collect()
    }

    /// The device that the object that starts here was allocated on.
    pub fn device_of(&self, start: u64) -> Option<Device> {
        Some(self.tasks.get(&self.owner(start)?)?.device)
    }

    /// Whether the address is in the arena.
    pub fn in_arena(&self, address: u64) -> bool {
        self.arena.as_ref().is_some_and(|arena| arena.contains(address))
    }

    /// The task of the object that starts here.
    pub fn owner(&self, start: u64) -> Option<Key> {
        self.extents.get(&extent_of(start)).map(|extent| extent.owner)
    }

    /// The GPU whose memory is behind the object that starts here.
    pub fn gpu_behind(&self, start: u64) -> Option<u32> {
        let extent = self.extents.get(&extent_of(start))?;
        match extent.backing {
            Backing::Device(_) => self.tasks.get(&extent.owner)?.gpu,
            Backing::None | Backing::Host(_) | Backing::Spare(..) | Backing::Moving => None,
        }
    }

    /// Whether other GPUs may use the object that starts here.
    pub fn is_lent(&self, start: u64) -> bool {
        let extent = self.extents.get(&extent_of(start));
        extent.is_some_and(|extent| extent.lent != 0)
    }

    /// Lets another GPU use all of the task's memory that it may not use yet: calls `lend` with the start and
    /// the bytes of each such extent.
    pub fn lend<E>(&mut self, key: Key, gpu: u32, lend: impl Fn(u64, u64) -> Result<(), E>) -> Result<(), E> {
        let Some(task) = self.tasks.get_mut(&key) else {
            return Ok(());
        };
        for address in &task.extents {
            if let Some(extent) = self.extents.get_mut(address)
                && extent.lent & (1 << gpu) == 0
                && matches!(extent.backing, Backing::Device(_))
            {
                lend(*address, extent.length)?;
                extent.lent |= 1 << gpu;
            }
        }
        task.borrowers |= 1 << gpu;
        task.shared.note_lent(gpu);
        Ok(())
    }

    /// Removes the object that starts here.
    pub fn free(&mut self, start: u64) -> Option<Freed> {
        let object = self.objects.remove(&start)?;
        let extent = extent_of(start);
        let key = self.extents.get(&extent)?.owner;
        let task = self.tasks.get_mut(&key)?;
        task.live -= object.bytes;
        task.objects -= 1;
        task.records.forget(start, object.bytes.max(1));
        let gone = if self.arena.as_ref().is_some_and(Arena::is_guarded) {
            Some(extent)
        } else {
            task.pool.give(start, object.bytes)
        };
        let freed = gone
            .map(|extent| self.drop_extent(key, extent))
            .unwrap_or_default();
        if let Some(task) = self.tasks.get(&key) {
            task.publish();
        }
        self.drop_if_over(key);
        Some(freed)
    }

    fn drop_extent(&mut self, key: Key, address: u64) -> Freed {
        let mut freed = Freed::default();
        let (Some(extent), Some(task)) = (self.extents.remove(&address), self.tasks.get_mut(&key)) else {
            return freed;
        };
        task.extents.remove(&address);
        if task.unbacked.remove(&address) {
            task.unbacked_bytes -= extent.length;
        }
        let range = Range::new(address, extent.length);
        let spare = |device, memory| Spare {
            range,
            device,
            memory,
        };
        let memory = match (extent.backing, task.gpu) {
            (Backing::Device(memory), Some(gpu)) => spare(gpu, memory),
            (Backing::Spare(gpu, memory), _) => {
                // Its room was never this task's.
                self.uncharged_spares -= extent.length;
                freed.memory = self.keep_spare(spare(gpu, memory));
                return freed;
            }
            _ => {
                self.recycle(range);
                return freed;
            }
        };
        task.mapped -= extent.length;
        session::unmapping(memory.device, extent.length);
        // A task that said its need keeps the room until it ends: the need counts what comes later.
        if (task.is_loose() || task.ended)
            && let Some(id) = task.id
        {
            task.reserved -= extent.length.min(task.reserved);
            freed.returned = Some(Returned {
                id,
                bytes: extent.length,
            });
            if task.ended && task.reserved == 0 {
                // mgbd forgets it with that.
                task.unbind();
            }
        }
        freed.memory = if extent.lent == 0 {
            self.keep_spare(memory)
        } else {
            Some(memory)
        };
        freed
    }

    /// Keeps memory that freed objects left, which is charged with the process's context: with what of that has
    /// come behind objects and is not charged to their tasks yet, so much that a context is charged for. Else it
    /// comes back, to be released. Guards keep nothing: they are to find who uses it still.
    fn keep_spare(&mut self, spare: Spare<u32>) -> Option<Spare<u32>> {
        let is_guarded = self.arena.as_ref().is_some_and(Arena::is_guarded);
        let gpu = session::gpu(spare.device).filter(|_| !is_guarded);
        let most = gpu.map_or(0, |gpu| spare_bytes(gpu.usable_bytes));
        self.spares
            .keep(spare, most.saturating_sub(self.uncharged_spares))
    }

    /// Addresses with nothing behind them are free again.
    pub fn recycle(&mut self, range: Range) {
        if let Some(arena) = &mut self.arena {
            arena.give(range.start, range.bytes);
        }
    }
}
