//! NVML, `libnvidia-ml.so.1`: what monitors ask about the devices of the node. It sees all of them,
//! whatever `CUDA_VISIBLE_DEVICES` says, and makes no context.

pub mod device;
pub mod hardware;
pub mod health;
pub mod system;
mod users;

use std::ffi::c_char;

use crate::entry::caught;
use crate::state::{self, SharedState};

/// `nvmlReturn_t`, without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Refusal {
    /// `NVML_ERROR_UNINITIALIZED`.
    Uninitialized = 1,
    /// `NVML_ERROR_INVALID_ARGUMENT`.
    InvalidArgument = 2,
    /// `NVML_ERROR_NOT_SUPPORTED`.
    NotSupported = 3,
    /// `NVML_ERROR_NOT_FOUND`.
    NotFound = 6,
    /// `NVML_ERROR_INSUFFICIENT_SIZE`.
    InsufficientSize = 7,
    /// `NVML_ERROR_DRIVER_NOT_LOADED`.
    DriverNotLoaded = 9,
    /// `NVML_ERROR_TIMEOUT`.
    Timeout = 10,
    /// `NVML_ERROR_GPU_IS_LOST`.
    GpuIsLost = 15,
    /// `NVML_ERROR_UNKNOWN`.
    Unknown = 999,
}

/// What a fallible function of NVML returns.
pub type NvmlResult<T = ()> = Result<T, Refusal>;

/// Runs the body of an NVML function.
fn call(name: &str, body: impl FnOnce() -> NvmlResult) -> i32 {
    crate::fail::await_nvml();
    match caught(name, || Ok(body())) {
        Ok(Ok(())) => 0,
        Ok(Err(refusal)) => refusal as i32,
        Err(_) => Refusal::Unknown as i32,
    }
}

/// Defines NVML functions.
macro_rules! nvml {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[doc = concat!("NVML's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// Pointers are as NVML's documentation of the function asks.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> i32 {
            $crate::nvml::call(stringify!($name), || $body)
        }
    )*};
}
use nvml;

/// Writes through an out pointer of the caller.
///
/// # Safety
/// `pointer` is null or can be written.
unsafe fn put<T>(pointer: *mut T, value: T) -> NvmlResult {
    if pointer.is_null() {
        return Err(Refusal::InvalidArgument);
    }
    // SAFETY: not null, so writable: contract of `put`.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Writes a string into a buffer of the caller.
///
/// # Safety
/// `to` is null or has room for `length` bytes.
unsafe fn put_text(to: *mut c_char, length: u32, text: &str) -> NvmlResult {
    if to.is_null() {
        return Err(Refusal::InvalidArgument);
    }
    if text.len() >= length as usize {
        return Err(Refusal::InsufficientSize);
    }
    // SAFETY: not null, and there is room for the text and its end.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// The shared state, once NVML is initialized.
fn shared() -> NvmlResult<&'static SharedState> {
    if !users::any() {
        return Err(Refusal::Uninitialized);
    }
    state::shared().map_err(|_| Refusal::DriverNotLoaded)
}

/// A device handle: the device's number, from 1.
fn handle(index: usize) -> usize {
    index + 1
}

/// The device of a handle, unless it has fallen off the bus.
fn index(handle: usize) -> NvmlResult<(&'static SharedState, usize)> {
    let state = shared()?;
    let index = handle
        .checked_sub(1)
        .filter(|&index| index < state.devices().len());
    let index = index.ok_or(Refusal::InvalidArgument)?;
    if crate::fail::lost(index) {
        return Err(Refusal::GpuIsLost);
    }
    Ok((state, index))
}
