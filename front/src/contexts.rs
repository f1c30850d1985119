//! Contexts: the first on a device begins its task, and the end of one frees what was allocated in it.

use std::ffi::{c_int, c_uint, c_void};

use parking_lot::Mutex;

use crate::native::own;
use crate::{driver, memory, names, room, session};

type Context = *mut c_void;

/// The primary contexts that the program has, by device.
static PRIMARY: Mutex<Vec<(c_int, usize)>> = Mutex::new(Vec::new());

own! {
    fn cuDevicePrimaryCtxRetain(context: *mut Context, device: c_int) |native| {
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        let code = make(device, || unsafe { native(context, device) });
        if code == 0 && !context.is_null() {
            // SAFETY: the driver has written it.
            let primary = (device, unsafe { *context } as usize);
            let mut known = PRIMARY.lock();
            known.retain(|(other, _)| *other != device);
            known.push(primary);
        }
        code
    }

    fn cuCtxCreate_v2(context: *mut Context, flags: c_uint, device: c_int) |native| {
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        make(device, || unsafe { native(context, flags, device) })
    }

    fn cuCtxCreate_v3(
        context: *mut Context, affinity: *mut c_void, count: c_int, flags: c_uint, device: c_int,
    ) |native| {
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        make(device, || unsafe { native(context, affinity, count, flags, device) })
    }

    fn cuCtxCreate_v4(
        context: *mut Context, parameters: *mut c_void, flags: c_uint, device: c_int,
    ) |native| {
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        make(device, || unsafe { native(context, parameters, flags, device) })
    }

    fn cuCtxDestroy_v2(context: Context) |native| {
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        let code = unsafe { native(context) };
        if code == 0 {
            memory::forget(context as usize);
        }
        code
    }

    fn cuDevicePrimaryCtxRelease(device: c_int) |native| {
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        end_of_primary(device, unsafe { native(device) })
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) |native| {
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        end_of_primary(device, unsafe { native(device) })
    }

    fn cuDevicePrimaryCtxReset(device: c_int) |native| {
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        end_of_primary(device, unsafe { native(device) })
    }

    fn cuDevicePrimaryCtxReset_v2(device: c_int) |native| {
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        end_of_primary(device, unsafe { native(device) })
    }
}

fn make(device: c_int, call: impl FnOnce() -> c_int) -> c_int {
    room::begin(device);
    let code = call();
    if code == 0 {
        room::context_made(device);
    }
    code
}

/// After a release or a reset, which the driver has answered with `code`.
fn end_of_primary(device: c_int, code: c_int) -> c_int {
    if code == 0 && session::get().is_some() && !is_active(device) {
        // A device's primary context has the same name when it is made again.
        let known = PRIMARY.lock().iter().find(|(other, _)| *other == device).copied();
        if let Some((_, context)) = known {
            memory::forget(context);
        }
    }
    code
}

/// Whether the device's primary context is there.
fn is_active(device: c_int) -> bool {
    type Ask = unsafe extern "C" fn(c_int, *mut c_uint, *mut c_int) -> c_int;
    let address = driver::address(names::index::cuDevicePrimaryCtxGetState);
    // SAFETY: the slot's code goes on to the driver's function of this name, which has this signature.
    let ask = unsafe { std::mem::transmute::<*const c_void, Ask>(address) };
    let (mut flags, mut active) = (0, 1);
    // SAFETY: writes two numbers.
    let code = unsafe { ask(device, &mut flags, &mut active) };
    code != 0 || active != 0
}
