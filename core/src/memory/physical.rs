//! Physical memory of a device behind reserved addresses.

use std::ffi::c_int;

use mgb_abi::error::Code;

use super::failure::{Failure, check};
use crate::driver::Driver;

/// Addresses that are mapped as one: the first, and how many bytes, in whole granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first address.
    pub start: u64,
    /// Bytes from there on.
    pub bytes: u64,
}

impl Range {
    /// So many bytes from an address on.
    pub fn new(start: u64, bytes: u64) -> Range {
        Range { start, bytes }
    }
}

/// Physical memory behind a range of addresses. Only [`release`] and [`exchange`] free it.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Physical {
    handle: u64,
}

impl Physical {
    /// The driver's handle of it, which it keeps.
    pub fn handle(&self) -> u64 {
        self.handle
    }
}

/// Puts new memory behind a range of reserved addresses where there is none, and lets the device use it;
/// `create` makes the memory, and answers its handle.
///
/// # Errors
/// The driver's. Nothing is behind the range then, and the memory is freed.
pub fn back(
    driver: &Driver,
    range: Range,
    device: c_int,
    create: impl FnOnce() -> Result<u64, Code>,
) -> Result<Physical, Failure> {
    let handle = create().map_err(|code| Failure {
        function: "cuMemCreate",
        code,
    })?;
    let memory = Physical { handle };
    match place(driver, range, &memory, device) {
        Ok(()) => Ok(memory),
        Err(failure) => {
            driver.release(handle);
            Err(failure)
        }
    }
}

/// Lets a device use a range that is backed as one.
///
/// # Errors
/// The driver's, as for devices without a path to each other.
pub fn lend(driver: &Driver, range: Range, device: c_int) -> Result<(), Failure> {
    check("cuMemSetAccess", driver.allow(range.start, range.bytes, device))
}

/// Puts memory behind addresses where there is none, and lets the device use it.
fn place(driver: &Driver, range: Range, memory: &Physical, device: c_int) -> Result<(), Failure> {
    check("cuMemMap", driver.map(range.start, range.bytes, memory.handle))?;
    let lent = lend(driver, range, device);
    if lent.is_err() {
        driver.unmap(range.start, range.bytes);
    }
    lent
}

/// Takes the memory from behind the range, which nobody uses, and frees it.
///
/// # Errors
/// The driver's first.
pub fn release(driver: &Driver, range: Range, memory: Physical) -> Result<(), Failure> {
    let unmapped = check("cuMemUnmap", driver.unmap(range.start, range.bytes));
    let released = check("cuMemRelease", driver.release(memory.handle));
    unmapped.and(released)
}

/// Puts memory that is behind the addresses from `there` on, `after`, behind the range in the place of
/// `before`, which is freed; the devices are those of the old memory and of the new, which may use it. Nobody
/// uses either range. What is behind the range then; after an error that is what was there before, and `after`
/// is freed.
///
/// # Errors
/// The driver's, with the memory that is behind the range.
pub fn exchange(
    driver: &Driver,
    range: Range,
    there: u64,
    before: Physical,
    after: Physical,
    (old, new): (c_int, c_int),
) -> Result<Physical, (Failure, Physical)> {
    let scratch = Range::new(there, range.bytes);
    if let Err(failure) = check("cuMemUnmap", driver.unmap(range.start, range.bytes)) {
        let _ = release(driver, scratch, after);
        return Err((failure, before));
    }
    let placed = place(driver, range, &after, new);
    // If the memory stays behind those addresses as well, they are lost, and nothing else.
    driver.unmap(scratch.start, scratch.bytes);
    match placed {
        Ok(()) => {
            driver.release(before.handle);
            Ok(after)
        }
        Err(failure) => {
            driver.release(after.handle);
            let _ = place(driver, range, &before, old);
            Err((failure, before))
        }
    }
}
