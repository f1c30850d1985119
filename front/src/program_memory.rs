//! Memory that a program makes by `cuMemCreate` and maps by itself. It is there until its handle was released as
//! often as it was had, and it is mapped nowhere.
//!
//! It can be in the host for a while ([`crate::program_swap`]). The driver's handle is another one after that; the
//! program's handle goes on as a *name* of it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use mgb_abi::location::{LOCATION_DEVICE, MemLocation};
use mgb_abi::pool::{ALLOCATION_PINNED, MemAccessDesc};
use mgb_abi::vmm::MemAllocationProp;
use mgb_core::host_bytes::HostBytes;
use parking_lot::{Mutex, MutexGuard};

/// The byte `gpuDirectRDMACapable` of `CUmemAllocationProp`'s flags,
const RDMA_CAPABLE: usize = 1;
/// and those of its `usage`.
const USAGE: std::ops::Range<usize> = 2..4;
/// Names of the front's own begin here: no driver's handle is one.
const OWN_NAMES: u64 = u64::from_be_bytes(*b"mgb\0\0\0\0\0");

/// What memory was made as, but for what only Windows has.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    handle_types: i32,
    location: MemLocation,
    flags: [u8; 8],
}

impl Made {
    /// The same as the driver takes it.
    pub fn prop(&self) -> MemAllocationProp {
        MemAllocationProp {
            alloc_type: ALLOCATION_PINNED,
            handle_types: self.handle_types,
            location: self.location,
            win32_handle_metadata: std::ptr::null_mut(),
            alloc_flags: self.flags,
        }
    }

    /// Whether network cards may reach it.
    pub fn is_for_cards(&self) -> bool {
        self.flags[RDMA_CAPABLE] != 0
    }
}

/// Memory of a name.
#[derive(Debug)]
pub struct Memory {
    /// The device it is of.
    pub device: c_int,
    /// The size in bytes, as the program asked for it.
    pub bytes: u64,
    /// What it was made as.
    pub made: Made,
    /// The driver's handle of it.
    pub native: u64,
    /// It was in the host: the driver counts one handle, whatever the program has.
    pub is_renamed: bool,
    /// How many handles the program has.
    pub handles: u32,
    maps: u32,
    /// It may hold something.
    pub was_mapped: bool,
    /// Somebody beside the program's own work uses it, or it cannot be made again.
    pub stays: bool,
    /// Its bytes, while they are in the host.
    pub in_host: Option<HostBytes>,
}

/// Where memory is mapped.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// How many bytes are mapped.
    pub bytes: u64,
    /// Where in the memory it begins.
    pub offset: u64,
    /// Of which memory.
    pub name: u64,
    /// Who may use it.
    pub access: Vec<MemAccessDesc>,
}

/// All of it that this process has made.
#[derive(Debug, Default)]
pub struct Table {
    /// What the program has made, by the program's handle of it.
    pub memory: HashMap<u64, Memory>,
    /// Where it is mapped, by first address.
    pub mappings: BTreeMap<u64, Mapping>,
    /// Names that are other numbers than the driver's handles.
    names: HashMap<u64, u64>,
    /// Names of the front's own so far.
    own_names: u64,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);
/// Whether the program has ever made any.
static USED: AtomicBool = AtomicBool::new(false);

/// Locks the table. The caller is inside the gate, or has closed it: whoever moves memory does so with the gate
/// closed.
pub fn lock() -> MutexGuard<'static, Table> {
    TABLE.lock()
}

/// Whether the program has ever made any.
pub fn is_used() -> bool {
    USED.load(Ordering::Acquire)
}

impl Table {
    /// The program has made memory, for which the driver has given a handle. What the program is to call it.
    pub fn made(&mut self, handle: u64, bytes: u64, prop: &MemAllocationProp, flags: u64) -> u64 {
        USED.store(true, Ordering::Release);
        let name = self.name_for(handle);
        let is_plain = prop.alloc_type == ALLOCATION_PINNED
            && prop.win32_handle_metadata.is_null()
            && prop.alloc_flags[USAGE] == [0, 0]
            && flags == 0;
        let memory = Memory {
            device: prop.location.id,
            bytes,
            made: Made {
                handle_types: prop.handle_types,
                location: prop.location,
                flags: prop.alloc_flags,
            },
            native: handle,
            is_renamed: false,
            handles: 1,
            maps: 0,
            was_mapped: false,
            stays: !is_plain,
            in_host: None,
        };
        self.memory.insert(name, memory);
        name
    }

    /// A name for a handle that the driver gave just now: its number, unless memory that was in the host has it.
    pub fn name_for(&mut self, handle: u64) -> u64 {
        if !self.names.contains_key(&handle) && !self.memory.contains_key(&handle) {
            return handle;
        }
        self.own_names += 1;
        let name = OWN_NAMES | self.own_names;
        self.names.insert(name, handle);
        name
    }

    /// The driver's handle of a name.
    pub fn native(&self, name: u64) -> u64 {
        self.names.get(&name).copied().unwrap_or(name)
    }

    /// The driver has another handle of the memory from here on.
    pub fn rename(&mut self, name: u64, handle: u64) {
        self.names.insert(name, handle);
        if let Some(memory) = self.memory.get_mut(&name) {
            memory.native = handle;
            memory.is_renamed = true;
        }
    }

    /// The name of a handle that the driver has given one more of. Whether the program may have one more is for the
    /// front to count then, and the driver's is one too many.
    pub fn retained(&mut self, handle: u64) -> (u64, bool) {
        let is_own = self
            .memory
            .get(&handle)
            .is_some_and(|memory| memory.native == handle);
        let other = self
            .names
            .iter()
            .find(|(_, native)| !is_own && **native == handle);
        let name = other.map_or(handle, |(name, _)| *name);
        match self.memory.get_mut(&name) {
            Some(memory) => {
                memory.handles += 1;
                (name, memory.is_renamed && memory.handles > 1)
            }
            None => (name, false),
        }
    }

    /// The memory is mapped in one more place.
    pub fn mapped(&mut self, start: u64, bytes: u64, offset: u64, name: u64, flags: u64) {
        if let Some(memory) = self.memory.get_mut(&name) {
            memory.maps += 1;
            memory.was_mapped = true;
            memory.stays |= flags != 0;
            let access = Vec::new();
            let mapping = Mapping {
                bytes,
                offset,
                name,
                access,
            };
            self.mappings.insert(start, mapping);
        }
    }

    /// Devices may use a range in another way.
    pub fn allowed(&mut self, start: u64, bytes: u64, access: &[MemAccessDesc]) {
        let end = start.saturating_add(bytes);
        let first = self.mappings.range(..=start).next_back();
        let from = first.map_or(start, |(at, _)| *at);
        for (at, mapping) in self.mappings.range_mut(from..end) {
            let its_end = at.saturating_add(mapping.bytes);
            if its_end <= start {
                continue;
            }
            let is_known = *at >= start
                && its_end <= end
                && access.iter().all(|one| one.location.kind == LOCATION_DEVICE);
            if !is_known && let Some(memory) = self.memory.get_mut(&mapping.name) {
                // A part only, or something that is no GPU.
                memory.stays = true;
            }
            for one in access {
                mapping.access.retain(|known| known.location != one.location);
                mapping.access.push(*one);
            }
        }
    }

    /// The memory stays where it is from here on.
    pub fn stay(&mut self, name: u64) {
        if let Some(memory) = self.memory.get_mut(&name) {
            memory.stays = true;
        }
    }

    /// The memory that is mapped within a range, each with how often.
    pub fn within(&self, start: u64, bytes: u64) -> Vec<(u64, u32)> {
        let end = start.saturating_add(bytes);
        let mut found: Vec<(u64, u32)> = Vec::new();
        for (_, mapping) in self.mappings.range(start..end) {
            match found.iter_mut().find(|(known, _)| *known == mapping.name) {
                Some((_, count)) => *count += 1,
                None => found.push((mapping.name, 1)),
            }
        }
        found
    }

    /// Whether this release, or the end of so many maps, would free the memory: its device and bytes.
    pub fn frees(&self, name: u64, released: u32, unmapped: u32) -> Option<(c_int, u64)> {
        let memory = self.memory.get(&name)?;
        (memory.handles <= released && memory.maps <= unmapped).then_some((memory.device, memory.bytes))
    }

    /// It was released, or unmapped so often.
    pub fn note(&mut self, name: u64, released: u32, unmapped: u32) {
        if let Some(memory) = self.memory.get_mut(&name) {
            memory.handles = memory.handles.saturating_sub(released);
            memory.maps = memory.maps.saturating_sub(unmapped);
            if memory.handles == 0 && memory.maps == 0 {
                self.memory.remove(&name);
                self.names.remove(&name);
            }
        }
    }

    /// A range is mapped no more.
    pub fn unmapped(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let gone: Vec<u64> = self.mappings.range(start..end).map(|(&start, _)| start).collect();
        for start in gone {
            self.mappings.remove(&start);
        }
    }

    /// Where a memory is mapped.
    pub fn mappings_of(&self, name: u64) -> Vec<(u64, Mapping)> {
        let its = self.mappings.iter().filter(|(_, mapping)| mapping.name == name);
        its.map(|(&start, mapping)| (start, mapping.clone())).collect()
    }
}

/// What is mapped at the address stays where it is: another device than a GPU may use it, or another process.
pub fn stay_at(address: u64, bytes: u64) {
    if !is_used() {
        return;
    }
    let mut table = lock();
    let end = address.saturating_add(bytes.max(1));
    let first = table.mappings.range(..=address).next_back();
    let from = first.map_or(address, |(at, _)| *at);
    let found = table.mappings.range(from..end);
    let found = found.filter(|(start, mapping)| start.saturating_add(mapping.bytes) > address);
    let names: Vec<u64> = found.map(|(_, mapping)| mapping.name).collect();
    names.into_iter().for_each(|name| table.stay(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prop(device: i32) -> MemAllocationProp {
        let made = Made {
            handle_types: 0,
            location: MemLocation::device(device),
            flags: [0; 8],
        };
        made.prop()
    }

    fn access(device: i32, flags: i32) -> MemAccessDesc {
        MemAccessDesc {
            location: MemLocation::device(device),
            flags,
        }
    }

    #[test]
    fn a_name_goes_on_where_the_driver_has_another_handle() {
        let mut table = Table::default();
        assert_eq!(table.made(7, 2, &prop(0), 0), 7);
        table.rename(7, 9);
        assert_eq!((table.native(7), table.native(8)), (9, 8));
        assert_eq!(table.retained(9), (7, true), "the front counts");
        // The driver gives the number that it has free for something else.
        let other = table.made(7, 2, &prop(0), 0);
        assert!(other != 7 && table.native(other) == 7);
        assert_eq!(table.retained(7), (other, false));
        table.note(7, 2, 0);
        assert_eq!(table.native(7), 7, "it is gone, and with it the name");
        assert_eq!(table.frees(other, 2, 0), Some((0, 2)));
    }

    #[test]
    fn memory_is_there_as_long_as_it_has_a_handle_or_a_place() {
        let mut table = Table::default();
        table.made(1, 4, &prop(2), 0);
        table.mapped(100, 2, 0, 1, 0);
        table.mapped(102, 2, 2, 1, 0);
        assert_eq!(table.frees(1, 1, 0), None);
        table.note(1, 1, 0);
        assert_eq!(table.within(100, 4), [(1, 2)]);
        assert_eq!(table.frees(1, 0, 2), Some((2, 4)));
        assert_eq!(table.mappings_of(1).len(), 2);
        table.note(1, 0, 2);
        table.unmapped(100, 4);
        assert!(table.memory.is_empty() && table.mappings.is_empty());
    }

    #[test]
    fn access_is_known_of_whole_mappings() {
        let mut table = Table::default();
        table.made(1, 4, &prop(0), 0);
        table.made(2, 4, &prop(0), 0);
        table.mapped(100, 4, 0, 1, 0);
        table.mapped(104, 4, 0, 2, 0);
        table.allowed(100, 8, &[access(0, 3), access(1, 1)]);
        table.allowed(100, 4, &[access(1, 3)]);
        let flags = |table: &Table, start| -> Vec<(i32, i32)> {
            let access = table.mappings[&start].access.iter();
            access.map(|one| (one.location.id, one.flags)).collect()
        };
        assert_eq!(flags(&table, 100), [(0, 3), (1, 3)]);
        assert_eq!(flags(&table, 104), [(0, 3), (1, 1)]);
        assert!(table.memory.values().all(|memory| !memory.stays));
        table.allowed(106, 2, &[access(0, 1)]);
        assert!(table.memory[&2].stays && !table.memory[&1].stays);
    }

    #[test]
    fn what_cannot_be_made_again_stays() {
        let mut table = Table::default();
        let mut tiles = prop(0);
        tiles.alloc_flags[2] = 1;
        table.made(1, 4, &tiles, 0);
        table.made(2, 4, &prop(0), 1);
        table.made(3, 4, &prop(0), 0);
        let stays = |name| table.memory[&name].stays;
        assert_eq!([stays(1), stays(2), stays(3)], [true, true, false]);
    }
}
