//! Contexts: the first on a device begins its task, and the end of one frees what was allocated in it.

use std::ffi::{c_int, c_uint, c_void};

use mgb_core::backoff::Backoff;
use mgb_core::notice;
use mgb_core::{captures, gate, gpu_fault_report, pace};
use parking_lot::Mutex;

use crate::calls::{Code, driver};
use crate::native::own;
use crate::{
    allocations, arrays, driver, driver_memory, fault, live_contexts, memory, names, obey, poll_thread, room,
    session, sources, stream_activity,
};

type Context = *mut c_void;

/// The primary contexts that the program has, by device.
static PRIMARY: Mutex<Vec<(c_int, usize)>> = Mutex::new(Vec::new());

/// The green contexts that the program has, each with its ordinary name.
static GREEN: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

own! {
    fn cuDevicePrimaryCtxRetain(context: *mut Context, device: c_int) |native| {
        // SAFETY: contract of this function.
        let code = unsafe { make(device, context, || native(context, device)) };
        if code == Code::SUCCESS && !context.is_null() {
            // SAFETY: the driver has written it.
            let primary = (device, unsafe { *context } as usize);
            let mut known = PRIMARY.lock();
            known.retain(|(other, _)| *other != device);
            known.push(primary);
        }
        code
    }

    fn cuCtxCreate_v2(context: *mut Context, flags: c_uint, device: c_int) |native| {
        // SAFETY: contract of this function.
        unsafe { make(device, context, || native(context, flags, device)) }
    }

    fn cuCtxCreate_v3(
        context: *mut Context, affinity: *mut c_void, count: c_int, flags: c_uint, device: c_int,
    ) |native| {
        // SAFETY: contract of this function.
        unsafe { make(device, context, || native(context, affinity, count, flags, device)) }
    }

    fn cuCtxCreate_v4(
        context: *mut Context, parameters: *mut c_void, flags: c_uint, device: c_int,
    ) |native| {
        // SAFETY: contract of this function.
        unsafe { make(device, context, || native(context, parameters, flags, device)) }
    }

    fn cuCtxDestroy_v2(context: Context) |native| {
        let _ending = live_contexts::ending();
        pace::contexts_end();
        look_last(context as usize);
        let code = native(context);
        if code == Code::SUCCESS {
            end(context as usize);
        }
        code
    }

    /// A part of a device, whose work no wait for another context covers.
    fn cuGreenCtxCreate(green: *mut usize, resources: *mut c_void, device: c_int, flags: c_uint) |native| {
        let code = native(green, resources, device, flags);
        if code == Code::SUCCESS && !green.is_null() && session::get().is_some() {
            // SAFETY: the driver has written it.
            let green = unsafe { *green };
            if let Some(context) = driver().context_of_green(green) {
                live_contexts::note(context, device);
                GREEN.lock().push((green, context));
            }
        }
        code
    }

    fn cuGreenCtxDestroy(green: usize) |native| {
        let _ending = live_contexts::ending();
        pace::contexts_end();
        let code = native(green);
        if code == Code::SUCCESS {
            let mut known = GREEN.lock();
            if let Some(at) = known.iter().position(|(other, _)| *other == green) {
                let (_, context) = known.swap_remove(at);
                drop(known);
                end(context);
            }
        }
        code
    }

    fn cuDevicePrimaryCtxRelease(device: c_int) |native| {
        end_of_primary(device, || native(device))
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) |native| {
        end_of_primary(device, || native(device))
    }

    fn cuDevicePrimaryCtxReset(device: c_int) |native| {
        end_of_primary(device, || native(device))
    }

    fn cuDevicePrimaryCtxReset_v2(device: c_int) |native| {
        end_of_primary(device, || native(device))
    }
}

/// Makes a context: the device's first one in the process's turn at mgbd.
///
/// # Safety
/// `context` is null or a place that `call` writes where it succeeds.
unsafe fn make(device: c_int, context: *const Context, call: impl Fn() -> Code) -> Code {
    room::begin(device);
    let is_first = live_contexts::on(device).is_none();
    let turn = session::get()
        .filter(|_| is_first)
        .map(|session| session.client.turn(true));
    let mut backoff = Backoff::begin();
    let code = loop {
        let mut code = call();
        if code == Code::MEMORY_ALLOCATION {
            code = driver_memory::again_on(device, &call);
        }
        // A context that is there may be broken for good.
        if code == Code::SUCCESS || turn.is_none() || !backoff.again(code, notice::unavailable) {
            break code;
        }
    };
    drop(turn);
    if code == Code::SUCCESS && !context.is_null() && session::get().is_some() {
        // SAFETY: the driver has written it: contract of this function.
        let is_first = live_contexts::note(unsafe { *context } as usize, device);
        if is_first {
            gpu_fault_report::context_began();
            room::context_made(device);
            obey::start();
            poll_thread::start();
        }
        if is_first && live_contexts::is_on_several() {
            let _inside = gate::enter();
            let mut store = allocations::lock();
            for (_, device) in live_contexts::all() {
                store.welcome(device);
            }
        }
    }
    code
}

/// A context may be about to end, and with it what it says of its state.
fn look_last(context: usize) {
    if live_contexts::all().iter().any(|(known, _)| *known == context) {
        fault::look(context);
    }
}

/// A context is gone, and all that was allocated in it.
fn end(context: usize) {
    gpu_fault_report::context_ended();
    live_contexts::forget(context);
    if live_contexts::all().is_empty() {
        // With the last context all streams are gone, also those that captured.
        captures::forget_all();
    }
    stream_activity::forget(context);
    arrays::forget(context);
    memory::forget(context);
}

/// A release or a reset, which may end the device's primary context.
fn end_of_primary(device: c_int, call: impl FnOnce() -> Code) -> Code {
    let _ending = live_contexts::ending();
    pace::contexts_end();
    // A device's primary context has the same name when it is made again.
    let known = PRIMARY.lock().iter().find(|(other, _)| *other == device).copied();
    if let Some((_, context)) = known {
        look_last(context);
    }
    let code = call();
    if code == Code::SUCCESS && session::get().is_some() && !is_active(device) {
        if let Some((_, context)) = known {
            end(context);
        }
        sources::forget(device);
    }
    code
}

/// Whether the device's primary context is there.
fn is_active(device: c_int) -> bool {
    type PrimaryState = unsafe extern "C" fn(c_int, *mut c_uint, *mut c_int) -> Code;
    let address = driver::address(names::index::cuDevicePrimaryCtxGetState);
    // SAFETY: the slot's code goes on to the driver's function of this name, which has this signature.
    let ask = unsafe { std::mem::transmute::<*const c_void, PrimaryState>(address) };
    let (mut flags, mut active) = (0, 1);
    // SAFETY: writes two numbers.
    let code = unsafe { ask(device, &mut flags, &mut active) };
    !code.is_success() || active != 0
}
