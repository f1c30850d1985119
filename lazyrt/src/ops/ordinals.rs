//! The program's numbers of devices, and the runtime's numbers of the GPUs that they are on.

use mgb_probe::wire::MAX_GPUS;

use crate::code::{Code, Own, fail};
use crate::launch_view::Device;
use crate::task_binding::{self, Asked};
use crate::{device, driver_start, native, session, state};

/// The device of an argument. Fails as CUDA does for an ordinal that is none.
pub fn check(ordinal: i32) -> Result<Device, Own> {
    exists(ordinal)?;
    Ok((ordinal as usize).min(MAX_GPUS - 1))
}

/// Fails as CUDA does for an ordinal that is none. Makes no context.
pub fn exists(ordinal: i32) -> Result<(), Own> {
    if !driver_start::is_loaded() && is_shared(ordinal) {
        session::note_use();
        return Ok(());
    }
    driver_start::required()?;
    let mut count = 0;
    // SAFETY: writes one int.
    let code = unsafe { native::cudaGetDeviceCount(&mut count) };
    if !code.is_success() {
        return fail(code);
    }
    if (0..count).contains(&ordinal) {
        Ok(())
    } else {
        fail(Code::INVALID_DEVICE)
    }
}

/// Whether it is certain without the driver that there is such a device: a process that sees all GPUs of the
/// node sees at least as many as mgbd shares.
fn is_shared(ordinal: i32) -> bool {
    let sees_all = std::env::var_os("CUDA_VISIBLE_DEVICES").is_none();
    let shared = session::gpus().len();
    sees_all && usize::try_from(ordinal).is_ok_and(|ordinal| ordinal < shared)
}

/// The real number of the program's device: binds its lazy task, and ties the device to that GPU. A wrong one
/// is left to the runtime to report.
pub fn real(device: i32) -> Result<i32, Own> {
    let Ok(checked) = check(device) else {
        return Ok(device);
    };
    let (key, gpu) = {
        let mut state = state::lock();
        (state.lazy_task_of(checked), state.bound_gpu(checked))
    };
    let asked = Asked {
        gpu,
        ..Asked::default()
    };
    let (gpu, ordinal) = task_binding::prepare(key, asked)?.placement();
    state::tie(checked, gpu);
    Ok(ordinal)
}

/// The program's device that has the runtime's number: the reverse of [`real`].
pub fn program_device(ordinal: i32) -> i32 {
    let found = device::at(ordinal).and_then(|gpu| state::lock().device_on(gpu));
    found.map_or(ordinal, |device| device as i32)
}
