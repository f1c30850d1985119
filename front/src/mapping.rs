//! Physical memory behind addresses that the front has reserved.

use std::ffi::c_int;

use crate::calls::{Code, driver};
use crate::{notice, physical};

/// Puts physical memory behind addresses, which `guests` may use beside its device; its handle.
///
/// # Errors
/// The driver's.
pub fn back(start: u64, length: u64, device: c_int, guests: &[c_int]) -> Result<u64, Code> {
    let handle = physical::create(device, length)?;
    map(start, length, device, guests, handle)?;
    Ok(handle)
}

/// Maps it. Where that fails it is freed.
fn map(start: u64, length: u64, device: c_int, guests: &[c_int], handle: u64) -> Result<(), Code> {
    let mut code = driver().map(start, length, handle);
    if code == Code::SUCCESS {
        code = driver().allow(start, length, device);
        if code == Code::SUCCESS {
            for &guest in guests.iter().filter(|guest| **guest != device) {
                allow(start, length, guest);
            }
            return Ok(());
        }
        driver().unmap(start, length);
    }
    driver().release(handle);
    Err(code)
}

/// Lets another device use memory. Devices without a path to each other cannot, as natively.
pub fn allow(start: u64, length: u64, device: c_int) {
    let code = driver().allow(start, length, device);
    if code != Code::SUCCESS {
        notice::once(
            "peer",
            format_args!("device {device} cannot use memory of another device ({code})"),
        );
    }
}

/// Takes memory from behind addresses, and frees it.
pub fn take_away(start: u64, length: u64, handle: u64) {
    for code in [driver().unmap(start, length), driver().release(handle)] {
        if code != Code::SUCCESS {
            notice::once("release", format_args!("failed to free device memory ({code})"));
        }
    }
}
