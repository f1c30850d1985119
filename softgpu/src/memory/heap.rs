//! `cudaMalloc`'s memory of one device.
//!
//! Addresses come from a range that the device keeps for itself, so that an address given back is
//! never the host's, and touching it faults. As the driver does, small allocations share chunks of
//! 2 MiB and large ones take whole chunks; the device is charged by chunks.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

use super::chunk_file::ChunkFile;
use super::extents::FreeExtents;
use super::share::{MemoryHandle, SharedAllocation};
use crate::error::{Error, Result};
use crate::pages;
use crate::state::SharedState;

/// The unit in which the device is charged.
pub const CHUNK: usize = 2 << 20;

/// Allocations from here on take chunks of their own.
const LARGE: usize = 1 << 20;

/// Small allocations are multiples of this, and so aligned.
const GRAIN: usize = 512;

/// Least bytes of addresses that a device keeps.
const LEAST_RANGE: usize = 64 << 30;

/// What an allocation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationUse {
    /// `cudaMalloc` and its like.
    Plain,
    /// `cudaMallocManaged`: the host may touch it.
    Managed,
    /// A module's variables: not the program's to free.
    Variables,
    /// An array: the program has only its handle.
    Array,
    /// A graph's: an address as long as the graph is there, with memory behind it when it runs.
    Graph,
    /// Another process's, which is charged for it.
    Foreign,
}

/// One live allocation.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// Its first byte.
    pub base: usize,
    /// Bytes asked for.
    pub size: usize,
    /// The use that the memory was allocated for.
    pub purpose: AllocationUse,
}

/// The heap of one device.
#[derive(Debug, Default)]
pub struct Heap {
    /// Physical index of the device, for the ledger of the shared state.
    device: usize,
    range: Option<(usize, usize)>,
    addresses: FreeExtents,
    small: FreeExtents,
    live: BTreeMap<usize, Allocation>,
    charged: u64,
    /// Graphs' memory that is there.
    taken: BTreeSet<usize>,
    /// Behind the chunks of small allocations.
    chunk_file: ChunkFile,
    /// Large allocations that lie in files, for other processes: by the first byte, the file and its bytes.
    shared: BTreeMap<usize, (OwnedFd, usize)>,
}

impl Heap {
    /// An empty heap of a device.
    pub fn new(device: usize) -> Heap {
        Heap {
            device,
            ..Heap::default()
        }
    }

    /// Allocates `size` bytes, which must not be zero.
    pub fn allocate(&mut self, state: &SharedState, size: usize, purpose: AllocationUse) -> Result<usize> {
        let total = state.devices()[self.device].memory as usize;
        if size > total {
            return Err(Error::MEMORY_ALLOCATION);
        }
        self.reserve_addresses(total)?;
        let base = if size >= LARGE {
            self.take_chunks(state, size.next_multiple_of(CHUNK), pages::fill)?
        } else {
            let length = size.next_multiple_of(GRAIN);
            // In one chunk, which is what other processes get of it.
            match self.small.take_within(length, CHUNK) {
                Some(base) => base,
                None => {
                    let mut file = std::mem::take(&mut self.chunk_file);
                    let chunk = self.take_chunks(state, CHUNK, |base, bytes| file.fill(base, bytes));
                    self.chunk_file = file;
                    let chunk = chunk?;
                    self.small.give(chunk, CHUNK);
                    self.small
                        .take_within(length, CHUNK)
                        .ok_or(Error::MEMORY_ALLOCATION)?
                }
            }
        };
        self.live.insert(base, Allocation { base, size, purpose });
        Ok(base)
    }

    /// An address for so many bytes of a graph's, with nothing behind it.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION` for no addresses.
    pub fn promise(&mut self, state: &SharedState, size: usize) -> Result<usize> {
        self.reserve_addresses(state.devices()[self.device].memory as usize)?;
        let length = size
            .checked_next_multiple_of(CHUNK)
            .ok_or(Error::MEMORY_ALLOCATION)?;
        let base = self.addresses.take(length).ok_or(Error::MEMORY_ALLOCATION)?;
        let purpose = AllocationUse::Graph;
        self.live.insert(base, Allocation { base, size, purpose });
        Ok(base)
    }

    /// Puts memory behind an address that was promised; the bytes that it took.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no such address, `MEMORY_ALLOCATION`.
    pub fn fulfil(&mut self, state: &SharedState, base: usize) -> Result<u64> {
        let length = self.promised(base)?;
        if self.taken.contains(&base) {
            return Ok(0);
        }
        state.charge(self.device, length as u64, false)?;
        pages::fill(base, length).inspect_err(|_| state.uncharge(self.device, length as u64, false))?;
        self.charged += length as u64;
        self.taken.insert(base);
        Ok(length as u64)
    }

    /// Takes it away again, and leaves the address; the bytes that it was.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no such address.
    pub fn withdraw(&mut self, state: &SharedState, base: usize) -> Result<u64> {
        let length = self.promised(base)?;
        if !self.taken.remove(&base) {
            return Ok(0);
        }
        pages::empty(base, length)?;
        self.charged -= length as u64;
        state.uncharge(self.device, length as u64, false);
        Ok(length as u64)
    }

    /// Forgets an address that was promised; the bytes that were behind it.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no such address.
    pub fn forget(&mut self, state: &SharedState, base: usize) -> Result<u64> {
        let bytes = self.withdraw(state, base)?;
        self.addresses.give(base, self.promised(base)?);
        self.live.remove(&base);
        Ok(bytes)
    }

    fn promised(&self, base: usize) -> Result<usize> {
        let found = self
            .live
            .get(&base)
            .filter(|found| found.purpose == AllocationUse::Graph);
        Ok(found.ok_or(Error::INVALID_VALUE)?.size.next_multiple_of(CHUNK))
    }

    /// Frees the allocation that starts at `base`.
    ///
    /// # Errors
    /// `INVALID_VALUE` if none does.
    pub fn free(&mut self, state: &SharedState, base: usize) -> Result {
        let allocation = *self.live.get(&base).ok_or(Error::INVALID_VALUE)?;
        self.live.remove(&base);
        if allocation.size >= LARGE {
            return self.give_chunks(state, base, allocation.size.next_multiple_of(CHUNK));
        }
        let (start, length) = self.small.give(base, allocation.size.next_multiple_of(GRAIN));
        let first = start.next_multiple_of(CHUNK);
        let last = (start + length) / CHUNK * CHUNK;
        if first < last && self.small.take_at(first, last - first) {
            self.give_chunks(state, first, last - first)?;
        }
        Ok(())
    }

    /// The allocation that `address` lies in.
    pub fn find(&self, address: usize) -> Option<Allocation> {
        let (_, &allocation) = self.live.range(..=address).next_back()?;
        (address - allocation.base < allocation.size).then_some(allocation)
    }

    /// Whether `address` is one of this heap's, allocated or not.
    pub fn owns(&self, address: usize) -> bool {
        self.range
            .is_some_and(|(start, length)| address.wrapping_sub(start) < length)
    }

    /// Frees everything, as when the context goes.
    pub fn clear(&mut self, state: &SharedState) {
        if let Some((start, length)) = self.range.take() {
            pages::release(start, length);
        }
        state.uncharge(self.device, self.charged, false);
        *self = Heap::new(self.device);
    }

    /// The file that the allocation around an address lies in; a large one is put into one first.
    ///
    /// # Errors
    /// `INVALID_VALUE` if none does, or not the program's own; `MEMORY_ALLOCATION`, `OPERATING_SYSTEM`.
    pub fn share(&mut self, base: usize) -> Result<SharedAllocation> {
        // Any address of an allocation stands for all of it.
        let below = self.live.range(..=base).next_back();
        let inside = |&(&start, found): &(&usize, &Allocation)| {
            found.purpose == AllocationUse::Plain && base - start < found.size
        };
        let (&base, allocation) = below.filter(inside).ok_or(Error::INVALID_VALUE)?;
        let size = allocation.size;
        if size < LARGE {
            let start = base / CHUNK * CHUNK;
            let (file, at) = self.chunk_file.share(start).ok_or(Error::INVALID_VALUE)?;
            return SharedAllocation::of(file, at, CHUNK, base - start, size);
        }
        let length = size.next_multiple_of(CHUNK);
        let file = match self.shared.entry(base) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => free.insert((pages::into_file(base, length)?, length)),
        };
        SharedAllocation::of(&file.0, 0, length, 0, size)
    }

    /// Takes in another process's memory; its first byte here.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION` for no addresses.
    pub fn adopt(&mut self, file: &OwnedFd, handle: &MemoryHandle) -> Result<usize> {
        let (at, length, offset, size) = handle.extent();
        let total = crate::state::shared()?.devices()[self.device].memory as usize;
        self.reserve_addresses(total)?;
        let start = self.addresses.take(length).ok_or(Error::MEMORY_ALLOCATION)?;
        pages::map_file(start, length, file.as_fd(), at)?;
        pages::protect(start, length, true, true)?;
        let base = start + offset;
        let purpose = AllocationUse::Foreign;
        self.live.insert(base, Allocation { base, size, purpose });
        Ok(start)
    }

    /// Lets go of another process's memory.
    ///
    /// # Errors
    /// `INVALID_VALUE` where there is none.
    pub fn abandon(&mut self, base: usize, start: usize, length: usize) -> Result {
        self.live.remove(&base).ok_or(Error::INVALID_VALUE)?;
        pages::empty(start, length)?;
        self.addresses.give(start, length);
        Ok(())
    }

    fn reserve_addresses(&mut self, total: usize) -> Result {
        if self.range.is_some() {
            return Ok(());
        }
        // Four times the device, so that holes between allocations never run out before the memory does.
        let length = total.saturating_mul(4).next_multiple_of(CHUNK).max(LEAST_RANGE);
        let start = pages::reserve(0, length, CHUNK)?;
        self.range = Some((start, length));
        self.addresses.give(start, length);
        Ok(())
    }

    fn take_chunks(
        &mut self,
        state: &SharedState,
        length: usize,
        fill: impl FnOnce(usize, usize) -> Result,
    ) -> Result<usize> {
        state.charge(self.device, length as u64, false)?;
        let taken = self
            .addresses
            .take(length)
            .ok_or(Error::MEMORY_ALLOCATION)
            .and_then(|base| {
                fill(base, length).inspect_err(|_| {
                    self.addresses.give(base, length);
                })?;
                Ok(base)
            });
        match taken {
            Ok(_) => self.charged += length as u64,
            Err(_) => state.uncharge(self.device, length as u64, false),
        }
        taken
    }

    fn give_chunks(&mut self, state: &SharedState, base: usize, length: usize) -> Result {
        pages::empty(base, length)?;
        self.chunk_file.forget(base, length, CHUNK);
        self.shared
            .retain(|start, _| !(base..base + length).contains(start));
        self.addresses.give(base, length);
        self.charged -= length as u64;
        state.uncharge(self.device, length as u64, false);
        Ok(())
    }
}
