//! Physical memory behind addresses that the front has reserved.

use std::ffi::c_int;

use mgb_core::memory::{self, Physical, Range};
use mgb_core::notice;

use crate::calls::{Code, driver};
use crate::{physical, room};

/// Puts physical memory behind an extent, which `guests` may use beside its device.
///
/// # Errors
/// The driver's.
pub fn back(range: Range, device: c_int, guests: &[c_int]) -> Result<Physical, Code> {
    let create = |bytes| physical::create(device, bytes);
    let memory = memory::back_extent(driver(), range, device, room::has_margin(device), &create)
        .map_err(|failure| failure.code)?;
    for &guest in guests.iter().filter(|guest| **guest != device) {
        lend(range, guest);
    }
    Ok(memory)
}

/// Lets another device use an extent. Devices without a path to each other cannot, as natively.
pub fn lend(range: Range, device: c_int) {
    if let Err(failure) = memory::lend(driver(), range, device) {
        notice::once(
            "peer",
            format_args!(
                "device {device} cannot use memory of another device ({})",
                failure.code
            ),
        );
    }
    memory::lend_margin(driver(), device);
}

/// Takes memory from behind an extent, and frees it.
pub fn release(range: Range, memory: Physical) {
    if let Err(failure) = memory::release_extent(driver(), range, memory) {
        notice::once(
            "release",
            format_args!("failed to free device memory ({})", failure.code),
        );
    }
}
