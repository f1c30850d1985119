//! Arrays: memory of the driver's own in a layout of its own. It is charged by the size of the elements.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint};

use mgb_abi::array::{Array3DDescriptor, ArrayDescriptor};
use parking_lot::Mutex;

use crate::calls::{Code, Context, driver};
use crate::native::own;
use crate::{driver_memory, room, session};

/// Arrays without memory of their own: CUDA's `CUDA_ARRAY3D_SPARSE` and `CUDA_ARRAY3D_DEFERRED_MAPPING`.
const WITHOUT_MEMORY: u32 = 0x40 | 0x80;

/// An array or mipmapped array.
#[derive(Clone, Copy)]
struct Array {
    device: c_int,
    bytes: u64,
    /// The context that it ends with at the latest.
    context: Context,
}

/// Each of them, by its handle.
static ARRAYS: Mutex<Option<HashMap<usize, Array>>> = Mutex::new(None);

/// The context is gone, and with it its arrays.
pub fn forget(context: Context) {
    let gone: Vec<Array> = {
        let mut all = ARRAYS.lock();
        let gone = all
            .get_or_insert_default()
            .extract_if(|_, array| array.context == context);
        gone.map(|(_, array)| array).collect()
    };
    for Array { device, bytes, .. } in gone {
        room::unmapping(device, bytes);
        room::discharge(device, bytes);
    }
}

/// Bytes of an element of so many channels; for formats whose elements share bytes, no less than they take.
fn element_bytes(format: u32, channels: u32) -> u64 {
    let channel = match format {
        // 8 bits.
        0x01 | 0x08 => 1,
        // 16 bits.
        0x02 | 0x09 | 0x10 => 2,
        // 32 bits; three planes of video share less.
        _ => 4,
    };
    channel * u64::from(channels.clamp(1, 4))
}

/// Bytes of an array of `levels` mipmap levels. Dimensions that it has not are zero.
fn bytes_of(array: &Array3DDescriptor, levels: u32) -> u64 {
    if array.flags & WITHOUT_MEMORY != 0 {
        return 0;
    }
    let elements = [array.width, array.height, array.depth]
        .into_iter()
        .try_fold(1u64, |all, size| all.checked_mul((size as u64).max(1)));
    let element = element_bytes(array.format, array.channels);
    let whole = elements
        .and_then(|all| all.checked_mul(element))
        .unwrap_or(u64::MAX);
    if levels > 1 {
        // Each level has at most half of the one before.
        whole.saturating_mul(2)
    } else {
        whole
    }
}

/// # Safety
/// A success of the call writes `handle`, unless it is null.
unsafe fn make(bytes: u64, handle: *const usize, call: impl Fn() -> Code) -> Code {
    let device = driver().device();
    let (Some(_), Ok(device)) = (session::get(), device) else {
        return call();
    };
    if handle.is_null() || bytes == 0 || bytes > room::MAX_CHARGED_BYTES {
        return call();
    }
    if !room::charge(device, bytes) {
        return Code::MEMORY_ALLOCATION;
    }
    // The driver takes whole steps, of which the charge knows only what was asked for.
    let code = driver_memory::give(call);
    if code != Code::SUCCESS {
        room::discharge(device, bytes);
        return code;
    }
    room::mapped(device, bytes);
    // SAFETY: the call has succeeded, so it has written the handle: contract of this function.
    let name = unsafe { *handle };
    let array = Array {
        device,
        bytes,
        context: driver().context(),
    };
    ARRAYS.lock().get_or_insert_default().insert(name, array);
    code
}

fn end(name: usize, call: impl FnOnce() -> Code) -> Code {
    let known = ARRAYS.lock().as_mut().and_then(|all| all.remove(&name));
    let Some(array @ Array { device, bytes, .. }) = known else {
        return call();
    };
    room::unmapping(device, bytes);
    let code = call();
    if code == Code::SUCCESS {
        room::discharge(device, bytes);
    } else {
        room::mapped(device, bytes);
        ARRAYS.lock().get_or_insert_default().insert(name, array);
    }
    code
}

own! {
    fn cuArrayCreate_v2(handle: *mut usize, array: *const ArrayDescriptor) |native| {
        // SAFETY: null or a whole structure: CUDA's contract of the function.
        let bytes = unsafe { array.as_ref() }.map_or(0, |flat| {
            let array = Array3DDescriptor {
                width: flat.width,
                height: flat.height,
                format: flat.format,
                channels: flat.channels,
                ..Array3DDescriptor::default()
            };
            bytes_of(&array, 1)
        });
        // SAFETY: CUDA's contract of the function.
        unsafe { make(bytes, handle, || native(handle, array)) }
    }

    fn cuArray3DCreate_v2(handle: *mut usize, array: *const Array3DDescriptor) |native| {
        // SAFETY: null or a whole structure: CUDA's contract of the function.
        let bytes = unsafe { array.as_ref() }.map_or(0, |array| bytes_of(array, 1));
        // SAFETY: CUDA's contract of the function.
        unsafe { make(bytes, handle, || native(handle, array)) }
    }

    fn cuMipmappedArrayCreate(handle: *mut usize, array: *const Array3DDescriptor, levels: c_uint) |native| {
        // SAFETY: null or a whole structure: CUDA's contract of the function.
        let bytes = unsafe { array.as_ref() }.map_or(0, |array| bytes_of(array, levels));
        // SAFETY: CUDA's contract of the function.
        unsafe { make(bytes, handle, || native(handle, array, levels)) }
    }

    fn cuArrayDestroy(array: usize) |native| {
        end(array, || native(array))
    }

    fn cuMipmappedArrayDestroy(array: usize) |native| {
        end(array, || native(array))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_take_the_bytes_of_their_elements() {
        let mut array = Array3DDescriptor {
            width: 1000,
            format: 0x20,
            channels: 4,
            ..Array3DDescriptor::default()
        };
        assert_eq!(bytes_of(&array, 1), 16_000);
        array.height = 10;
        assert_eq!(bytes_of(&array, 1), 160_000);
        assert_eq!(bytes_of(&array, 5), 320_000);
        array.depth = usize::MAX;
        assert_eq!(bytes_of(&array, 1), u64::MAX);
        array.flags = 0x40;
        assert_eq!(bytes_of(&array, 1), 0);
    }
}
