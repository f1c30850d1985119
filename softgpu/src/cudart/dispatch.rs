//! Copies and sets on their way to the driver: by a front, as calls of the driver's functions, or directly.

use std::ffi::c_void;
use std::sync::Arc;

use mgb_abi::copy::{DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE};
use mgb_abi::copy3d::{DriverCopy3D, MEMORYTYPE_ARRAY};

use crate::device::Gpu;
use crate::driver::copy_box::{described, flat};
use crate::driver_front::{self, Front};
use crate::error::Result;
use crate::memory::region::Size;
use crate::stream::DeviceStream;
use crate::submit;
use crate::transfer::{Fill, MemoryCopy, Transfer};

/// The devices that a call names: the one that is copied to, and the one that is copied from.
pub type CallDevices = (&'static Gpu, &'static Gpu);

/// A front, for a kind of copy that the driver has as well. Other kinds are an error of the runtime's own.
fn front_for(kind: u32) -> Option<&'static Front> {
    driver_front::front().filter(|_| kind <= DEFAULT)
}

/// Copies in a default stream, and waits until it is done.
///
/// # Errors
/// What is wrong with the copy, or with the device by the time the copy's turn came.
pub fn copy(gpu: &'static Gpu, stream: &Arc<DeviceStream>, what: MemoryCopy, kind: u32) -> Result {
    match front_for(kind) {
        Some(_) if what.size.bytes() == 0 => Ok(()),
        Some(front) => copy_by(front, what, kind),
        None => submit::copy(gpu, stream, what, kind),
    }
}

/// Copies in the stream with this handle; the caller goes on where CUDA lets it.
///
/// # Errors
/// What is wrong with the copy; what goes wrong later sticks to the device.
pub fn copy_async(
    gpu: &'static Gpu,
    stream: &Arc<DeviceStream>,
    handle: usize,
    what: MemoryCopy,
    kind: u32,
) -> Result {
    match front_for(kind) {
        Some(_) if what.size.bytes() == 0 => Ok(()),
        Some(front) => copy_async_by(front, what, kind, handle),
        None => submit::copy_async(gpu, stream, what, kind),
    }
}

/// Copies in the stream with this handle, and waits until it is done.
///
/// # Errors
/// As [`copy`].
pub fn copy_in(
    gpu: &'static Gpu,
    stream: &Arc<DeviceStream>,
    handle: usize,
    what: MemoryCopy,
    kind: u32,
) -> Result {
    match front_for(kind) {
        Some(_) if what.size.bytes() == 0 => Ok(()),
        Some(front) => {
            copy_async_by(front, what, kind, handle)?;
            front.cuStreamSynchronize(handle)
        }
        None => submit::copy(gpu, stream, what, kind),
    }
}

/// As [`copy`], for calls that name the devices, of more than no bytes.
///
/// # Errors
/// As [`copy`].
pub fn copy_named(
    gpu: &'static Gpu,
    stream: &Arc<DeviceStream>,
    what: MemoryCopy,
    kind: u32,
    devices: CallDevices,
) -> Result {
    let Some(front) = driver_front::front() else {
        return submit::transfer_and_wait(gpu, stream, Transfer::of_named(gpu, what, kind)?);
    };
    let (to, from) = (devices.0.context_handle(), devices.1.context_handle());
    if kind == DEVICE_TO_DEVICE && is_row(&what.size) {
        front.cuMemcpyPeer(what.to.at, to, what.from.at, from, what.size.width)
    } else {
        front.cuMemcpy3DPeer(&named(&what, kind, devices))
    }
}

/// As [`copy_async`], for calls that name the devices, of more than no bytes.
///
/// # Errors
/// As [`copy_async`].
pub fn copy_named_async(
    gpu: &'static Gpu,
    stream: &Arc<DeviceStream>,
    handle: usize,
    what: MemoryCopy,
    kind: u32,
    devices: CallDevices,
) -> Result {
    let Some(front) = driver_front::front() else {
        return submit::transfer(gpu, stream, Transfer::of_named(gpu, what, kind)?);
    };
    let (to, from) = (devices.0.context_handle(), devices.1.context_handle());
    if kind == DEVICE_TO_DEVICE && is_row(&what.size) {
        front.cuMemcpyPeerAsync(what.to.at, to, what.from.at, from, what.size.width, handle)
    } else {
        front.cuMemcpy3DPeerAsync(&named(&what, kind, devices), handle)
    }
}

fn named(what: &MemoryCopy, kind: u32, devices: CallDevices) -> DriverCopy3D {
    let mut copy = described(what, kind);
    copy.dst.context = devices.0.context_handle();
    copy.src.context = devices.1.context_handle();
    copy
}

fn is_row(size: &Size) -> bool {
    size.height == 1 && size.depth == 1
}

/// Whether the copy is one of bytes between addresses, which has functions of its own. Between host memory
/// only the structures can say so.
fn is_plain(copy: &DriverCopy3D, kind: u32) -> bool {
    let of_array = [copy.src, copy.dst]
        .iter()
        .any(|side| side.memory_type == MEMORYTYPE_ARRAY);
    let named = matches!(kind, HOST_TO_DEVICE | DEVICE_TO_HOST | DEVICE_TO_DEVICE | DEFAULT);
    copy.height == 1 && copy.depth == 1 && !of_array && named
}

fn copy_by(front: &Front, what: MemoryCopy, kind: u32) -> Result {
    let (to, from, count) = (what.to.at, what.from.at, what.size.width);
    let structure = described(&what, kind);
    match kind {
        _ if !is_plain(&structure, kind) => match flat(&structure) {
            Some(plane) => front.cuMemcpy2DUnaligned(&plane),
            None => front.cuMemcpy3D(&structure),
        },
        HOST_TO_DEVICE => front.cuMemcpyHtoD(to, from as *const c_void, count),
        DEVICE_TO_HOST => front.cuMemcpyDtoH(to as *mut c_void, from, count),
        DEVICE_TO_DEVICE => front.cuMemcpyDtoD(to, from, count),
        _ => front.cuMemcpy(to, from, count),
    }
}

fn copy_async_by(front: &Front, what: MemoryCopy, kind: u32, handle: usize) -> Result {
    let (to, from, count) = (what.to.at, what.from.at, what.size.width);
    let structure = described(&what, kind);
    match kind {
        _ if !is_plain(&structure, kind) => match flat(&structure) {
            Some(plane) => front.cuMemcpy2DAsync(&plane, handle),
            None => front.cuMemcpy3DAsync(&structure, handle),
        },
        HOST_TO_DEVICE => front.cuMemcpyHtoDAsync(to, from as *const c_void, count, handle),
        DEVICE_TO_HOST => front.cuMemcpyDtoHAsync(to as *mut c_void, from, count, handle),
        DEVICE_TO_DEVICE => front.cuMemcpyDtoDAsync(to, from, count, handle),
        _ => front.cuMemcpyAsync(to, from, count, handle),
    }
}

/// Sets bytes of device memory in the stream with this handle; waits for it if `wait`, which a default
/// stream does.
///
/// # Errors
/// What is wrong with the range; without waiting, what goes wrong later sticks to the device.
pub fn fill(gpu: &'static Gpu, stream: &Arc<DeviceStream>, handle: usize, what: Fill, wait: bool) -> Result {
    let Fill { to, size, value, .. } = what;
    // Planes that lie one after another are rows.
    let is_flat = size.depth == 1 || to.slice == to.pitch * size.height;
    let front = match driver_front::front() {
        // The driver has no planes, and a capture keeps them as one node: what it keeps, nobody runs yet.
        Some(front) if is_flat || !stream.captures() => front,
        _ => return submit::fill(gpu, stream, what, wait),
    };
    if size.bytes() == 0 {
        return Ok(());
    }
    // Not checked here: what the front has brought elsewhere is there once its function is called.
    let (rows, planes) = if is_flat {
        (size.height * size.depth, 1)
    } else {
        (size.height, size.depth)
    };
    let value = value as u8;
    for plane in 0..planes {
        let at = to.at + plane * to.slice;
        match (rows, wait) {
            (1, true) => front.cuMemsetD8(at, value, size.width)?,
            (1, false) => front.cuMemsetD8Async(at, value, size.width, handle)?,
            (_, true) => front.cuMemsetD2D8(at, to.pitch, value, size.width, rows)?,
            (_, false) => front.cuMemsetD2D8Async(at, to.pitch, value, size.width, rows, handle)?,
        }
    }
    Ok(())
}
