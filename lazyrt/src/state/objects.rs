//! Objects and the extents they lie in: placing, finding, freeing.

use mgb_core::arena::{ALIGN, Arena, Left, SMALL};
use mgb_probe::need::GRANULE;

use super::extent::{Backing, Extent, Freed, Key, Object, Returned};
use super::store::State;
use crate::launch_view::Device;

impl State {
    /// Places an object; its address. `None`: the arena has no such room.
    pub fn allocate(&mut self, key: Key, bytes: u64) -> Option<u64> {
        let arena = self.arena.as_mut()?;
        let task = self.tasks.get_mut(&key)?;
        let address = if arena.is_guarded() {
            let (extent, length) = arena.take(bytes)?;
            self.extents.insert(extent, Extent::new(length, key));
            task.add_unbacked(extent, length);
            // What lies behind it lies behind the extent.
            extent + length - bytes.next_multiple_of(ALIGN).min(length)
        } else if bytes < SMALL {
            match task.pool.take(bytes) {
                Some(address) => address,
                None => {
                    let granule = self.spares.take_or(arena, key, &mut self.extents)?;
                    task.pool.add(granule);
                    task.add_unbacked(granule, GRANULE);
                    task.pool.take(bytes)?
                }
            }
        } else if bytes <= GRANULE {
            let granule = self.spares.take_or(arena, key, &mut self.extents)?;
            task.add_unbacked(granule, GRANULE);
            granule
        } else {
            let (address, length) = arena.take(bytes)?;
            self.extents.insert(address, Extent::new(length, key));
            task.add_unbacked(address, length);
            address
        };
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

    fn extent_of(&self, start: u64) -> u64 {
        if self.extents.contains_key(&start) {
            start
        } else {
            start / GRANULE * GRANULE
        }
    }

    /// The task of the object that starts here.
    pub fn owner(&self, start: u64) -> Option<Key> {
        self.extents
            .get(&self.extent_of(start))
            .map(|extent| extent.owner)
    }

    /// The GPU whose memory is behind the object that starts here.
    pub fn gpu_behind(&self, start: u64) -> Option<u32> {
        let extent = self.extents.get(&self.extent_of(start))?;
        match extent.backing {
            Backing::Device(_) => self.tasks.get(&extent.owner)?.gpu,
            Backing::None | Backing::Host(_) | Backing::Spare(..) | Backing::Moving => None,
        }
    }

    /// Whether other GPUs may use the object that starts here.
    pub fn is_lent(&self, start: u64) -> bool {
        let extent = self.extents.get(&self.extent_of(start));
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
        let extent = self.extent_of(start);
        let key = self.extents.get(&extent)?.owner;
        let task = self.tasks.get_mut(&key)?;
        task.live -= object.bytes;
        task.objects -= 1;
        task.records.forget(start, object.bytes.max(1));
        let guarded = self.arena.as_ref().is_some_and(Arena::is_guarded);
        let gone = if !guarded && object.bytes < SMALL {
            match task.pool.give(start, object.bytes) {
                Left::Shared => None,
                Left::Granule(granule) => Some(granule),
            }
        } else {
            Some(extent)
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
        let (gpu, memory) = match (extent.backing, task.gpu) {
            (Backing::Device(memory), Some(gpu)) => (gpu, memory),
            (Backing::Spare(gpu, memory), _) => {
                // Its room was never this task's.
                self.spares.settle();
                freed.memory = self.spares.keep(address, extent.length, gpu, memory);
                return freed;
            }
            _ => {
                self.recycle(address, extent.length);
                return freed;
            }
        };
        task.mapped -= extent.length;
        crate::session::unmapping(gpu, extent.length);
        freed.memory = if extent.lent == 0 {
            self.spares.keep(address, extent.length, gpu, memory)
        } else {
            Some((address, extent.length, gpu, memory))
        };
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
        freed
    }

    /// Addresses with nothing behind them are free again.
    pub fn recycle(&mut self, address: u64, length: u64) {
        if let Some(arena) = &mut self.arena {
            arena.give(address, length);
        }
    }
}
