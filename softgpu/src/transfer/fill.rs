//! A set of a box of device memory.

use super::faulted::faulted;
use crate::address::check_device;
use crate::device::Gpu;
use crate::error::Result;
use crate::exec::fault;
use crate::memory::region::{Side, Size};
use crate::time::booking;

/// A set of memory to one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The place that is written.
    pub to: Side,
    /// How much; the width is a multiple of the element.
    pub size: Size,
    /// What each element becomes.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: usize,
}

impl Fill {
    /// A set of bytes to a value.
    pub fn bytes(to: Side, size: Size, value: u8) -> Fill {
        Fill {
            to,
            size,
            value: u32::from(value),
            element: 1,
        }
    }

    /// Checks that it sets device memory that can be written.
    ///
    /// # Errors
    /// Those of [`check_device`].
    pub fn check(&self) -> Result {
        check_device(self.to.at, self.size.span(&self.to), true)
    }

    /// Sets the bytes.
    ///
    /// # Errors
    /// `ILLEGAL_ADDRESS` where there is no memory.
    pub fn perform(&self) -> Result {
        let Fill {
            to,
            size,
            value,
            element,
        } = *self;
        let bytes = value.to_le_bytes();
        let set = fault::guarded(|| {
            for (row, _) in size.rows(to, to) {
                // SAFETY: the range was checked; should it have been freed since, the fault is caught.
                unsafe {
                    if element == 1 {
                        std::ptr::write_bytes(row as *mut u8, bytes[0], size.width);
                    } else {
                        for at in (0..size.width).step_by(element) {
                            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (row + at) as *mut u8, element);
                        }
                    }
                }
            }
        });
        set?.map_err(faulted)
    }

    /// Sets the bytes on a device; returns the modelled end.
    ///
    /// # Errors
    /// Those of [`Fill::perform`].
    pub fn run(&self, gpu: &Gpu, ready: u64) -> Result<u64> {
        self.perform()?;
        Ok(booking::within(&gpu.device(), self.size.bytes(), ready))
    }
}
