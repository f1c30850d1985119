//! Launches.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

use mgb_abi::launch::{ATTRIBUTE_CLUSTER_DIMENSION, ATTRIBUTE_COOPERATIVE, Dim3, LaunchConfig};

use super::{put, runtime};
use crate::device::{current, resolve};
use crate::error::{Error, Result, say_once};
use crate::exec::registry;
use crate::kernel::launch::{Launch, Shape};
use crate::submit;
use crate::work::{Action, Work};

/// What stands between `<<<` and `>>>`.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: usize,
}

thread_local! {
    static PUSHED: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// Launches the kernel of a host stub.
///
/// # Safety
/// `arguments` is as the kernel's parameters ask.
pub unsafe fn by_stub(stub: usize, shape: &Shape, stream: usize, arguments: *mut *mut c_void) -> Result {
    let (gpu, stream) = resolve::stream(stream)?;
    if current::gpu()?.ordinal != gpu.ordinal {
        // The stream is another device's.
        return Err(Error::INVALID_HANDLE);
    }
    let function = registry::function(stub)?;
    // SAFETY: `arguments` points to a value for each parameter: contract of `by_stub`.
    let launch = unsafe { Launch::new(gpu, function, *shape, arguments.cast_const().cast())? };
    let action = Action::Kernel(Arc::new(launch));
    submit::issue(&stream, Work { gpu, action })
}

runtime! {
    fn cudaLaunchKernel(
        stub: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize,
        stream: usize,
    ) {
        let shape = Shape { grid: grid.array(), block: block.array(), shared, cooperative: false };
        // SAFETY: `arguments` points to a value for each parameter of the kernel: CUDA's contract of a
        // launch.
        unsafe { by_stub(stub as usize, &shape, stream, arguments) }
    }

    fn cudaLaunchCooperativeKernel(
        stub: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize,
        stream: usize,
    ) {
        let shape = Shape { grid: grid.array(), block: block.array(), shared, cooperative: true };
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
        let mut shape = Shape {
            grid: config.grid.array(),
            block: config.block.array(),
            shared: config.shared,
            cooperative: false,
        };
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
        // SAFETY: `arguments` points to a value for each parameter of the kernel: CUDA's contract of a
        // launch.
        unsafe { by_stub(stub as usize, &shape, config.stream as usize, arguments) }
    }

    fn __cudaPopCallConfiguration(grid: *mut Dim3, block: *mut Dim3, shared: *mut usize, stream: *mut usize) {
        let pushed = PUSHED.with_borrow_mut(Vec::pop).ok_or(Error::MISSING_CONFIGURATION)?;
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
    PUSHED.with_borrow_mut(|pushed| {
        pushed.push(Configuration {
            grid,
            block,
            shared,
            stream,
        })
    });
    0
}
