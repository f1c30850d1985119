//! The driver's virtual memory management: address ranges, physical memory, mappings, access.
//!
//! None of it needs a context. A device is charged when memory is created, and gets it back when the
//! handle is released and nothing maps it. What a mapping may do is enforced on the host's pages: the
//! union of the rights that devices have, since all devices share the process's page tables; copies
//! check the same rights.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::Mutex;

use super::physical::{self, DeviceFile};
use crate::config::spec::MAX_DEVICES;
use crate::error::{Error, Result};
use crate::pages;
use crate::state::SharedState;

/// The unit of sizes and addresses: 2 MiB, as on current devices.
pub const GRANULE: usize = 2 << 20;

/// All of a process's address ranges and memory handles.
#[derive(Debug, Default)]
pub struct Vmm {
    ranges: BTreeMap<usize, ReservedRange>,
    memories: HashMap<u64, DeviceMemory>,
    last_handle: u64,
    physical: BTreeMap<usize, DeviceFile>,
}

#[derive(Debug)]
struct ReservedRange {
    length: usize,
    mappings: BTreeMap<usize, RangeMapping>,
}

#[derive(Clone, Copy, Debug)]
struct RangeMapping {
    length: usize,
    handle: u64,
    access: DeviceAccess,
}

/// Memory of a device, behind a handle.
#[derive(Debug)]
struct DeviceMemory {
    device: MemoryPlacement,
    length: usize,
    place: MemoryLocation,
    /// Other processes may have it.
    is_shared: bool,
    /// A descriptor was given out: the bytes stay for whoever has that.
    was_exported: bool,
    handles: u32,
    mappings: u32,
}

/// Where its bytes are.
#[derive(Debug)]
enum MemoryLocation {
    /// In the device's file, from this offset.
    Device(usize),
    /// In another process's file, from this offset: that one is charged.
    Foreign(OwnedFd, usize),
}

/// Where memory is created: the ordinal that the process uses, and the physical index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlacement {
    /// As `CUmemLocation` names it.
    pub ordinal: usize,
    /// In the shared state.
    pub index: usize,
}

/// Bit per device ordinal that may read, and write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceAccess {
    /// The devices that may read, a bit each.
    pub read: u32,
    /// The devices that may write, a bit each.
    pub write: u32,
}

/// What lies at an address of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressContent {
    /// A mapping: its first byte, length, device ordinal, rights.
    Mapped {
        /// The first byte of the mapping.
        base: usize,
        /// The length of the mapping in bytes.
        length: usize,
        /// The device whose memory it is.
        ordinal: usize,
        /// The devices that may touch it.
        access: DeviceAccess,
    },
    /// Reserved, and nothing there.
    Reserved,
}

static VMM: Mutex<Option<Vmm>> = Mutex::new(None);

/// Runs `body` on the process's VMM state.
pub fn with<T>(body: impl FnOnce(&mut Vmm) -> T) -> T {
    body(VMM.lock().get_or_insert_default())
}

fn granular(value: usize) -> bool {
    value.is_multiple_of(GRANULE)
}

impl Vmm {
    /// `cuMemAddressReserve`.
    pub fn reserve(&mut self, length: usize, align: usize, wanted: usize) -> Result<usize> {
        let sound = length != 0 && granular(length) && (align == 0 || align.is_power_of_two());
        if !sound || !granular(wanted) {
            return Err(Error::INVALID_VALUE);
        }
        let base = pages::reserve(wanted, length, align.max(GRANULE))?;
        self.ranges.insert(
            base,
            ReservedRange {
                length,
                mappings: BTreeMap::new(),
            },
        );
        Ok(base)
    }

    /// `cuMemAddressFree`: a whole range, with nothing mapped.
    pub fn unreserve(&mut self, base: usize, length: usize) -> Result {
        let range = self.ranges.get(&base).ok_or(Error::INVALID_VALUE)?;
        if range.length != length || !range.mappings.is_empty() {
            return Err(Error::INVALID_VALUE);
        }
        self.ranges.remove(&base);
        pages::release(base, length);
        Ok(())
    }

    /// `cuMemCreate`; `is_shared`: for other processes, too.
    pub fn create(
        &mut self,
        state: &SharedState,
        device: MemoryPlacement,
        length: usize,
        is_shared: bool,
    ) -> Result<u64> {
        if length == 0 || !granular(length) {
            return Err(Error::INVALID_VALUE);
        }
        state.charge(device.index, length as u64, false)?;
        let physical = self.physical.entry(device.ordinal).or_default();
        let place = physical.take(length).map(MemoryLocation::Device);
        let place = place.inspect_err(|_| state.uncharge(device.index, length as u64, false))?;
        Ok(self.add(device, length, place, is_shared))
    }

    fn add(&mut self, device: MemoryPlacement, length: usize, place: MemoryLocation, is_shared: bool) -> u64 {
        self.last_handle += 1;
        let memory = DeviceMemory {
            device,
            length,
            place,
            is_shared,
            was_exported: false,
            handles: 1,
            mappings: 0,
        };
        self.memories.insert(self.last_handle, memory);
        self.last_handle
    }

    /// `cuMemExportToShareableHandle`: a descriptor of memory that was made for other processes.
    pub fn export(&mut self, handle: u64) -> Result<OwnedFd> {
        let memory = self.memories.get_mut(&handle).ok_or(Error::INVALID_VALUE)?;
        if !memory.is_shared {
            return Err(Error::INVALID_VALUE);
        }
        let (file, offset) = match &memory.place {
            MemoryLocation::Device(offset) => (self.physical[&memory.device.ordinal].file(), *offset),
            MemoryLocation::Foreign(file, offset) => (file.as_fd(), *offset),
        };
        let descriptor = physical::descriptor_of(file, offset, memory.length)?;
        memory.was_exported = true;
        Ok(descriptor)
    }

    /// `cuMemImportFromShareableHandle`: memory of another process, which is charged for it.
    pub fn import(&mut self, device: MemoryPlacement, file: BorrowedFd<'_>) -> Result<u64> {
        let (offset, length) = physical::part_of(file)?;
        let file = file.try_clone_to_owned().map_err(|_| Error::OPERATING_SYSTEM)?;
        Ok(self.add(device, length, MemoryLocation::Foreign(file, offset), true))
    }

    /// `cuMemRelease`.
    pub fn release(&mut self, state: &SharedState, handle: u64) -> Result {
        let memory = self.memories.get_mut(&handle).filter(|memory| memory.handles > 0);
        memory.ok_or(Error::INVALID_VALUE)?.handles -= 1;
        self.free_if_unused(state, handle);
        Ok(())
    }

    /// `cuMemRetainAllocationHandle`: one more handle to what is mapped at an address.
    pub fn retain(&mut self, address: usize) -> Result<u64> {
        let (_, mapping) = self.mapping(address).ok_or(Error::INVALID_VALUE)?;
        let memory = self
            .memories
            .get_mut(&mapping.handle)
            .ok_or(Error::INVALID_VALUE)?;
        memory.handles += 1;
        Ok(mapping.handle)
    }

    /// The device that a handle's memory is on.
    pub fn device(&self, handle: u64) -> Result<MemoryPlacement> {
        Ok(self.memories.get(&handle).ok_or(Error::INVALID_VALUE)?.device)
    }

    /// `cuMemMap`: a handle's memory from its start, at addresses where nothing is mapped.
    pub fn map(&mut self, address: usize, length: usize, offset: usize, handle: u64) -> Result {
        let memory = self.memories.get_mut(&handle).filter(|memory| memory.handles > 0);
        let memory = memory.ok_or(Error::INVALID_VALUE)?;
        let sound = length != 0 && granular(length) && granular(address) && offset == 0;
        if !sound || length > memory.length {
            return Err(Error::INVALID_VALUE);
        }
        let range = range_of(&mut self.ranges, address, length)?;
        let before = range.mappings.range(..address + length).next_back();
        if before.is_some_and(|(start, mapping)| start + mapping.length > address) {
            return Err(Error::INVALID_VALUE);
        }
        let (file, offset) = match &memory.place {
            MemoryLocation::Device(offset) => (self.physical[&memory.device.ordinal].file(), *offset),
            MemoryLocation::Foreign(file, offset) => (file.as_fd(), *offset),
        };
        pages::map_file(address, length, file, offset as u64)?;
        memory.mappings += 1;
        range.mappings.insert(
            address,
            RangeMapping {
                length,
                handle,
                access: DeviceAccess::default(),
            },
        );
        Ok(())
    }

    /// `cuMemUnmap`: whole mappings, one after another, without holes.
    pub fn unmap(&mut self, state: &SharedState, address: usize, length: usize) -> Result {
        let covered = self.covered(address, length)?;
        pages::empty(address, length)?;
        for start in covered {
            let range = range_of(&mut self.ranges, start, GRANULE)?;
            let Some(mapping) = range.mappings.remove(&start) else {
                continue;
            };
            if let Some(memory) = self.memories.get_mut(&mapping.handle) {
                memory.mappings -= 1;
            }
            self.free_if_unused(state, mapping.handle);
        }
        Ok(())
    }

    /// `cuMemSetAccess` for one device: whole mappings, one after another, without holes.
    pub fn set_access(
        &mut self,
        address: usize,
        length: usize,
        ordinal: usize,
        read: bool,
        write: bool,
    ) -> Result {
        for start in self.covered(address, length)? {
            let range = range_of(&mut self.ranges, start, GRANULE)?;
            let Some(mapping) = range.mappings.get_mut(&start) else {
                continue;
            };
            let bit = 1u32 << (ordinal % MAX_DEVICES);
            let old = mapping.access;
            let set = |mask: u32, on: bool| if on { mask | bit } else { mask & !bit };
            mapping.access = DeviceAccess {
                read: set(old.read, read),
                write: set(old.write, write),
            };
            let DeviceAccess { read, write } = mapping.access;
            if (read != 0, write != 0) != (old.read != 0, old.write != 0) {
                pages::protect(start, mapping.length, read != 0, write != 0)?;
            }
        }
        Ok(())
    }

    /// What lies at `address`; `None` if no range has it.
    pub fn find(&self, address: usize) -> Option<AddressContent> {
        let (&start, range) = self.ranges.range(..=address).next_back()?;
        if address - start >= range.length {
            return None;
        }
        let Some((base, mapping)) = self.mapping(address) else {
            return Some(AddressContent::Reserved);
        };
        let ordinal = self.memories[&mapping.handle].device.ordinal;
        Some(AddressContent::Mapped {
            base,
            length: mapping.length,
            ordinal,
            access: mapping.access,
        })
    }

    /// Whether a device may use what is at `address`, as far as mappings go.
    pub fn is_open_to(&self, address: usize, ordinal: usize) -> bool {
        let mapping = self.mapping(address);
        mapping.is_none_or(|(_, mapping)| mapping.access.read >> ordinal & 1 == 1)
    }

    /// The range that `address` lies in: start and length.
    pub fn range(&self, address: usize) -> Option<(usize, usize)> {
        let (&start, range) = self.ranges.range(..=address).next_back()?;
        (address - start < range.length).then_some((start, range.length))
    }

    fn mapping(&self, address: usize) -> Option<(usize, RangeMapping)> {
        let (_, range) = self.ranges.range(..=address).next_back()?;
        let (&start, &mapping) = range.mappings.range(..=address).next_back()?;
        (address - start < mapping.length).then_some((start, mapping))
    }

    /// The starts of the mappings that make up exactly `address..address + length`.
    fn covered(&self, address: usize, length: usize) -> Result<Vec<usize>> {
        let end = address
            .checked_add(length)
            .filter(|_| length > 0)
            .ok_or(Error::INVALID_VALUE)?;
        let mut starts = Vec::new();
        let mut at = address;
        while at < end {
            let (start, mapping) = self.mapping(at).ok_or(Error::INVALID_VALUE)?;
            if start != at {
                return Err(Error::INVALID_VALUE);
            }
            starts.push(at);
            at += mapping.length;
        }
        if at == end {
            Ok(starts)
        } else {
            Err(Error::INVALID_VALUE)
        }
    }

    fn free_if_unused(&mut self, state: &SharedState, handle: u64) {
        let is_unused = |memory: &DeviceMemory| memory.handles == 0 && memory.mappings == 0;
        if !self.memories.get(&handle).is_some_and(is_unused) {
            return;
        }
        let Some(memory) = self.memories.remove(&handle) else {
            return;
        };
        if let MemoryLocation::Device(offset) = memory.place
            && !memory.was_exported
            && let Some(physical) = self.physical.get_mut(&memory.device.ordinal)
        {
            physical.give(offset, memory.length);
        }
        if !matches!(memory.place, MemoryLocation::Foreign(..)) {
            state.uncharge(memory.device.index, memory.length as u64, false);
        }
    }
}

/// The range that holds all of `address..address + length`.
fn range_of(
    ranges: &mut BTreeMap<usize, ReservedRange>,
    address: usize,
    length: usize,
) -> Result<&mut ReservedRange> {
    let end = address.checked_add(length).ok_or(Error::INVALID_VALUE)?;
    let (start, range) = ranges
        .range_mut(..=address)
        .next_back()
        .ok_or(Error::INVALID_VALUE)?;
    if end <= start + range.length {
        Ok(range)
    } else {
        Err(Error::INVALID_VALUE)
    }
}
