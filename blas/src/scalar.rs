//! Scalars and results, which are in host or in device memory as the handle's pointer mode says.

use crate::handle::BlasHandle;
use crate::launch::finish;
use crate::number::{Number, Wide};
use crate::status::{Result, Status};

/// A scalar that a kernel takes: its value, or where the kernel finds it.
#[derive(Clone, Copy)]
pub struct Scalar<T: Number> {
    host: T::Wide,
    device: *const T,
}

// SAFETY: only a kernel reads through the pointer.
unsafe impl<T: Number> Send for Scalar<T> {}

impl<T: Number> Scalar<T> {
    /// Takes an argument of the program.
    ///
    /// # Errors
    /// `InvalidValue` if it is null.
    ///
    /// # Safety
    /// It is null, or where the handle's pointer mode says that scalars are.
    pub unsafe fn new(handle: &BlasHandle, at: *const T) -> Result<Self> {
        if at.is_null() {
            return Err(Status::InvalidValue);
        }
        if handle.scalars_on_device() {
            return Ok(Scalar {
                host: T::Wide::ZERO,
                device: at,
            });
        }
        // SAFETY: a scalar of the host: contract of `new`.
        Ok(Scalar::of(unsafe { at.read_unaligned() }.wide()))
    }

    /// A scalar with this value, in the host.
    pub fn of(value: T::Wide) -> Self {
        Scalar {
            host: value,
            device: std::ptr::null(),
        }
    }

    /// Its value.
    ///
    /// # Safety
    /// Called by a kernel. Where the scalar is in device memory, it is there: contract of cuBLAS.
    pub unsafe fn get(&self) -> T::Wide {
        if self.device.is_null() {
            return self.host;
        }
        // SAFETY: contract of `get`.
        unsafe { self.device.read_unaligned() }.wide()
    }
}

/// Has `launch` start a kernel that writes a result. For a result of the host this waits until it is there.
///
/// # Errors
/// `InvalidValue` if there is no place for it; those of the launch, and of waiting.
///
/// # Safety
/// `at` is null, or valid for writes where the handle's pointer mode says that results are.
pub unsafe fn result<R: Copy + Default>(
    handle: &BlasHandle,
    at: *mut R,
    launch: impl FnOnce(*mut R) -> Result,
) -> Result {
    if at.is_null() {
        return Err(Status::InvalidValue);
    }
    if handle.scalars_on_device() {
        return launch(at);
    }
    // A stream that captures would keep the kernel for later: waiting is refused there, as on a GPU.
    finish(handle)?;
    // Kernels see the host's memory, as they see what is pinned. What fails on the way leaves the program's
    // alone.
    let mut found = R::default();
    launch(&raw mut found)?;
    finish(handle)?;
    // SAFETY: a result of the host: contract of `result`.
    unsafe { at.write_unaligned((&raw const found).read_volatile()) };
    Ok(())
}
