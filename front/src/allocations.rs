//! What plain allocations are: *blocks* at addresses of the arena, in *extents* of physical memory that the
//! front maps there by itself. So their memory can leave the GPU, and come back under the same addresses.
//!
//! An extent has one block, or many small ones of one device. A few extents without blocks stay mapped as
//! *spares*: a program that allocates and frees in turn gets them again, without a call of the driver.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::LazyLock;

use mgb_core::arena::{Arena, Pool, extent_bytes, extent_of};
use mgb_core::host_bytes::HostBytes;
use mgb_core::memory::{Physical, Range, Spare, Spares};
use parking_lot::{Mutex, MutexGuard};

use crate::calls::{Code, Context, driver};
use crate::mapping::{back, lend, release};
use crate::{range, room};

/// Where an extent's bytes are.
#[derive(Debug)]
pub enum Backing {
    /// In physical memory of its device.
    Device(Physical),
    /// In host memory: they were swapped out.
    Host(HostBytes),
}

/// Memory that other processes may use.
#[derive(Debug)]
pub struct ExportedMemory {
    file: OwnedFd,
    /// No other memory of this process has this number, also where it has the same addresses later.
    pub number: u64,
}

/// A run of granules that is mapped and swapped as one.
#[derive(Debug)]
pub struct Extent {
    /// Its bytes, in whole granules.
    pub length: u64,
    /// The device that it is charged on.
    pub device: c_int,
    /// Where its bytes are.
    pub backing: Backing,
    /// What other processes get, which may use it.
    pub shared: Option<ExportedMemory>,
    /// Somebody beside the program's own work uses it: it stays where it is.
    pub stays: bool,
}

/// An allocation of the program in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its bytes, as asked for.
    pub bytes: u64,
    /// The device that it is charged on.
    pub device: c_int,
    /// The context that it is freed with at the latest.
    pub context: Context,
    /// The program has freed it, and work may still use it.
    pub is_freed: bool,
    /// No other block of this process has it, also where one has the same address later.
    pub number: u64,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Store {
    arena: Option<Arena>,
    has_no_arena: bool,
    /// The extents, by first address.
    pub extents: BTreeMap<u64, Extent>,
    /// The allocations, by first address.
    blocks: BTreeMap<u64, Block>,
    /// The free parts of extents of small blocks.
    pools: HashMap<c_int, Pool>,
    /// What was behind extents of which all blocks are freed. It stays charged.
    spares: Spares<c_int>,
    /// Devices that may use all of it, beside each extent's own.
    guests: Vec<c_int>,
    /// How many blocks there were so far: the last one's number.
    placed: u64,
    /// How much memory was shared with other processes so far: the last one's number.
    shares: u64,
}

static STORE: LazyLock<Mutex<Store>> = LazyLock::new(Mutex::default);

/// Locks the store. The caller is inside the gate, or has closed it, where it changes what is mapped.
pub fn lock() -> MutexGuard<'static, Store> {
    STORE.lock()
}

impl Extent {
    fn new(length: u64, device: c_int, memory: Physical) -> Extent {
        Extent {
            length,
            device,
            backing: Backing::Device(memory),
            shared: None,
            stays: false,
        }
    }
}

impl Store {
    /// Whether there are addresses for allocations.
    pub fn has_arena(&mut self) -> bool {
        if self.arena.is_none() && !self.has_no_arena {
            self.arena = if range::may_swap() { range::reserve() } else { None };
            self.has_no_arena = self.arena.is_none();
        }
        self.arena.is_some() && !self.has_no_arena
    }

    /// Places a block where memory is mapped already.
    pub fn reuse(&mut self, bytes: u64, device: c_int, context: Context) -> Option<u64> {
        let length = extent_bytes(bytes)?;
        let extent = || {
            let Spare { range, memory, .. } = self.spares.take(length, |of| of == device)?;
            self.extents
                .insert(range.start, Extent::new(length, device, memory));
            Some(range.start)
        };
        let address = self.pools.entry(device).or_default().place(bytes, extent)?;
        Some(self.insert(address, bytes, device, context))
    }

    /// Maps a new extent, which is charged, and places a block in it that [`Store::reuse`] has found no place for.
    ///
    /// # Errors
    /// The driver's, or that there are no addresses.
    pub fn map(&mut self, bytes: u64, device: c_int, context: Context) -> Result<u64, Code> {
        let arena = self.arena.as_mut().ok_or(Code::INVALID_VALUE)?;
        let (start, length) = arena.take(bytes).ok_or(Code::MEMORY_ALLOCATION)?;
        match back(Range::new(start, length), device, &self.guests) {
            Ok(memory) => {
                room::mapped(device, length);
                self.extents.insert(start, Extent::new(length, device, memory));
            }
            Err(code) => {
                arena.give(start, length);
                return Err(code);
            }
        }
        let pool = self.pools.entry(device).or_default();
        let address = pool
            .place(bytes, || Some(start))
            .expect("an empty granule has room");
        Ok(self.insert(address, bytes, device, context))
    }

    /// A block is there, with a number of its own; its address.
    fn insert(&mut self, address: u64, bytes: u64, device: c_int, context: Context) -> u64 {
        self.placed += 1;
        let block = Block {
            bytes,
            device,
            context,
            is_freed: false,
            number: self.placed,
        };
        self.blocks.insert(address, block);
        address
    }

    /// The block that an address lies in, and its start.
    pub fn find(&self, address: u64) -> Option<(u64, Block)> {
        if !self.arena.as_ref()?.contains(address) {
            return None;
        }
        let (&start, &block) = self.blocks.range(..=address).next_back()?;
        (address - start < block.bytes).then_some((start, block))
    }

    /// The block that starts at the address.
    pub fn block(&self, address: u64) -> Option<Block> {
        self.blocks.get(&address).copied()
    }

    /// Whether the address is one of the arena's, whatever is there.
    pub fn is_in_arena(&self, address: u64) -> bool {
        self.arena.as_ref().is_some_and(|arena| arena.contains(address))
    }

    /// The program frees the block that starts at the address; none where that is not the arena's. An error: no
    /// block starts there any more. The driver must not be asked: it may still have freed memory mapped there.
    pub fn begin_free(&mut self, address: u64) -> Option<Result<Block, ()>> {
        let is_in_arena = self.is_in_arena(address);
        let Some(block) = self.blocks.get_mut(&address) else {
            return is_in_arena.then_some(Err(()));
        };
        let was_freed = std::mem::replace(&mut block.is_freed, true);
        Some(if was_freed { Err(()) } else { Ok(*block) })
    }

    /// The block is not freed after all.
    pub fn undo_free(&mut self, address: u64) {
        if let Some(block) = self.blocks.get_mut(&address) {
            block.is_freed = false;
        }
    }

    /// Frees a block that no work uses any more. The bytes on its device that are not mapped any more.
    pub fn free(&mut self, address: u64) -> Option<(c_int, u64)> {
        let block = self.blocks.remove(&address)?;
        let pool = self.pools.entry(block.device).or_default();
        let Some(start) = pool.give(address, block.bytes) else {
            return Some((block.device, 0));
        };
        let extent = self.extents.remove(&start)?;
        let range = Range::new(start, extent.length);
        let Backing::Device(memory) = extent.backing else {
            self.recycle(range);
            return Some((extent.device, range.bytes));
        };
        let spare = Spare {
            range,
            device: extent.device,
            memory,
        };
        let most = if extent.stays {
            0
        } else {
            room::may_keep(extent.device)
        };
        let gone = self.spares.keep(spare, most);
        Some((extent.device, gone.map_or(0, |spare| self.unmap(spare))))
    }

    /// Unmaps a device's spares; their bytes.
    pub fn release_spares(&mut self, device: c_int) -> u64 {
        let gone = self.spares.take_all(Some(device)).into_iter();
        gone.map(|spare| self.unmap(spare)).sum()
    }

    /// Takes away what was behind an extent; its bytes.
    fn unmap(&mut self, spare: Spare<c_int>) -> u64 {
        let Spare {
            range,
            device,
            memory,
        } = spare;
        room::unmapping(device, range.bytes);
        release(range, memory);
        self.recycle(range);
        range.bytes
    }

    /// Addresses with nothing behind them are free again.
    fn recycle(&mut self, range: Range) {
        if let Some(arena) = self.arena.as_mut() {
            arena.give(range.start, range.bytes);
        }
    }

    /// Frees all blocks of a context, which is gone. What is not mapped any more, by device.
    pub fn forget(&mut self, context: Context) -> Vec<(c_int, u64)> {
        let of = |(start, block): (&u64, &Block)| (block.context == context).then_some(*start);
        let gone: Vec<u64> = self.blocks.iter().filter_map(of).collect();
        gone.into_iter().filter_map(|start| self.free(start)).collect()
    }

    /// Lets another device use all that is there, and all that will be.
    pub fn welcome(&mut self, device: c_int) {
        if self.guests.contains(&device) {
            return;
        }
        self.guests.push(device);
        let extents = self
            .extents
            .iter()
            .map(|(&start, extent)| (Range::new(start, extent.length), extent.device));
        let spares = self.spares.iter().map(|spare| (spare.range, spare.device));
        for (range, _) in extents.chain(spares).filter(|(_, of)| *of != device) {
            lend(range, device);
        }
    }

    /// Puts memory behind an extent whose bytes were in host memory. Not the bytes.
    ///
    /// # Errors
    /// The driver's.
    pub fn back(&self, start: u64) -> Result<Physical, Code> {
        let extent = self.extents.get(&start).ok_or(Code::INVALID_VALUE)?;
        back(Range::new(start, extent.length), extent.device, &self.guests)
    }

    /// Lets other processes have an extent, which stays where it is from here on; its bytes and the number of its
    /// memory. The caller is inside the gate: no extent is in host memory. Nothing is waited for: the memory was
    /// made so that it can be exported.
    ///
    /// # Errors
    /// The driver's.
    pub fn share(&mut self, start: u64) -> Result<(u64, u64), Code> {
        let extent = self.extents.get_mut(&start).ok_or(Code::INVALID_VALUE)?;
        if let Some(shared) = &extent.shared {
            return Ok((extent.length, shared.number));
        }
        let Backing::Device(memory) = &extent.backing else {
            return Err(Code::INVALID_VALUE);
        };
        let file = driver().export(memory.handle())?;
        self.shares += 1;
        extent.shared = Some(ExportedMemory {
            // SAFETY: made just now, for this alone.
            file: unsafe { OwnedFd::from_raw_fd(file) },
            number: self.shares,
        });
        extent.stays = true;
        Ok((extent.length, self.shares))
    }

    /// A descriptor of the memory with this number at an extent that other processes may have. `None`: it was
    /// freed; other memory may be there now.
    pub fn shared_file(&self, start: u64, number: u64) -> Option<OwnedFd> {
        let shared = self.extents.get(&start)?.shared.as_ref()?;
        let is_it = shared.number == number;
        is_it.then(|| shared.file.try_clone().ok()).flatten()
    }

    /// The memory at the address stays where it is: another device than a GPU may use it.
    pub fn stay(&mut self, address: u64) {
        if let Some((start, _)) = self.find(address)
            && let Some(extent) = self.extents.get_mut(&extent_of(start))
        {
            extent.stays = true;
        }
    }

    /// There are no addresses for allocations from here on: the device does not map memory by itself.
    pub fn give_up(&mut self) {
        self.has_no_arena = true;
    }

    /// Whether other processes may have any.
    pub fn has_shared(&self) -> bool {
        self.extents.values().any(|extent| extent.shared.is_some())
    }
}
