//! Kernel handles, which `nvcc`'s stubs launch through. A handle is the host stub.

use std::ffi::{c_char, c_int, c_void};

use mgb_abi::launch::Dim3;

use super::launch::by_stub;
use super::{put, runtime};
use crate::error::Error;
use crate::exec::registry;
use crate::kernel::launch::LaunchShape;

runtime! {
    fn __cudaGetKernel(kernel: *mut usize, stub: *const c_void) {
        registry::function(stub as usize)?;
        put!(kernel, stub as usize);
        Ok(())
    }

    fn __cudaLaunchKernel(
        kernel: usize, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: usize,
    ) {
        let shape = LaunchShape { grid: grid.array(), block: block.array(), shared, cooperative: false };
        // SAFETY: `arguments` points to a value for each parameter of the kernel: CUDA's contract of a
        // launch.
        unsafe { by_stub(kernel, &shape, stream, arguments) }
    }

    fn cudaGetKernel(kernel: *mut usize, stub: *const c_void) {
        registry::function(stub as usize)?;
        put!(kernel, stub as usize);
        Ok(())
    }

    fn cudaGetFuncBySymbol(function: *mut usize, stub: *const c_void) {
        registry::function(stub as usize)?;
        put!(function, stub as usize);
        Ok(())
    }

    fn cudaFuncGetName(name: *mut *const c_char, stub: *const c_void) {
        let function = registry::function(stub as usize)?;
        let code = function.code.ok_or(Error::INVALID_DEVICE_FUNCTION)?;
        put!(name, code.kernel.name);
        Ok(())
    }

    fn cudaFuncGetParamInfo(stub: *const c_void, index: usize, offset: *mut usize, size: *mut usize) {
        let code = registry::function(stub as usize)?.code.ok_or(Error::INVALID_DEVICE_FUNCTION)?;
        // SAFETY: a registered image's array.
        let parameters = unsafe { crate::image::slice(code.kernel.parameters, code.kernel.parameter_count) };
        let mut end = 0usize;
        for (at, parameter) in parameters.iter().enumerate() {
            let start = end.next_multiple_of(parameter.align.max(1) as usize);
            if at == index {
                put!(offset, start);
                if !size.is_null() {
                    put!(size, parameter.size as usize);
                }
                return Ok(());
            }
            end = start + parameter.size as usize;
        }
        Err(Error::INVALID_VALUE)
    }

    fn cudaKernelSetAttributeForDevice(kernel: usize, attribute: u32, value: c_int, _device: c_int) {
        super::attributes::set(kernel, attribute, value)
    }
}
