//! `malloc` and `free` of device code.
//!
//! The memory is the host's; what is live is known, so that freeing anything else ends the kernel and not the
//! process. Like a GPU's heap, it has a limit, and outlives the kernel that allocates from it.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// `cudaLimitMallocHeapSize` until a program sets it.
pub const STANDARD_LIMIT: u64 = 8 << 20;

static LIMIT: AtomicU64 = AtomicU64::new(STANDARD_LIMIT);

/// What one allocation takes beyond its bytes.
const GRAIN: u64 = 16;

#[derive(Default)]
struct Heap {
    live: HashMap<usize, Box<[u128]>>,
    used: u64,
}

static HEAP: LazyLock<Mutex<Heap>> = LazyLock::new(Mutex::default);

/// Bytes that device code may allocate in all.
pub fn limit() -> u64 {
    LIMIT.load(Relaxed)
}

/// Sets the [`limit`] of the heap.
pub fn set_limit(bytes: u64) {
    LIMIT.store(bytes, Relaxed);
}

/// Memory for device code, aligned to 16 bytes; null if the heap has no room, or for no bytes.
pub fn allocate(bytes: u64) -> *mut u8 {
    let mut heap = HEAP.lock();
    let Some(takes) = bytes.checked_next_multiple_of(GRAIN) else {
        return std::ptr::null_mut();
    };
    if bytes == 0 || takes > limit().saturating_sub(heap.used) {
        return std::ptr::null_mut();
    }
    let mut memory = vec![0u128; (takes / 16) as usize].into_boxed_slice();
    let start = memory.as_mut_ptr().cast::<u8>();
    heap.live.insert(start as usize, memory);
    heap.used += takes;
    start
}

/// Gives memory back; `false` if it is none that [`allocate`] gave, or was given back before.
pub fn release(memory: *mut u8) -> bool {
    if memory.is_null() {
        return true;
    }
    let mut heap = HEAP.lock();
    let Some(found) = heap.live.remove(&(memory as usize)) else {
        return false;
    };
    heap.used -= 16 * found.len() as u64;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heap_is_bounded_and_knows_its_own() {
        let first = allocate(100);
        assert!(!first.is_null() && (first as usize).is_multiple_of(16));
        assert!(allocate(STANDARD_LIMIT).is_null());
        assert!(allocate(u64::MAX).is_null());
        assert!(!release(first.wrapping_add(16)));
        assert!(release(first) && !release(first) && release(std::ptr::null_mut()));
    }
}
