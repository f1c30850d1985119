//! Pools: what was allocated in stream order, from which pool, and how much. The memory itself is the
//! device's heap's, which gives addresses back at once, so that a pool keeps nothing that it does not use.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::heap::CHUNK;
use crate::error::{Error, Result};

/// A memory pool of a device.
#[derive(Clone, Copy, Debug)]
pub struct MemoryPool {
    /// Its device; [`HOST`] for pools of host memory.
    pub ordinal: usize,
    /// Most bytes it may hold; zero: as many as the device has.
    pub most: u64,
    /// `cudaMemPoolAttr`s that the program sets: three switches and the release threshold.
    pub settings: [u64; 4],
    /// Bytes in use, now and at most.
    pub used: Level,
    /// The same in whole chunks.
    pub reserved: Level,
    /// Devices that may use its memory, a bit each.
    pub readers: u64,
}

/// A figure, and the highest that it was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Level {
    /// The bytes of the level now.
    pub now: u64,
    /// At most so far.
    pub high: u64,
}

impl Level {
    fn set(&mut self, now: u64) {
        self.now = now;
        self.high = self.high.max(now);
    }
}

/// An allocation. It may outlive its pool.
#[derive(Clone, Copy, Debug)]
struct Live {
    pool: usize,
    size: u64,
    /// The ordinal of the device, as [`MemoryPool::ordinal`].
    ordinal: usize,
}

#[derive(Default)]
struct Pools {
    pools: BTreeMap<usize, MemoryPool>,
    /// Each allocation, by its address.
    live: BTreeMap<usize, Live>,
    /// The pool that a device allocates from, where it is not the default one.
    chosen: BTreeMap<usize, usize>,
    made: usize,
}

static POOLS: Mutex<Pools> = Mutex::new(Pools {
    pools: BTreeMap::new(),
    live: BTreeMap::new(),
    chosen: BTreeMap::new(),
    made: 0,
});

/// The ordinal of pools that have pinned host memory, which every device may use.
pub const HOST: usize = usize::MAX;

/// Handles are numbers that are no addresses of anything: those of default pools first.
const FIRST_DEFAULT: usize = 0xb001_0000_0000;
const FIRST_MADE: usize = 0xb001_0001_0000;

impl MemoryPool {
    fn new(ordinal: usize, most: u64) -> MemoryPool {
        MemoryPool {
            ordinal,
            most,
            settings: [1, 1, 1, 0],
            used: Level::default(),
            reserved: Level::default(),
            readers: if ordinal == HOST { u64::MAX } else { 1 << ordinal },
        }
    }
}

/// The default pool of a device.
pub fn default_of(ordinal: usize) -> usize {
    let handle = FIRST_DEFAULT + ordinal * 16;
    let mut pools = POOLS.lock();
    pools
        .pools
        .entry(handle)
        .or_insert_with(|| MemoryPool::new(ordinal, 0));
    handle
}

/// The pool that a device allocates from.
pub fn of(ordinal: usize) -> usize {
    let chosen = POOLS.lock().chosen.get(&ordinal).copied();
    chosen.unwrap_or_else(|| default_of(ordinal))
}

/// Chooses the pool that a device allocates from.
///
/// # Errors
/// `INVALID_VALUE` for no pool, or another device's.
pub fn choose(ordinal: usize, pool: usize) -> Result {
    if with(pool, |pool| pool.ordinal)? != ordinal {
        return Err(Error::INVALID_VALUE);
    }
    POOLS.lock().chosen.insert(ordinal, pool);
    Ok(())
}

/// A new pool.
pub fn create(ordinal: usize, most: u64) -> usize {
    let mut pools = POOLS.lock();
    pools.made += 1;
    let handle = FIRST_MADE + pools.made * 16;
    pools.pools.insert(handle, MemoryPool::new(ordinal, most));
    handle
}

/// Ends a pool; what was allocated from it stays. A device that allocated from it goes back to its default
/// one.
///
/// # Errors
/// `INVALID_VALUE` for no pool, or a default one.
pub fn destroy(pool: usize) -> Result {
    let mut pools = POOLS.lock();
    if pool < FIRST_MADE || pools.pools.remove(&pool).is_none() {
        return Err(Error::INVALID_VALUE);
    }
    pools.chosen.retain(|_, &mut chosen| chosen != pool);
    Ok(())
}

/// Looks at a pool, or changes it.
///
/// # Errors
/// `INVALID_VALUE` for no pool.
pub fn with<T>(pool: usize, body: impl FnOnce(&mut MemoryPool) -> T) -> Result<T> {
    POOLS
        .lock()
        .pools
        .get_mut(&pool)
        .map(body)
        .ok_or(Error::INVALID_VALUE)
}

/// The device of a pool that may still hand out `size` bytes.
///
/// # Errors
/// `INVALID_VALUE` for no pool, `MEMORY_ALLOCATION` for more than its limit.
pub fn reserve(pool: usize, size: usize) -> Result<usize> {
    let (ordinal, most, used) = with(pool, |pool| (pool.ordinal, pool.most, pool.used.now))?;
    if most != 0 && used + size as u64 > most {
        return Err(Error::MEMORY_ALLOCATION);
    }
    Ok(ordinal)
}

/// Notes an allocation of a pool.
pub fn note(pool: usize, address: usize, size: usize) {
    let size = size as u64;
    if let Ok(ordinal) = with(pool, |pool| pool.ordinal) {
        POOLS.lock().live.insert(address, Live { pool, size, ordinal });
        count(pool, |used| used + size);
    }
}

/// Whether an allocation of a pool of host memory starts at the address.
pub fn is_of_host(address: usize) -> bool {
    let pools = POOLS.lock();
    pools.live.get(&address).is_some_and(|live| live.ordinal == HOST)
}

/// Whether a device may use what lies at an address: memory of a pool is for its own device, and those that
/// were given access; all other memory is not asked about here.
pub fn is_open_to(address: usize, ordinal: usize) -> bool {
    let pools = POOLS.lock();
    let below = pools.live.range(..=address).next_back();
    let inside = below.filter(|(base, live)| address - **base < live.size as usize);
    let pool = inside.and_then(|(_, live)| pools.pools.get(&live.pool));
    pool.is_none_or(|pool| pool.readers >> ordinal & 1 == 1)
}

/// Notes that an address was freed.
pub fn forget(address: usize) {
    let found = POOLS.lock().live.remove(&address);
    if let Some(Live { pool, size, .. }) = found {
        count(pool, |used| used.saturating_sub(size));
    }
}

/// Notes that a device's context went, with all memory.
pub fn clear(ordinal: usize) {
    let mut pools = POOLS.lock();
    let Pools {
        pools, live, chosen, ..
    } = &mut *pools;
    live.retain(|_, live| live.ordinal != ordinal);
    pools.retain(|_, pool| pool.ordinal != ordinal);
    chosen.remove(&ordinal);
}

fn count(pool: usize, change: impl FnOnce(u64) -> u64) {
    // The pool may have been destroyed before its memory.
    let _ = with(pool, |pool| {
        let used = change(pool.used.now);
        pool.used.set(used);
        pool.reserved.set(used.next_multiple_of(CHUNK as u64));
    });
}
