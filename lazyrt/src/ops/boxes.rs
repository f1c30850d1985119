//! Boxes: allocation, sets and copies of three dimensions. Where no array takes part they run on the task of
//! the objects they touch, like copies of rows; an array ties the device to the array's GPU.

use std::ffi::c_void;

use mgb_abi::copy::DEFAULT;
use mgb_abi::copy3d::{CopySide, CudaExtent, Memcpy3DParms, Memcpy3DPeerParms, PitchedPtr, Pos};

use super::copy::{claim, on_either, read_of, task_of, written_of};
use super::span::Span;
use super::{alloc, ordinals, passthrough, two};
use crate::code::{Answer, Code, fail};
use crate::handles::on;
use crate::native::{self, Stream};
use crate::{state, thread};

/// Rows of a plane.
pub fn plane(address: u64, pitch: usize, width: usize, rows: usize) -> PitchedPtr {
    PitchedPtr {
        ptr: address as *mut c_void,
        pitch,
        xsize: width,
        ysize: rows,
    }
}

fn side_span(side: &CopySide, extent: CudaExtent) -> Span {
    Span::of_box(&side.ptr, side.pos, extent)
}

/// `cudaMalloc3D`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn malloc_3d(
    _native: unsafe extern "C" fn(*mut PitchedPtr, CudaExtent) -> Code,
    out: *mut PitchedPtr,
    extent: CudaExtent,
) -> Answer {
    if out.is_null() {
        thread::with(|thread| thread.take_hint());
        return fail(Code::INVALID_VALUE);
    }
    let rows = extent.height.checked_mul(extent.depth);
    // SAFETY: `out` is not null, so it is writable: contract of this function. It holds no address where this
    // fails, as in CUDA.
    unsafe { out.write(plane(0, 0, extent.width, extent.height)) };
    let (address, pitch) = alloc::rows(extent.width, rows)?;
    // SAFETY: `out` is not null, so it is writable: contract of this function.
    unsafe { out.write(plane(address, pitch, extent.width, extent.height)) };
    Ok(Code::SUCCESS)
}

type Set = unsafe extern "C" fn(PitchedPtr, i32, CudaExtent) -> Code;
type SetAsync = unsafe extern "C" fn(PitchedPtr, i32, CudaExtent, Stream) -> Code;

/// `cudaMemset3D`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemset3D`.
pub unsafe fn memset_3d(native: Set, to: PitchedPtr, value: i32, extent: CudaExtent) -> Answer {
    // SAFETY: the arguments are those that the program passed: contract of `cudaMemset3D`.
    set(to, extent, None, || unsafe { native(to, value, extent) })
}

/// `cudaMemset3DAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemset3DAsync`.
pub unsafe fn memset_3d_async(
    native: SetAsync,
    to: PitchedPtr,
    value: i32,
    extent: CudaExtent,
    stream: Stream,
) -> Answer {
    set(to, extent, Some(stream), || {
        // SAFETY: the program's arguments, and the runtime's stream for the program's: contract of
        // `cudaMemset3DAsync`.
        on(stream, |stream| unsafe { native(to, value, extent, stream) })
    })
}

fn set(to: PitchedPtr, extent: CudaExtent, stream: Option<Stream>, call: impl FnOnce() -> Code) -> Answer {
    super::set::set(Span::of_box(&to, Pos::default(), extent), None, stream, call)
}

type BoxCopy = unsafe extern "C" fn(*const Memcpy3DParms) -> Code;
type BoxCopyAsync = unsafe extern "C" fn(*const Memcpy3DParms, Stream) -> Code;

/// `cudaMemcpy3D`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpy3D`.
pub unsafe fn memcpy_3d(native: BoxCopy, parameters: *const Memcpy3DParms) -> Answer {
    // SAFETY: `parameters` is null or valid for reads: contract of `cudaMemcpy3D`.
    unsafe { copy(parameters, None, || native(parameters)) }
}

/// `cudaMemcpy3DAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpy3DAsync`.
pub unsafe fn memcpy_3d_async(
    native: BoxCopyAsync,
    parameters: *const Memcpy3DParms,
    stream: Stream,
) -> Answer {
    // SAFETY: `parameters` is null or valid for reads: contract of `cudaMemcpy3DAsync`.
    unsafe {
        copy(parameters, Some(stream), || {
            on(stream, |stream| native(parameters, stream))
        })
    }
}

/// # Safety
/// `parameters` is null or valid for reads.
unsafe fn copy(
    parameters: *const Memcpy3DParms,
    stream: Option<Stream>,
    call: impl FnOnce() -> Code,
) -> Answer {
    // SAFETY: `parameters` is null or valid for reads: contract of this function.
    let Some(&Memcpy3DParms {
        src: from,
        dst: to,
        extent,
        kind,
    }) = (unsafe { parameters.as_ref() })
    else {
        thread::with(|thread| thread.take_hint());
        return fail(Code::INVALID_VALUE);
    };
    if !from.array.is_null() || !to.array.is_null() {
        thread::with(|thread| thread.take_hint());
        return passthrough::run(call);
    }
    if kind > DEFAULT {
        thread::with(|thread| thread.take_hint());
        return fail(Code::INVALID_MEMCPY_DIRECTION);
    }
    between(
        side_span(&to, extent),
        side_span(&from, extent),
        kind,
        stream,
        call,
        |ordinals| Memcpy3DPeerParms {
            src: from,
            src_device: ordinals.second,
            dst: to,
            dst_device: ordinals.first,
            extent,
        },
    )
}

/// Copies between two spans on the GPU of their objects, or between their GPUs.
pub fn between(
    to: Span,
    from: Span,
    kind: u32,
    stream: Option<Stream>,
    call: impl FnOnce() -> Code,
    apart: impl FnOnce(&two::Ordinals) -> Memcpy3DPeerParms,
) -> Answer {
    let hint = thread::with(|thread| thread.take_hint());
    let mut state = state::lock();
    let to = written_of(&state, to, kind)?.map(|key| claim(&mut state, hint, key));
    let from = read_of(&state, from, kind)?.map(|key| claim(&mut state, hint, key));
    match (to, from) {
        (Some(to), Some(from)) if to != from => {
            drop(state);
            two::across(to, from, stream, |ordinals| {
                if ordinals.are_one() {
                    call()
                } else {
                    peer(&apart(&ordinals), stream)
                }
            })
        }
        (to, from) => on_either(state, hint, (to, from), kind, stream, call),
    }
}

/// The runtime's own copy between GPUs.
fn peer(parameters: &Memcpy3DPeerParms, stream: Option<Stream>) -> Code {
    // SAFETY: the description has every field set, from the arguments of the program.
    unsafe {
        match stream {
            Some(stream) => on(stream, |stream| native::cudaMemcpy3DPeerAsync(parameters, stream)),
            None => native::cudaMemcpy3DPeer(parameters),
        }
    }
}

type Peer = unsafe extern "C" fn(*const Memcpy3DPeerParms) -> Code;
type PeerAsync = unsafe extern "C" fn(*const Memcpy3DPeerParms, Stream) -> Code;

/// `cudaMemcpy3DPeer`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpy3DPeer`.
pub unsafe fn memcpy_3d_peer(_native: Peer, parameters: *const Memcpy3DPeerParms) -> Answer {
    // SAFETY: `parameters` is null or valid for reads: contract of `cudaMemcpy3DPeer`.
    unsafe { copy_peer(parameters, None) }
}

/// `cudaMemcpy3DPeerAsync`.
///
/// # Safety
/// The arguments meet the contract of `cudaMemcpy3DPeerAsync`.
pub unsafe fn memcpy_3d_peer_async(
    _native: PeerAsync,
    parameters: *const Memcpy3DPeerParms,
    stream: Stream,
) -> Answer {
    // SAFETY: `parameters` is null or valid for reads: contract of `cudaMemcpy3DPeerAsync`.
    unsafe { copy_peer(parameters, Some(stream)) }
}

/// # Safety
/// `parameters` is null or valid for reads.
unsafe fn copy_peer(parameters: *const Memcpy3DPeerParms, stream: Option<Stream>) -> Answer {
    thread::with(|thread| thread.take_hint());
    // SAFETY: `parameters` is null or valid for reads: contract of this function.
    let Some(&asked) = (unsafe { parameters.as_ref() }) else {
        return fail(Code::INVALID_VALUE);
    };
    let (to_device, from_device) = (
        ordinals::check(asked.dst_device)?,
        ordinals::check(asked.src_device)?,
    );
    let key = |side: &CopySide, device| {
        let mut state = state::lock();
        let span = side_span(side, asked.extent);
        let owner = match (side.array.is_null(), span.bytes) {
            (true, 1..) => task_of(&state, span)?,
            _ => None,
        };
        // An array has tied its device already.
        Ok(owner.unwrap_or_else(|| state.lazy_task_of(device)))
    };
    let (to, from) = (key(&asked.dst, to_device)?, key(&asked.src, from_device)?);
    two::across(to, from, stream, |ordinals| {
        let translated = Memcpy3DPeerParms {
            dst_device: ordinals.first,
            src_device: ordinals.second,
            ..asked
        };
        peer(&translated, stream)
    })
}
