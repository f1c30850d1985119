//! The devices as the program sees them: the one it chooses says which lazy task its next ops are of, not on
//! which GPU they run.

use mgb_core::{gate, pace};

use super::{errors, ordinals};
use crate::code::{Answer, Code, Own, fail};
use crate::{device, fault, handles, mapping, restrict, session, state, thread};

/// `cudaSetDevice`.
///
/// # Safety
/// None needed; the type is that of all treatments.
pub unsafe fn set(_native: unsafe extern "C" fn(i32) -> Code, ordinal: i32) -> Answer {
    ordinals::exists(ordinal)?;
    state::note_choice(ordinal);
    thread::with(|thread| thread.set_program_device(ordinal));
    fault::choose()?;
    restrict::choose_context()?;
    Ok(Code::SUCCESS)
}

/// `cudaGetDevice`.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn get(_native: unsafe extern "C" fn(*mut i32) -> Code, out: *mut i32) -> Answer {
    if out.is_null() {
        return fail(Code::INVALID_VALUE);
    }
    // SAFETY: `out` is not null, so it is writable: contract of this function.
    unsafe { out.write(thread::with(|thread| thread.program_device())) };
    Ok(Code::SUCCESS)
}

/// `cudaInitDevice`.
///
/// # Safety
/// None needed; the type is that of all treatments.
pub unsafe fn init(
    _native: unsafe extern "C" fn(i32, u32, u32) -> Code,
    ordinal: i32,
    _device_flags: u32,
    _flags: u32,
) -> Answer {
    ordinals::exists(ordinal)?;
    restrict::have_context()?;
    Ok(Code::SUCCESS)
}

/// `cudaDeviceReset`: the objects and handles of the program's device are gone, its tasks over. GPUs that
/// other devices of the program are on keep their contexts.
///
/// # Safety
/// The arguments meet the contract of `cudaDeviceReset`.
pub unsafe fn reset(_native: unsafe extern "C" fn() -> Code) -> Answer {
    thread::with(|thread| thread.take_hint());
    if fault::of_process().is_some() && fault::sticky() == Some(Code::DEVICES_UNAVAILABLE) {
        // It was reset after a fault: there has been nothing since.
        return Ok(Code::SUCCESS);
    }
    let mut answer = Code::SUCCESS;
    for (gpu, ordinal) in device::with_context() {
        let (Ok(code) | Err(Own(code))) = errors::untold(|| device::synchronize(gpu, ordinal));
        if code.is_of_process() {
            fault::note(code);
        }
        // The reset ends a context that is broken for good, and the error with it.
        answer = if code.is_success() || code.is_sticky() {
            answer
        } else {
            code
        };
    }
    let own = state::current();
    let closed = gate::close();
    let objects = state::lock().objects_of(own);
    for object in objects {
        let freed = state::lock_still(object).free(object);
        mapping::finish_free(freed.unwrap_or_default());
    }
    mapping::release_spares();
    let mut rest = Vec::new();
    let others = {
        let mut state = state::lock();
        state::let_go(&mut state, own);
        for (gpu, bytes) in state.forget_outside(own) {
            session::unmapping(gpu, bytes);
        }
        state.drop_lazy(own);
        super::peers::forget(own);
        crate::handles::forget(own);
        let keys: Vec<_> = state.tasks().map(|(key, _)| key).collect();
        let mut others = state.gpus_of_others(own);
        for key in keys {
            if let Some(task) = state.task(key).filter(|task| task.device != own) {
                let bound = task.id.and(task.gpu);
                others |= bound.map_or(0, |gpu| 1 << gpu);
                continue;
            }
            if let Some(task) = state.task(key).filter(|task| !task.is_held()) {
                task.records.take();
                task.ended = true;
                if let Some(id) = task.id {
                    rest.push(id);
                }
                task.unbind();
            }
            state.drop_if_over(key);
        }
        others
    };
    for id in rest {
        session::end(id, 0);
    }
    if others == 0 {
        super::function::forget();
    }
    pace::contexts_end();
    let code = device::reset(others, |gpu| {
        handles::context_gone(gpu);
        handles::foreign::context_gone(gpu);
        super::parts::forget(gpu);
    });
    fault::clear();
    drop(closed);
    Ok(if answer.is_success() { code } else { answer })
}
