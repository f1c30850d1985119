//! Arrays and managed memory: the runtime makes them, outside the arena, and the lazy task of the device is
//! charged. The charge comes first, so that the room is there when the runtime takes it.

use std::ffi::c_void;

use mgb_abi::array::ChannelFormatDesc;
use mgb_abi::copy3d::CudaExtent;
use mgb_core::notice;
use mgb_probe::byte_size::Bytes;

use super::passthrough;
use crate::code::{Answer, Code, Own, fail};
use crate::non_arena_memory::NonArenaKind;
use crate::state::{self, Key};
use crate::task_binding::{self, Asked};
use crate::{device, mapping, session, thread};

/// `cudaArray_t`, `cudaMipmappedArray_t`.
pub type Array = *mut c_void;

/// Rows and columns of the blocks that arrays are laid out in.
const BLOCK: (u64, u64) = (64, 8);

/// Bytes that an array takes at most.
fn bytes_of(format: &ChannelFormatDesc, extent: CudaExtent, levels: u32) -> u64 {
    let bits = format.bits().map(|bits| u64::from(bits.max(0) as u32));
    let element = bits.iter().sum::<u64>() / 8;
    let level = |level: u32| {
        let size = |size: usize| (size as u64 >> level).max(1);
        let round = |size: u64, to: u64| size.checked_next_multiple_of(to).unwrap_or(u64::MAX);
        let rows = match size(extent.height) {
            1 => 1,
            rows => round(rows, BLOCK.1),
        };
        round(size(extent.width).saturating_mul(element), BLOCK.0)
            .saturating_mul(rows)
            .saturating_mul(size(extent.depth))
    };
    (0..levels.clamp(1, 32)).fold(0, |sum: u64, at| sum.saturating_add(level(at)))
}

/// Charges the current device's lazy task, and binds it with room for that. Fails at once if no GPU could
/// ever hold it.
pub fn charge(kind: NonArenaKind, bytes: u64) -> Result<Key, Own> {
    let key = state::lock().lazy_task();
    charge_to(key, kind, bytes)?;
    Ok(key)
}

/// As [`charge`], for a lazy task that need not be the current device's.
pub fn charge_to(key: Key, kind: NonArenaKind, bytes: u64) -> Result<(), Own> {
    let gpu = state::lock().bound_gpu(state::current());
    let asked = Asked {
        gpu,
        ..Asked::default()
    };
    let placement = task_binding::prepare(key, asked)?.placement();
    let mut state = state::lock();
    let key = state.resolve(key);
    if let Some(task) = state.task_at(key)
        && let Some(gpu) = session::gpu(placement.0)
        && kind != NonArenaKind::Managed
        && task.unevictable().saturating_add(bytes) > device::capacity(gpu)
    {
        notice::once(
            "never-fits",
            format_args!(
                "failed to allocate {}: with it, its task needs {} or more, its GPU has {}",
                Bytes(bytes),
                Bytes(task.unevictable().saturating_add(bytes)),
                Bytes(device::capacity(gpu))
            ),
        );
        return fail(Code::MEMORY_ALLOCATION);
    }
    state.charge(key, kind, bytes);
    drop(state);
    match task_binding::prepare(key, asked) {
        Ok(_) => Ok(()),
        Err(error) => {
            let returned = state::lock().withdraw(key, kind, bytes);
            mapping::give_back(returned);
            Err(error)
        }
    }
}

fn discharge(key: Key, kind: NonArenaKind, bytes: u64) {
    let returned = state::lock().discharge(key, kind, bytes);
    mapping::give_back(returned);
}

/// Charges, allocates, and keeps in mind what the charge was for. `made` reads the new name.
pub fn allocate(
    kind: NonArenaKind,
    bytes: u64,
    call: impl FnOnce() -> Code,
    made: impl FnOnce() -> u64,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    let key = charge(kind, bytes)?;
    match passthrough::run(call) {
        Ok(Code::SUCCESS) => {
            let name = made();
            if name == 0 {
                // Nothing was asked for.
                discharge(key, kind, bytes);
                return Ok(Code::SUCCESS);
            }
            let mut state = state::lock();
            state.add_piece(name, key, kind, bytes);
            let gpu = state.task(key).and_then(|task| task.gpu);
            if let Some(gpu) = gpu {
                session::mapped(gpu, bytes);
            }
            Ok(Code::SUCCESS)
        }
        other => {
            discharge(key, kind, bytes);
            other
        }
    }
}

/// Notes that what this address or handle names is free now. False: it is none of these.
pub fn freed(name: u64) -> bool {
    let Some((gpu, bytes, returned)) = state::lock().remove_piece(name) else {
        return false;
    };
    if let Some(gpu) = gpu {
        session::unmapping(gpu, bytes);
    }
    mapping::give_back(returned);
    true
}

/// `cudaMallocManaged`.
///
/// # Safety
/// The arguments meet the contract of `cudaMallocManaged`.
pub unsafe fn malloc_managed(
    native: unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> Code,
    out: *mut *mut c_void,
    bytes: usize,
    flags: u32,
) -> Answer {
    crate::handles::default::note_shared();
    // SAFETY: `out` is null or writable: contract of `cudaMallocManaged`; a success has written the address.
    unsafe {
        allocate(
            NonArenaKind::Managed,
            bytes as u64,
            || native(out, bytes, flags),
            || out.read() as u64,
        )
    }
}

/// `cudaMallocArray`.
///
/// # Safety
/// The arguments meet the contract of `cudaMallocArray`.
pub unsafe fn malloc_array(
    native: unsafe extern "C" fn(*mut Array, *const ChannelFormatDesc, usize, usize, u32) -> Code,
    out: *mut Array,
    format: *const ChannelFormatDesc,
    width: usize,
    height: usize,
    flags: u32,
) -> Answer {
    let extent = CudaExtent {
        width,
        height,
        depth: 0,
    };
    // SAFETY: `format` is null or valid for reads; a success writes `out`: contract of `cudaMallocArray`.
    unsafe {
        array(out, format, extent, 1, || {
            native(out, format, width, height, flags)
        })
    }
}

/// `cudaMalloc3DArray`.
///
/// # Safety
/// The arguments meet the contract of `cudaMalloc3DArray`.
pub unsafe fn malloc_3d_array(
    native: unsafe extern "C" fn(*mut Array, *const ChannelFormatDesc, CudaExtent, u32) -> Code,
    out: *mut Array,
    format: *const ChannelFormatDesc,
    extent: CudaExtent,
    flags: u32,
) -> Answer {
    // SAFETY: `format` is null or valid for reads; a success writes `out`: contract of `cudaMalloc3DArray`.
    unsafe { array(out, format, extent, 1, || native(out, format, extent, flags)) }
}

/// `cudaMallocMipmappedArray`.
///
/// # Safety
/// The arguments meet the contract of `cudaMallocMipmappedArray`.
pub unsafe fn malloc_mipmapped(
    native: unsafe extern "C" fn(*mut Array, *const ChannelFormatDesc, CudaExtent, u32, u32) -> Code,
    out: *mut Array,
    format: *const ChannelFormatDesc,
    extent: CudaExtent,
    levels: u32,
    flags: u32,
) -> Answer {
    // SAFETY: `format` is null or valid for reads; a success writes `out`: contract of
    // `cudaMallocMipmappedArray`.
    unsafe {
        array(out, format, extent, levels, || {
            native(out, format, extent, levels, flags)
        })
    }
}

/// # Safety
/// `format` is null or valid for reads; a success of the call writes `out`.
unsafe fn array(
    out: *mut Array,
    format: *const ChannelFormatDesc,
    extent: CudaExtent,
    levels: u32,
    call: impl FnOnce() -> Code,
) -> Answer {
    // SAFETY: `format` is null or valid for reads: contract of this function.
    let Some(format) = (unsafe { format.as_ref() }) else {
        return passthrough::run(call);
    };
    let bytes = bytes_of(format, extent, levels);
    // SAFETY: `allocate` reads it after a success only, which has written it: contract of this function.
    allocate(NonArenaKind::Array, bytes, call, || unsafe { out.read() } as u64)
}

/// `cudaFreeArray` and `cudaFreeMipmappedArray`.
///
/// # Safety
/// The arguments meet the contract of `cudaFreeArray`.
pub unsafe fn free_array(native: unsafe extern "C" fn(Array) -> Code, array: Array) -> Answer {
    thread::with(|thread| thread.take_hint());
    // SAFETY: the arguments are those that the program passed: contract of `cudaFreeArray`.
    let answer = passthrough::run(|| unsafe { native(array) });
    if answer == Ok(Code::SUCCESS) {
        freed(array as u64);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_take_their_blocks() {
        let floats = ChannelFormatDesc {
            x: 32,
            y: 0,
            z: 0,
            w: 0,
            f: 2,
        };
        let bytes = |width, height, depth, levels| {
            let extent = CudaExtent { width, height, depth };
            bytes_of(&floats, extent, levels)
        };
        assert_eq!(bytes(1000, 0, 0, 1), 4032);
        assert_eq!(bytes(100, 100, 0, 1), 448 * 104);
        assert_eq!(bytes(16, 8, 10, 1), 5120);
        assert_eq!(bytes(64, 64, 0, 2), 64 * 64 * 4 + 32 * 32 * 4);
        assert_eq!(bytes(usize::MAX, usize::MAX, 1, 1), u64::MAX);
    }
}
