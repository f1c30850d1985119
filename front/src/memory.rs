//! `cuMemAlloc` and `cuMemFree`: charged before there is memory, given back after it is freed.
//!
//! What they return lies in the arena, where it can be swapped. A process with contexts on several devices,
//! and one without addresses for an arena, gets memory of the driver's own.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint};

use mgb_core::arena::extent_bytes;
use mgb_core::gate;
use parking_lot::Mutex;

use crate::allocations::Block;
use crate::calls::{Code, Context, Stream, driver};
use crate::native::{own, per_thread};
use crate::{allocations, driver_memory, frees, live_contexts, room, session};

/// What rows of a pitched allocation are a multiple of.
const PITCH: u64 = 512;

/// An allocation of the driver's own.
#[derive(Clone, Copy)]
struct Own {
    device: c_int,
    bytes: u64,
    /// The context that it is freed with at the latest.
    context: Context,
}

/// Each of them, by its address.
static OWN: Mutex<Option<HashMap<u64, Own>>> = Mutex::new(None);

/// The current context and its device; none without one, or in a process that runs natively.
fn current() -> Option<(Context, c_int)> {
    session::get()?;
    let device = driver().device().ok()?;
    Some((driver().context(), device))
}

/// The context is gone, and with it what was allocated in it.
pub fn forget(context: Context) {
    frees::forget(context);
    let freed = {
        let _inside = gate::enter();
        allocations::lock().forget(context)
    };
    for (device, bytes) in freed {
        room::discharge(device, bytes);
    }
    let gone: Vec<Own> = {
        let mut all = OWN.lock();
        let all = all.get_or_insert_default();
        let gone = all.extract_if(|_, own| own.context == context);
        gone.map(|(_, own)| own).collect()
    };
    for Own { device, bytes, .. } in gone {
        room::unmapping(device, bytes);
        room::discharge(device, bytes);
    }
}

/// Allocates in the arena.
fn in_arena(bytes: u64, context: Context, device: c_int) -> Result<u64, Code> {
    {
        let _inside = gate::enter();
        if let Some(address) = allocations::lock().reuse(bytes, device, context) {
            return Ok(address);
        }
    }
    let extent = extent_bytes(bytes).ok_or(Code::MEMORY_ALLOCATION)?;
    if room::refuses_first(device, extent) || !room::charge(device, extent) {
        return Err(Code::MEMORY_ALLOCATION);
    }
    // The address, and whether an extent was mapped for it.
    let mut found = None;
    let code = driver_memory::granted(|| {
        // What the arena does for an allocation, a capture of another thread does not mind.
        let _relaxed = driver().relax();
        let _inside = gate::enter();
        let mut store = allocations::lock();
        // Another thread may have mapped a granule meanwhile, or freed one: a second one would stay empty.
        let reused = store
            .reuse(bytes, device, context)
            .map(|address| (address, false));
        let mapped = || store.map(bytes, device, context).map(|address| (address, true));
        match reused.map_or_else(mapped, Ok) {
            Ok(there) => {
                found = Some(there);
                Code::SUCCESS
            }
            Err(code) => code,
        }
    });
    if !found.is_some_and(|(_, is_mapped)| is_mapped) {
        room::discharge(device, extent);
    }
    found.map(|(address, _)| address).ok_or(code)
}

/// Allocates memory of the driver's own, once there is room for it.
///
/// # Safety
/// `pointer` is null or a place that `call` has written where it succeeds.
unsafe fn of_driver(
    bytes: u64,
    (context, device): (Context, c_int),
    pointer: *const u64,
    call: impl Fn() -> Code,
) -> Code {
    if !room::charge(device, bytes) {
        return Code::MEMORY_ALLOCATION;
    }
    let code = driver_memory::granted(call);
    if code != Code::SUCCESS || pointer.is_null() {
        room::discharge(device, bytes);
        return code;
    }
    // SAFETY: the call has succeeded, so it has written the address: contract of this function.
    let address = unsafe { *pointer };
    let own = Own {
        device,
        bytes,
        context,
    };
    OWN.lock().get_or_insert_default().insert(address, own);
    room::mapped(device, bytes);
    code
}

/// # Safety
/// As of [`of_driver`]; `pointer` can be written.
unsafe fn allocate(bytes: u64, pointer: *mut u64, call: impl Fn() -> Code) -> Code {
    // Without a context the driver says what is wrong, as it does of sizes that no sum can hold.
    let Some(current) =
        current().filter(|_| bytes > 0 && bytes <= room::MAX_CHARGED_BYTES && !pointer.is_null())
    else {
        return call();
    };
    let (context, device) = current;
    if live_contexts::is_on_several() || !allocations::lock().has_arena() {
        // SAFETY: contract of this function.
        return unsafe { of_driver(bytes, current, pointer, call) };
    }
    match in_arena(bytes, context, device) {
        Ok(address) => {
            // SAFETY: not null, so it can be written: contract of this function.
            unsafe { *pointer = address };
            Code::SUCCESS
        }
        Err(Code::NOT_SUPPORTED) => {
            // A virtual GPU, say.
            allocations::lock().give_up();
            // SAFETY: contract of this function.
            unsafe { of_driver(bytes, current, pointer, call) }
        }
        Err(code) => code,
    }
}

/// Frees what lies in the arena. `None`: the address is not the arena's.
fn free(address: u64) -> Option<Code> {
    let Ok(block) = allocations::lock().begin_free(address)? else {
        return Some(Code::INVALID_VALUE);
    };
    let code = frees::when_all_is_done(block.device, move || end(address, block));
    if code != Code::SUCCESS {
        allocations::lock().undo_free(address);
    }
    Some(code)
}

/// Frees what lies in the arena in the order of a stream. `None`: the address is not the arena's, or
/// the stream captures: a graph frees what graphs allocate, and the driver says so.
fn free_in_order(address: u64, stream: Stream) -> Option<Code> {
    if !allocations::lock().is_in_arena(address) || driver().is_capturing(stream) {
        return None;
    }
    let Ok(block) = allocations::lock().begin_free(address)? else {
        return Some(Code::INVALID_VALUE);
    };
    frees::in_order(block.device, stream, move || end(address, block));
    Some(Code::SUCCESS)
}

/// Takes note of memory of the driver's own away, before it is freed: another thread may have its address at
/// once.
fn take_own(address: u64) -> Option<Own> {
    OWN.lock().as_mut().and_then(|all| all.remove(&address))
}

/// Memory of the driver's own that is freed in the order of a stream stays charged until then.
fn free_async(address: u64, stream: Stream, call: impl FnOnce() -> Code) -> Code {
    if let Some(code) = free_in_order(address, stream) {
        return code;
    }
    let known = take_own(address);
    let code = call();
    let Some(own @ Own { device, bytes, .. }) = known else {
        return code;
    };
    if code == Code::SUCCESS {
        frees::in_order(device, stream, move || {
            room::unmapping(device, bytes);
            room::discharge(device, bytes);
        });
    } else {
        OWN.lock().get_or_insert_default().insert(address, own);
    }
    code
}

/// Frees a block that no work uses any more. One that has gone with its context since is not that which has
/// its address now.
fn end(address: u64, block: Block) {
    let freed = {
        let _inside = gate::enter();
        let mut store = allocations::lock();
        // Its context may be gone, and another block there.
        let is_it = store
            .block(address)
            .is_some_and(|other| other.number == block.number);
        if is_it { store.free(address) } else { None }
    };
    if let Some((device, bytes)) = freed.filter(|(_, bytes)| *bytes > 0) {
        room::discharge(device, bytes);
    }
}

own! {
    fn cuMemAlloc_v2(pointer: *mut u64, bytes: usize) |native| {
        // SAFETY: contract of this function.
        unsafe { allocate(bytes as u64, pointer, || native(pointer, bytes)) }
    }

    fn cuMemAllocPitch_v2(
        pointer: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint,
    ) |native| {
        let row = (width as u64).checked_next_multiple_of(PITCH).unwrap_or(u64::MAX);
        let bytes = row.saturating_mul(height as u64);
        let is_asked_well = !pitch.is_null() && matches!(element, 4 | 8 | 16);
        if !is_asked_well {
            return native(pointer, pitch, width, height, element);
        }
        // SAFETY: contract of this function.
        let code = unsafe { allocate(bytes, pointer, || native(pointer, pitch, width, height, element)) };
        // SAFETY: `pointer` was written if the call succeeded.
        if code == Code::SUCCESS && !pointer.is_null() && allocations::lock().block(unsafe { *pointer }).is_some() {
            // SAFETY: not null, so it can be written: contract of this function.
            unsafe { *pitch = row as usize };
        }
        code
    }

    fn cuMemAllocManaged(pointer: *mut u64, bytes: usize, flags: c_uint) |native| {
        let call = || native(pointer, bytes, flags);
        match current() {
            // It may be larger than the GPU, and then stays in host memory for a part.
            Some((context, device)) if bytes > 0 && bytes as u64 <= room::most(device) => {
                // SAFETY: contract of this function.
                unsafe { of_driver(bytes as u64, (context, device), pointer, call) }
            }
            _ => call(),
        }
    }

    /// Memory of `cuMemAlloc` may be freed in this way, too.
    fn cuMemFreeAsync(pointer: u64, stream: Stream) |native| {
        free_async(pointer, stream, || native(pointer, stream))
    }

    fn cuMemFreeAsync_ptsz(pointer: u64, stream: Stream) |native| {
        free_async(pointer, per_thread(stream), || native(pointer, stream))
    }

    fn cuMemFree_v2(pointer: u64) |native| {
        if let Some(code) = free(pointer) {
            return code;
        }
        let Some(own @ Own { device, bytes, .. }) = take_own(pointer) else {
            return native(pointer);
        };
        room::unmapping(device, bytes);
        let code = native(pointer);
        if code == Code::SUCCESS {
            room::discharge(device, bytes);
        } else {
            OWN.lock().get_or_insert_default().insert(pointer, own);
            room::mapped(device, bytes);
        }
        code
    }
}
