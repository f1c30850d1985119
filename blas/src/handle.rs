//! Handles, and what is set in them.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};

use crate::runtime::{StreamHandle, cudaFree, cudaRuntimeGetVersion};
use crate::status::{Result, Status, code};

/// `CUBLAS_VERSION` of the headers that this library follows.
const VERSION: [c_int; 3] = [13, 0, 2];

/// `CUBLAS_POINTER_MODE_DEVICE`
const DEVICE: c_int = 1;

/// What a `cublasHandle_t` points to.
#[derive(Default)]
pub struct BlasHandle {
    stream: AtomicUsize,
    pointer_mode: AtomicI32,
    /// These three are only kept: they choose among ways that are one here.
    math_mode: AtomicI32,
    atomics_mode: AtomicI32,
    multiprocessors: AtomicI32,
}

impl BlasHandle {
    /// The stream that work goes to.
    pub fn stream(&self) -> StreamHandle {
        self.stream.load(Relaxed)
    }

    /// Whether scalars and results are in device memory.
    pub fn scalars_on_device(&self) -> bool {
        self.pointer_mode.load(Relaxed) == DEVICE
    }
}

/// `cublasHandle_t`
pub type Pointer = *const BlasHandle;

/// The handle that a function is called with.
///
/// # Errors
/// `NotInitialized` if it is null.
///
/// # Safety
/// It is null, or of `cublasCreate` and not destroyed.
pub unsafe fn handle<'a>(pointer: Pointer) -> Result<&'a BlasHandle> {
    // SAFETY: contract of `handle`.
    unsafe { pointer.as_ref() }.ok_or(Status::NotInitialized)
}

/// Writes through an out pointer of the caller.
///
/// # Errors
/// `InvalidValue` if it is null.
///
/// # Safety
/// It is null or valid for writes.
pub unsafe fn put<T>(pointer: *mut T, value: T) -> Result {
    if pointer.is_null() {
        return Err(Status::InvalidValue);
    }
    // SAFETY: contract of `put`.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Functions of handles: all take one first.
macro_rules! handles {
    ($($name:ident($handle:ident $(, $arg:ident: $ty:ty)*) $body:block)*) => {$(
        #[doc = concat!("cuBLAS's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// The handle is null or valid; pointers are as cuBLAS's documentation of the function asks.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($handle: Pointer $(, $arg: $ty)*) -> i32 {
            crate::export::call(stringify!($name), || {
                // SAFETY: null or valid: cuBLAS's contract.
                let $handle = unsafe { handle($handle) }?;
                $body
            })
        }
    )*};
}

/// Keeps a value of an enumeration.
fn keep(at: &AtomicI32, value: c_int, allowed: impl Fn(c_int) -> bool) -> Result {
    if !allowed(value) {
        return Err(Status::InvalidValue);
    }
    at.store(value, Relaxed);
    Ok(())
}

handles! {
    cublasSetStream_v2(handle, stream: StreamHandle) {
        handle.stream.store(stream, Relaxed);
        Ok(())
    }
    cublasGetStream_v2(handle, stream: *mut StreamHandle) {
        // SAFETY: null or writable: cuBLAS's contract.
        unsafe { put(stream, handle.stream()) }
    }
    cublasSetPointerMode_v2(handle, mode: c_int) {
        keep(&handle.pointer_mode, mode, |mode| (0..=DEVICE).contains(&mode))
    }
    cublasGetPointerMode_v2(handle, mode: *mut c_int) {
        // SAFETY: null or writable: cuBLAS's contract.
        unsafe { put(mode, handle.pointer_mode.load(Relaxed)) }
    }
    cublasSetMathMode(handle, mode: c_int) {
        // The lower bits are a mode, and one above them forbids sums of less precision.
        keep(&handle.math_mode, mode, |mode| (0..=4).contains(&(mode & !16)))
    }
    cublasGetMathMode(handle, mode: *mut c_int) {
        // SAFETY: null or writable: cuBLAS's contract.
        unsafe { put(mode, handle.math_mode.load(Relaxed)) }
    }
    cublasSetAtomicsMode(handle, mode: c_int) {
        keep(&handle.atomics_mode, mode, |mode| (0..=1).contains(&mode))
    }
    cublasGetAtomicsMode(handle, mode: *mut c_int) {
        // SAFETY: null or writable: cuBLAS's contract.
        unsafe { put(mode, handle.atomics_mode.load(Relaxed)) }
    }
    cublasSetSmCountTarget(handle, count: c_int) {
        keep(&handle.multiprocessors, count, |count| count >= 0)
    }
    cublasGetSmCountTarget(handle, count: *mut c_int) {
        // SAFETY: null or writable: cuBLAS's contract.
        unsafe { put(count, handle.multiprocessors.load(Relaxed)) }
    }
    // No function here needs room of its own.
    cublasSetWorkspace_v2(_handle, _workspace: *mut c_void, _bytes: usize) {
        Ok(())
    }
    cublasGetVersion_v2(_handle, version: *mut c_int) {
        let [major, minor, patch] = VERSION;
        // SAFETY: null or writable: cuBLAS's contract.
        unsafe { put(version, major * 10_000 + minor * 100 + patch) }
    }
}

/// cuBLAS's `cublasCreate_v2`.
///
/// # Safety
/// `handle` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasCreate_v2(handle: *mut Pointer) -> i32 {
    crate::export::call("cublasCreate", || {
        if handle.is_null() {
            return Err(Status::InvalidValue);
        }
        // As NVIDIA's does: it makes the current device's context, or finds that there is none.
        // SAFETY: frees nothing.
        if unsafe { cudaFree(null_mut()) } != 0 {
            return Err(Status::NotInitialized);
        }
        let new = Box::into_raw(Box::<BlasHandle>::default());
        // SAFETY: not null, so valid for writes: contract of `cublasCreate_v2`.
        unsafe { put(handle, new.cast_const()) }
    })
}

/// cuBLAS's `cublasDestroy_v2`.
///
/// # Safety
/// `handle` is null or of `cublasCreate_v2`, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasDestroy_v2(handle: Pointer) -> i32 {
    if handle.is_null() {
        return code(Err(Status::NotInitialized));
    }
    // SAFETY: it came from `Box::into_raw` in `cublasCreate_v2`, and is not used again: contract of this
    // function.
    drop(unsafe { Box::from_raw(handle.cast_mut()) });
    0
}

/// cuBLAS's `cublasGetProperty`.
///
/// # Safety
/// `value` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetProperty(property: c_int, value: *mut c_int) -> i32 {
    let part = usize::try_from(property).ok().and_then(|at| VERSION.get(at));
    code(part.ok_or(Status::InvalidValue).and_then(|&part| {
        // SAFETY: null or writable: contract of this function.
        unsafe { put(value, part) }
    }))
}

/// The version of the runtime: cuBLAS's `cublasGetCudartVersion`.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetCudartVersion() -> usize {
    let mut version = 0;
    // SAFETY: a place for the answer.
    unsafe { cudaRuntimeGetVersion(&raw mut version) };
    version as usize
}
