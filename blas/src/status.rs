//! The status codes that cuBLAS's functions answer.

use std::ffi::{CStr, c_char};

/// `cublasStatus_t`, other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// No handle, or no device to make one for.
    NotInitialized = 1,
    /// An argument is out of its range.
    InvalidValue = 7,
    /// A copy failed.
    MappingError = 11,
    /// A kernel could not be launched, or failed.
    ExecutionFailed = 13,
    /// This library failed.
    InternalError = 14,
    /// The function does not take these types.
    NotSupported = 15,
}

/// What a function of the library comes to.
pub type Result<T = ()> = std::result::Result<T, Status>;

/// The code of a result.
pub fn code(result: Result) -> i32 {
    result.err().map_or(0, |status| status as i32)
}

/// Names and texts of all codes that cuBLAS has.
const CODES: [(i32, &CStr, &CStr); 10] = [
    (0, c"CUBLAS_STATUS_SUCCESS", c"success"),
    (
        1,
        c"CUBLAS_STATUS_NOT_INITIALIZED",
        c"the library was not initialized",
    ),
    (
        3,
        c"CUBLAS_STATUS_ALLOC_FAILED",
        c"the resource allocation failed",
    ),
    (
        7,
        c"CUBLAS_STATUS_INVALID_VALUE",
        c"an invalid value was passed to the function",
    ),
    (
        8,
        c"CUBLAS_STATUS_ARCH_MISMATCH",
        c"the device lacks a feature that the function needs",
    ),
    (
        11,
        c"CUBLAS_STATUS_MAPPING_ERROR",
        c"an access to device memory failed",
    ),
    (
        13,
        c"CUBLAS_STATUS_EXECUTION_FAILED",
        c"the function failed to launch or to run on the device",
    ),
    (
        14,
        c"CUBLAS_STATUS_INTERNAL_ERROR",
        c"an internal operation failed",
    ),
    (
        15,
        c"CUBLAS_STATUS_NOT_SUPPORTED",
        c"the function does not support these parameters",
    ),
    (
        16,
        c"CUBLAS_STATUS_LICENSE_ERROR",
        c"the function needs a license that was not found",
    ),
];

fn find(code: i32) -> Option<&'static (i32, &'static CStr, &'static CStr)> {
    CODES.iter().find(|(known, ..)| *known == code)
}

/// The name of a status: cuBLAS's `cublasGetStatusName`.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusName(code: i32) -> *const c_char {
    find(code).map_or(c"<unknown>", |(_, name, _)| name).as_ptr()
}

/// What a status means: cuBLAS's `cublasGetStatusString`.
#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusString(code: i32) -> *const c_char {
    find(code).map_or(c"<unknown>", |(.., text)| text).as_ptr()
}
