//! Processes whose own code calls the driver API: they see one GPU, the one they were granted.
//!
//! The driver's ordinals, contexts and allocations are the program's own business; lazyrt sees none of them. So such a
//! process asks for a GPU before anything of CUDA is initialised, and the driver is initialised with that GPU as the only
//! one: `cuDeviceGet(0)`, `cudaSetDevice(0)` and every library mean the same GPU, whatever its number on the node. Both
//! APIs count one device. Which context is current is the program's choice, too.
//!
//! How the program comes by the driver's functions does not matter: by linking, by loading the driver, or from the runtime.
//! A driver that is loaded and initialised by code that the pass has not seen, before the process's first call of the
//! runtime, sees what it saw.

use std::ffi::OsString;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::code::Own;
use crate::ops::opaque;
use crate::state::{self, Device};
use crate::{bind, device, mode, open};

const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The only device there is.
const FIRST: Device = 0;
/// The GPU, index into the hello; -1 while the process sees what it saw.
static NARROWED: AtomicI64 = AtomicI64::new(-1);

/// Called by programs before `cuInit`, natively the driver's first call, and before they load a library.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_before_driver() {
    mode::mode();
}

/// Asks for a GPU and initialises the driver with that one alone. Makes no context. Where mgbd refuses, or the driver was
/// in use before, the process sees what it saw.
pub fn to_one_gpu() {
    let key = state::lock().lazy_task_of(FIRST);
    if let Ok(gpu) = bind::place(key) {
        opaque::tie(FIRST, gpu);
    }
}

/// The only GPU that this process sees, if it was narrowed.
pub fn gpu() -> Option<u32> {
    u32::try_from(NARROWED.load(Ordering::Acquire)).ok()
}

/// Called with what mgbd granted, before anything asks the driver for its GPUs.
pub fn before_driver(gpu: u32) {
    if !open::calls_driver() || crate::driver::is_loaded() {
        return;
    }
    let Some(granted) = mode::client().and_then(|client| client.hello().gpus.get(gpu as usize)) else {
        return;
    };
    NARROWED.store(i64::from(gpu), Ordering::Release);
    let before = std::env::var_os(VISIBLE);
    set(Some(OsString::from(&granted.uuid)));
    let _ = device::driver();
    // The driver has read it; programs that this one starts ask for themselves.
    set(before);
}

fn set(value: Option<OsString>) {
    // SAFETY: the process's first GPU op, as where the MPS pipe is set: a thread that reads the environment by itself at
    // this moment is the program's own risk, as with any setenv of a library.
    unsafe {
        match value {
            Some(value) => std::env::set_var(VISIBLE, value),
            None => std::env::remove_var(VISIBLE),
        }
    }
}

/// A context as the runtime has one current after `cudaFree(0)`, where the program's own code could look for it.
pub fn have_context() -> Result<(), Own> {
    with_gpu(device::select)
}

/// The runtime's own context, as it is current after `cudaSetDevice`, whatever was before.
pub fn choose_context() -> Result<(), Own> {
    with_gpu(device::choose)
}

fn with_gpu(act: impl FnOnce(u32, i32) -> Result<(), Own>) -> Result<(), Own> {
    if !open::calls_driver() {
        return Ok(());
    }
    if state::lazy_shared_of(FIRST).is_none_or(|shared| !shared.is_ready()) {
        // As after a reset.
        to_one_gpu();
    }
    match state::lazy_shared_of(FIRST).filter(|shared| shared.is_ready()) {
        Some(shared) => {
            let (gpu, ordinal) = shared.place();
            act(gpu, ordinal)
        }
        None => Ok(()),
    }
}
