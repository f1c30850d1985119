//! Pinned host memory: what `cudaMallocHost` handed out and what `cudaHostRegister` registered.

use std::collections::BTreeMap;

use parking_lot::RwLock;

use crate::error::{Error, Result};
use crate::pages;

/// A pinned range.
#[derive(Clone, Copy, Debug)]
pub struct Pinned {
    /// Its first byte.
    pub base: usize,
    /// The size of the memory in bytes.
    pub size: usize,
    /// `cudaHostAlloc`'s or `cudaHostRegister`'s flags.
    pub flags: u32,
    registered: bool,
}

/// Addresses of programs end before this one.
const ADDRESSES: usize = 1 << 56;

static RANGES: RwLock<BTreeMap<usize, Pinned>> = RwLock::new(BTreeMap::new());

/// Allocates pinned memory.
pub fn allocate(size: usize, flags: u32) -> Result<usize> {
    let length = size
        .checked_next_multiple_of(pages::PAGE)
        .ok_or(Error::MEMORY_ALLOCATION)?;
    let base = pages::reserve(0, length, pages::PAGE)?;
    pages::fill(base, length).inspect_err(|_| pages::release(base, length))?;
    RANGES.write().insert(
        base,
        Pinned {
            base,
            size,
            flags,
            registered: false,
        },
    );
    Ok(base)
}

/// Frees what [`allocate`] gave.
pub fn free(base: usize) -> Result {
    let mut ranges = RANGES.write();
    let range = ranges
        .get(&base)
        .filter(|range| !range.registered)
        .ok_or(Error::INVALID_VALUE)?;
    pages::release(base, range.size.next_multiple_of(pages::PAGE));
    ranges.remove(&base);
    Ok(())
}

/// Notes that a range of the program's own memory is pinned.
pub fn register(base: usize, size: usize, flags: u32) -> Result {
    let end = base.checked_add(size).filter(|&end| end <= ADDRESSES);
    let Some(end) = end.filter(|_| base != 0 && size != 0) else {
        return Err(Error::INVALID_VALUE);
    };
    let mut ranges = RANGES.write();
    let overlaps = ranges
        .range(..end)
        .next_back()
        .is_some_and(|(_, r)| r.base + r.size > base);
    if overlaps {
        return Err(Error::HOST_MEMORY_ALREADY_REGISTERED);
    }
    ranges.insert(
        base,
        Pinned {
            base,
            size,
            flags,
            registered: true,
        },
    );
    Ok(())
}

/// Takes back what [`register`] noted.
pub fn unregister(base: usize) -> Result {
    let mut ranges = RANGES.write();
    if !ranges.get(&base).is_some_and(|range| range.registered) {
        return Err(Error::HOST_MEMORY_NOT_REGISTERED);
    }
    ranges.remove(&base);
    Ok(())
}

/// The pinned range that `address` lies in.
pub fn find(address: usize) -> Option<Pinned> {
    let ranges = RANGES.read();
    let (_, &range) = ranges.range(..=address).next_back()?;
    (address - range.base < range.size).then_some(range)
}
