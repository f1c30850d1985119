//! Launches of kernels and graphs. A `CUfunction` is the host stub of a kernel, which is what
//! `cudaGetFuncBySymbol` gives: there are no modules to load.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use mgb_abi::launch::{
    ATTRIBUTE_CLUSTER_DIMENSION, ATTRIBUTE_COOPERATIVE, Dim3, DriverLaunchConfig, LaunchAttribute,
};

use super::{driver, stream};
use crate::device::{Gpu, current};
use crate::error::{Error, Result, say_once};
use crate::exec::registry::{self, KernelFunction};
use crate::graph::exec;
use crate::kernel::launch::{CheckedLaunch, LaunchShape};
use crate::stream::DeviceStream;
use crate::submit;
use crate::work::{Action, DeviceWork};

/// Adds what attributes ask for to a launch's shape.
///
/// # Errors
/// `NOT_SUPPORTED` for clusters.
pub fn with_attributes(mut shape: LaunchShape, attributes: &[LaunchAttribute]) -> Result<LaunchShape> {
    for attribute in attributes {
        match attribute.id {
            ATTRIBUTE_COOPERATIVE => shape.cooperative = attribute.value.0[0] != 0,
            ATTRIBUTE_CLUSTER_DIMENSION if attribute.value.0[..3] != [1, 1, 1] => {
                say_once("launches in clusters are not supported by the software GPU");
                return Err(Error::NOT_SUPPORTED);
            }
            // The others change how fast or when a kernel starts, not what it does.
            _ => {}
        }
    }
    Ok(shape)
}

/// Launches a kernel in a stream of a device.
///
/// # Errors
/// Those of [`CheckedLaunch::new`] and of capturing.
///
/// # Safety
/// `arguments` is as the kernel's parameters ask.
pub unsafe fn launch(
    gpu: &'static Gpu,
    stream: &Arc<DeviceStream>,
    function: Arc<KernelFunction>,
    shape: &LaunchShape,
    arguments: *mut *mut c_void,
) -> Result {
    // SAFETY: `arguments` points to a value for each parameter: contract of `launch`.
    let launch = unsafe { CheckedLaunch::new(gpu, function, *shape, arguments.cast_const().cast())? };
    let action = Action::Kernel(Arc::new(launch));
    submit::issue(stream, DeviceWork { gpu, action })
}

/// Launches the kernel of a handle.
///
/// # Safety
/// `arguments` is as the kernel's parameters ask, or `extra` is given.
unsafe fn by_handle(
    kernel: usize,
    shape: &LaunchShape,
    handle: usize,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result {
    let (gpu, stream) = stream(handle)?;
    if current::context().is_some_and(|current| current.ordinal != gpu.ordinal) {
        // The stream is another device's.
        return Err(Error::INVALID_HANDLE);
    }
    let function = registry::function(kernel)?;
    if !extra.is_null() {
        say_once("launches with packed arguments (extra) are not supported by the software GPU");
        return Err(Error::NOT_SUPPORTED);
    }
    // SAFETY: `arguments` points to a value for each parameter: contract of `by_handle`.
    unsafe { launch(gpu, &stream, function, shape, arguments) }
}

fn shape(grid: [c_uint; 3], block: [c_uint; 3], shared: c_uint, cooperative: bool) -> LaunchShape {
    let shared = shared as usize;
    LaunchShape {
        grid,
        block,
        shared,
        cooperative,
    }
}

driver! {
    fn cuLaunchKernel(
        kernel: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: usize, arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let shape = shape([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, false);
        // SAFETY: `arguments` points to a value for each parameter of the kernel: CUDA's contract of a
        // launch.
        unsafe { by_handle(kernel, &shape, stream, arguments, extra) }
    }

    fn cuLaunchCooperativeKernel(
        kernel: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: usize, arguments: *mut *mut c_void,
    ) {
        let shape = shape([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, true);
        // SAFETY: `arguments` points to a value for each parameter of the kernel: CUDA's contract of a
        // launch.
        unsafe { by_handle(kernel, &shape, stream, arguments, std::ptr::null_mut()) }
    }

    fn cuLaunchKernelEx(
        config: *const DriverLaunchConfig, kernel: usize, arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        // SAFETY: `config` is null or valid for reads, with `count` attributes: CUDA's contract of the
        // function.
        let (config, attributes) = unsafe {
            let config = config.as_ref().ok_or(Error::INVALID_VALUE)?;
            (config, crate::image::slice(config.attributes, config.count))
        };
        let plain = shape(Dim3::array(config.grid), Dim3::array(config.block), config.shared, false);
        let shape = with_attributes(plain, attributes)?;
        // SAFETY: `arguments` points to a value for each parameter of the kernel: CUDA's contract of a
        // launch.
        unsafe { by_handle(kernel, &shape, config.stream, arguments, extra) }
    }

    fn cuGraphLaunch(graph: usize, handle: usize) {
        let exec = exec::find(graph)?;
        let (gpu, stream) = stream(handle)?;
        exec.launch(gpu, &stream)
    }

    fn cuGraphUpload(graph: usize, handle: usize) {
        let exec = exec::find(graph)?;
        stream(handle)?;
        exec.take_memory()
    }
}
