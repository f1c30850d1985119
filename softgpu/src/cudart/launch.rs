//! The runtime's functions that launch kernels.

use std::ffi::{c_uint, c_void};

use mgb_abi::launch::{Dim3, DriverLaunchConfig, LaunchConfig};

use super::{put, runtime};
use crate::device::{current, resolve};
use crate::driver::launch as driver;
use crate::driver_front::{self, Front};
use crate::error::{Error, Result};
use crate::exec::registry;
use crate::kernel::{self, launch::LaunchShape};
use crate::per_thread::PerThread;

/// What stands between `<<<` and `>>>`.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: usize,
}

static PUSHED: PerThread<Vec<Configuration>> = PerThread::new();

/// Launches the kernel of a host stub.
///
/// # Safety
/// `arguments` is as the kernel's parameters ask.
pub unsafe fn by_stub(
    stub: usize,
    shape: &LaunchShape,
    handle: usize,
    arguments: *mut *mut c_void,
) -> Result {
    // SAFETY: contract of `by_stub`.
    unsafe {
        launch(stub, shape, handle, arguments, |front| {
            let ([gx, gy, gz], [bx, by, bz], shared) = (shape.grid, shape.block, shape.shared as c_uint);
            if shape.cooperative {
                front.cuLaunchCooperativeKernel(stub, gx, gy, gz, bx, by, bz, shared, handle, arguments)
            } else {
                let extra = std::ptr::null_mut();
                front.cuLaunchKernel(stub, gx, gy, gz, bx, by, bz, shared, handle, arguments, extra)
            }
        })
    }
}

/// Checks a launch, then does it; `by_front` has a front do it.
///
/// # Safety
/// `arguments` is as the kernel's parameters ask.
unsafe fn launch(
    stub: usize,
    shape: &LaunchShape,
    handle: usize,
    arguments: *mut *mut c_void,
    by_front: impl FnOnce(&Front) -> Result,
) -> Result {
    let (gpu, stream) = resolve::stream(handle)?;
    if current::gpu()?.ordinal != gpu.ordinal {
        // The stream is another device's.
        return Err(Error::INVALID_HANDLE);
    }
    let function = registry::function(stub)?;
    let Some(front) = driver_front::front() else {
        // SAFETY: contract of `launch`.
        return unsafe { driver::launch(gpu, &stream, function, shape, arguments) };
    };
    // What is wrong with it has names of the runtime's own, and a shape has more bits.
    kernel::launch::check(gpu.profile(), &function, shape)?;
    function.runnable()?;
    by_front(front)
}

runtime! {
    fn cudaLaunchKernel(
        stub: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize,
        stream: usize,
    ) {
        let shape = LaunchShape { grid: grid.array(), block: block.array(), shared, cooperative: false };
        // SAFETY: `arguments` points to a value for each parameter of the kernel: CUDA's contract of a
        // launch.
        unsafe { by_stub(stub as usize, &shape, stream, arguments) }
    }

    fn cudaLaunchCooperativeKernel(
        stub: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize,
        stream: usize,
    ) {
        let shape = LaunchShape { grid: grid.array(), block: block.array(), shared, cooperative: true };
        // SAFETY: `arguments` points to a value for each parameter of the kernel: CUDA's contract of a
        // launch.
        unsafe { by_stub(stub as usize, &shape, stream, arguments) }
    }

    fn cudaLaunchKernelExC(config: *const LaunchConfig, stub: *const c_void, arguments: *mut *mut c_void) {
        // SAFETY: `config` is null or valid for reads, with `count` attributes: CUDA's contract of the
        // function.
        let (config, attributes) = unsafe {
            let config = config.as_ref().ok_or(Error::INVALID_VALUE)?;
            (config, crate::image::slice(config.attributes, config.count))
        };
        let plain = LaunchShape {
            grid: config.grid.array(),
            block: config.block.array(),
            shared: config.shared,
            cooperative: false,
        };
        let shape = driver::with_attributes(plain, attributes)?;
        let by_front = |front: &Front| {
            let &LaunchConfig { grid, block, shared, stream, attributes, count } = config;
            let (shared, stream) = (shared as u32, stream as usize);
            let config = DriverLaunchConfig { grid, block, shared, stream, attributes, count };
            front.cuLaunchKernelEx(&config, stub as usize, arguments, std::ptr::null_mut())
        };
        // SAFETY: `arguments` points to a value for each parameter of the kernel: CUDA's contract of a
        // launch.
        unsafe { launch(stub as usize, &shape, config.stream as usize, arguments, by_front) }
    }

    fn __cudaPopCallConfiguration(grid: *mut Dim3, block: *mut Dim3, shared: *mut usize, stream: *mut usize) {
        let pushed = PUSHED.with(Vec::pop).ok_or(Error::MISSING_CONFIGURATION)?;
        put!(grid, pushed.grid);
        put!(block, pushed.block);
        put!(shared, pushed.shared);
        put!(stream, pushed.stream);
        Ok(())
    }
}

/// CUDA's half of `<<<…>>>` before the stub; zero, so that the stub is called.
///
/// # Safety
/// None needed: the stream is only kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: usize,
) -> u32 {
    PUSHED.with(|pushed| {
        pushed.push(Configuration {
            grid,
            block,
            shared,
            stream,
        })
    });
    0
}
