//! Processes whose own code calls the driver API are restricted to one GPU: the one that mgbd grants.
//!
//! lazyrt does not see the ordinals, contexts and allocations that a program makes by the driver API. So
//! such a process asks for a GPU before anything of CUDA is initialised, and the driver is initialised
//! with that GPU as the only one: `cuDeviceGet(0)`, `cudaSetDevice(0)` and every library mean the same
//! GPU, whatever its number on the node. Both APIs count one device. Which context is current is the
//! program's choice, too.
//!
//! How the program comes by the driver's functions does not matter: by linking, by loading the driver, or
//! from the runtime. A driver that is initialised by code that the pass has not seen, before the process's
//! first call of the runtime, sees all GPUs that it saw before.

use crate::code::Own;
use crate::launch_view::Device;
use crate::{device, foreign_cuda, session, state, task_binding};

/// The only device there is.
const FIRST: Device = 0;

/// Called by programs before `cuInit`, natively the driver's first call, and before they load a library.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_before_driver() {
    session::mode();
}

/// Asks for a GPU and initialises the driver with that one alone. Makes no context. Where mgbd refuses, or
/// the driver was in use before, the process stays unrestricted.
pub fn to_one_gpu() {
    let key = state::lock().lazy_task_of(FIRST);
    if let Ok(gpu) = task_binding::bind_only(key) {
        state::tie(FIRST, gpu);
    }
}

/// A context as the runtime has one current after `cudaFree(0)`, where the program's own code could look for
/// it.
pub fn have_context() -> Result<(), Own> {
    with_gpu(device::select)
}

/// The runtime's own context, as it is current after `cudaSetDevice`, whatever was before.
pub fn choose_context() -> Result<(), Own> {
    with_gpu(device::choose)
}

fn with_gpu(act: impl FnOnce(u32, i32) -> Result<(), Own>) -> Result<(), Own> {
    if !foreign_cuda::calls_driver() {
        return Ok(());
    }
    if state::lazy_shared_of(FIRST).is_none_or(|shared| !shared.is_ready()) {
        // As after a reset.
        to_one_gpu();
    }
    match state::lazy_shared_of(FIRST).filter(|shared| shared.is_ready()) {
        Some(shared) => {
            let (gpu, ordinal) = shared.placement();
            act(gpu, ordinal)
        }
        None => Ok(()),
    }
}
