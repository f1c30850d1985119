//! The configuration that `<<<...>>>` pushes for a kernel's host stub.
//!
//! A stub that is called as an ordinary function finds none. clang's stub does not look at what the pop
//! answers and launches with its own uninitialised variables, whose stream the driver would follow as a
//! pointer. So a pop that fails leaves an empty grid here, in the default stream: CUDA refuses that launch,
//! and the program goes on. nvcc's stub looks, and launches nothing.

use std::ffi::c_void;

use mgb_abi::launch::Dim3;

use crate::code::Code;
use crate::functions::index;
use crate::native::{self, Stream};

type Pop = unsafe extern "C" fn(*mut Dim3, *mut Dim3, *mut usize, *mut Stream) -> Code;

/// `__cudaPopCallConfiguration`, in every mode.
///
/// # Safety
/// Each pointer is null or valid for writes of its type.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mgb___cudaPopCallConfiguration(
    grid: *mut Dim3,
    block: *mut Dim3,
    shared: *mut usize,
    stream: *mut Stream,
) -> Code {
    // SAFETY: the address is the function's, or of one that takes anything; the type is the header's.
    let real = unsafe {
        std::mem::transmute::<*const c_void, Pop>(native::address(index::__cudaPopCallConfiguration))
    };
    // SAFETY: contract of this function, which is the runtime's.
    let code = unsafe { real(grid, block, shared, stream) };
    if !code.is_success() {
        // SAFETY: null or valid for writes (contract of this function).
        unsafe { leave_empty(grid, block, shared, stream) };
    }
    code
}

/// # Safety
/// Each pointer is null or valid for writes of its type.
#[cold]
unsafe fn leave_empty(grid: *mut Dim3, block: *mut Dim3, shared: *mut usize, stream: *mut Stream) {
    // SAFETY: contract of this function.
    unsafe {
        write(grid, Dim3::EMPTY);
        write(block, Dim3::EMPTY);
        write(shared, 0);
        write(stream, std::ptr::null_mut());
    }
}

/// # Safety
/// `place` is null or valid for writes.
unsafe fn write<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: contract of this function.
        unsafe { place.write(value) };
    }
}
