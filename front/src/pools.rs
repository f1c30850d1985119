//! Allocations in stream order, and the pools that they come from. A pool is charged on the device whose memory
//! it has, whichever is current; pools of host memory, and those of other processes, are not charged.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use mgb_abi::location::{LOCATION_DEVICE, MemLocation};
use mgb_abi::pool::MemPoolProps;
use parking_lot::Mutex;

use crate::calls::{Code, Stream, driver};
use crate::native::{own, per_thread};
use crate::sources::{self, Source, Want};
use crate::{room, session};

/// What is known of a pool.
#[derive(Clone, Copy, Debug)]
struct PoolRecord {
    /// The device that it is charged on; `None`: its memory is no device's, or another process's.
    device: Option<c_int>,
    /// The program has made it with a limit.
    is_limited: bool,
}

static POOLS: Mutex<Option<HashMap<usize, PoolRecord>>> = Mutex::new(None);

fn note(pool: usize, device: Option<c_int>, is_limited: bool) {
    let known = PoolRecord { device, is_limited };
    POOLS.lock().get_or_insert_default().insert(pool, known);
}

/// What is known of a pool, which is looked up if nothing is.
fn known(pool: usize, current: c_int) -> PoolRecord {
    if let Some(known) = POOLS.lock().get_or_insert_default().get(&pool) {
        return *known;
    }
    // The default one of a device, which nobody has made.
    let devices = session::get().map_or(0, |session| session.gpus.len() as c_int);
    let of = (0..devices).find(|device| driver().default_pool_of(*device) == Some(pool));
    let device = Some(of.unwrap_or(current));
    note(pool, device, false);
    PoolRecord {
        device,
        is_limited: false,
    }
}

/// Allocates in a stream.
///
/// # Safety
/// A success of the call writes `pointer`, unless it is null.
unsafe fn allocate(
    pool: Option<usize>,
    (pointer, bytes, stream): (*mut u64, usize, Stream),
    call: impl Fn() -> Code,
) -> Code {
    let device = driver().device();
    let (Some(_), Ok(current)) = (session::get(), device) else {
        return call();
    };
    if pointer.is_null() || bytes == 0 || bytes as u64 > room::MAX_CHARGED_BYTES {
        return call();
    }
    // A node of a graph, for which memory is taken when that is launched.
    if driver().is_capturing(stream) {
        return call();
    }
    let Some(pool) = pool.or_else(|| driver().pool_of(current)) else {
        return call();
    };
    let known = known(pool, current);
    let Some(device) = known.device else {
        return call();
    };
    let want = Want {
        source: Source::Pool(pool),
        device,
        bytes: bytes as u64,
        is_limited: known.is_limited,
    };
    sources::take(&[want], call, || {
        // SAFETY: just allocated; the program does not have the address.
        unsafe { driver().free_in(pointer.read(), stream) == Code::SUCCESS }
    })
}

/// The device whose memory the location names; `None`: no device's.
///
/// # Safety
/// `location` is null or can be read.
unsafe fn device_at(location: *const MemLocation) -> Option<c_int> {
    // SAFETY: contract of this function.
    let location = unsafe { location.as_ref() };
    location
        .filter(|location| location.kind == LOCATION_DEVICE)
        .map(|location| location.id)
}

/// A call has made a pool, and written its handle.
///
/// # Safety
/// `pool` is null or was written, if `code` is a success.
unsafe fn made(code: Code, pool: *const usize, device: Option<c_int>, is_limited: bool) -> Code {
    // SAFETY: contract of this function.
    if let Some(pool) = unsafe { pool.as_ref() }.filter(|_| code == Code::SUCCESS) {
        note(*pool, device, is_limited);
    }
    code
}

/// A call has written the handle of a pool that was there.
///
/// # Safety
/// As of [`made`].
unsafe fn seen(code: Code, pool: *const usize, device: Option<c_int>) -> Code {
    // SAFETY: contract of this function.
    if let Some(pool) = unsafe { pool.as_ref() }.filter(|_| code == Code::SUCCESS) {
        let mut pools = POOLS.lock();
        pools.get_or_insert_default().entry(*pool).or_insert(PoolRecord {
            device,
            is_limited: false,
        });
    }
    code
}

own! {
    fn cuMemAllocAsync(pointer: *mut u64, bytes: usize, stream: Stream) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { allocate(None, (pointer, bytes, stream), || native(pointer, bytes, stream)) }
    }

    fn cuMemAllocAsync_ptsz(pointer: *mut u64, bytes: usize, stream: Stream) |native| {
        let own = per_thread(stream);
        // SAFETY: CUDA's contract of the function.
        unsafe { allocate(None, (pointer, bytes, own), || native(pointer, bytes, stream)) }
    }

    fn cuMemAllocFromPoolAsync(pointer: *mut u64, bytes: usize, pool: usize, stream: Stream) |native| {
        let call = || native(pointer, bytes, pool, stream);
        // SAFETY: CUDA's contract of the function.
        unsafe { allocate(Some(pool), (pointer, bytes, stream), call) }
    }

    fn cuMemAllocFromPoolAsync_ptsz(pointer: *mut u64, bytes: usize, pool: usize, stream: Stream) |native| {
        let (own, call) = (per_thread(stream), || native(pointer, bytes, pool, stream));
        // SAFETY: CUDA's contract of the function.
        unsafe { allocate(Some(pool), (pointer, bytes, own), call) }
    }

    fn cuMemPoolCreate(pool: *mut usize, properties: *const MemPoolProps) |native| {
        let code = native(pool, properties);
        // SAFETY: null or whole structures: CUDA's contract of the function.
        unsafe {
            let device = properties.as_ref().and_then(|properties| device_at(&properties.location));
            let is_limited = properties.as_ref().is_some_and(|properties| properties.max_size > 0);
            made(code, pool, device, is_limited)
        }
    }

    /// What other processes have allocated is theirs to be charged.
    fn cuMemPoolImportFromShareableHandle(
        pool: *mut usize, handle: *mut c_void, kind: c_int, flags: c_ulonglong,
    ) |native| {
        let code = native(pool, handle, kind, flags);
        // SAFETY: CUDA's contract of the function.
        unsafe { made(code, pool, None, true) }
    }

    fn cuMemGetDefaultMemPool(pool: *mut usize, location: *mut MemLocation, kind: c_uint) |native| {
        let code = native(pool, location, kind);
        // SAFETY: CUDA's contract of the function.
        unsafe { seen(code, pool, device_at(location)) }
    }

    fn cuMemGetMemPool(pool: *mut usize, location: *mut MemLocation, kind: c_uint) |native| {
        let code = native(pool, location, kind);
        // SAFETY: CUDA's contract of the function.
        unsafe { seen(code, pool, device_at(location)) }
    }

    fn cuMemPoolTrimTo(pool: usize, keep: usize) |native| {
        let code = native(pool, keep);
        sources::settle(Source::Pool(pool));
        code
    }

    fn cuMemPoolDestroy(pool: usize) |native| {
        let code = sources::end_pool(pool, || native(pool));
        if code == Code::SUCCESS {
            POOLS.lock().get_or_insert_default().remove(&pool);
        }
        code
    }
}
