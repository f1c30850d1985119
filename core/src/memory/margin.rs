//! The margin: a granule of memory before the arena's first address, in no object, while there is memory behind
//! any extent.
//!
//! Natively the driver's own memory lies around a program's, and kernels that read a row before their first
//! array do so unharmed. What a process's context is charged includes it ([`mgb_probe::need::margin_bytes`]).

use std::ffi::c_int;

use mgb_abi::error::Code;
use mgb_probe::need::GRANULE;
use parking_lot::Mutex;

use super::failure::Failure;
use super::physical::{self, Physical, Range, lend};
use crate::arena::Arena;
use crate::driver::Driver;

struct Margin {
    /// Where it begins; none before there is an arena, and for a program with guards.
    start: Option<u64>,
    memory: Option<Physical>,
    /// A bit for each device that may use it.
    devices: u64,
    /// Extents with memory.
    extents: usize,
}

static MARGIN: Mutex<Margin> = Mutex::new(Margin::none());

impl Margin {
    const fn none() -> Margin {
        Margin {
            start: None,
            memory: None,
            devices: 0,
            extents: 0,
        }
    }

    /// Lets a device use the margin, which is made of its memory where there is none and `create` is given.
    fn serve(&mut self, driver: &Driver, device: c_int, create: Option<&dyn Fn(u64) -> Result<u64, Code>>) {
        let bit = 1u64.checked_shl(device as u32).unwrap_or(0);
        let Some(start) = self.start.filter(|_| self.devices & bit == 0) else {
            return;
        };
        let range = Range::new(start, GRANULE);
        if self.memory.is_some() {
            // Devices without a path to each other cannot.
            let _ = lend(driver, range, device);
            self.devices |= bit;
        } else if let Some(create) = create {
            // A device that is full has none; the next extent tries again.
            self.memory = physical::back(driver, range, device, || create(GRANULE)).ok();
            self.devices |= if self.memory.is_some() { bit } else { 0 };
        }
    }

    /// An extent has no memory any more. The margin goes with the last one's.
    fn note_released(&mut self, driver: &Driver) {
        self.extents = self.extents.saturating_sub(1);
        if self.extents == 0 {
            self.devices = 0;
            if let (Some(start), Some(memory)) = (self.start, self.memory.take()) {
                // A context that is broken says so to whoever asks for something.
                let _ = physical::release(driver, Range::new(start, GRANULE), memory);
            }
        }
    }
}

/// The arena in reserved addresses, behind its margin. With guards there is none: they catch what it lets pass.
pub fn arena(base: u64, bytes: u64, is_guarded: bool) -> Arena {
    // Granules start at multiples of the granule; the rest of the reservation is only addresses.
    let start = base.next_multiple_of(GRANULE);
    let (first, bytes) = (start + GRANULE, bytes - 2 * GRANULE);
    if is_guarded {
        return Arena::guarded(first, bytes);
    }
    MARGIN.lock().start = Some(start);
    Arena::new(first, bytes)
}

/// As [`super::back`], for an extent of the arena. `has_margin`: whether the margin may be made of the device's
/// memory; `create` makes memory of so many bytes.
///
/// # Errors
/// The driver's, for the extent: without a margin a program runs as well.
pub fn back_extent(
    driver: &Driver,
    range: Range,
    device: c_int,
    has_margin: bool,
    create: &dyn Fn(u64) -> Result<u64, Code>,
) -> Result<Physical, Failure> {
    let memory = physical::back(driver, range, device, || create(range.bytes))?;
    let mut margin = MARGIN.lock();
    margin.extents += 1;
    margin.serve(driver, device, has_margin.then_some(create));
    Ok(memory)
}

/// Lets a device use the margin, if there is one: it may use extents now.
pub fn lend_margin(driver: &Driver, device: c_int) {
    MARGIN.lock().serve(driver, device, None);
}

/// As [`super::release`], for an extent that [`back_extent`] put memory behind.
///
/// # Errors
/// The driver's first.
pub fn release_extent(driver: &Driver, range: Range, memory: Physical) -> Result<(), Failure> {
    let released = physical::release(driver, range, memory);
    MARGIN.lock().note_released(driver);
    released
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::made_up;

    const START: u64 = 1 << 40;

    fn of(device: c_int) -> impl Fn(u64) -> Result<u64, Code> {
        move |bytes| made_up::driver().create(device, bytes, 0, false)
    }

    /// The granule is there for all devices that have extents, from the first extent to the last, and not for a
    /// program with guards.
    #[test]
    fn it_is_there_while_any_extent_has_memory() {
        let driver = made_up::driver();
        let mut margin = Margin::none();
        margin.serve(driver, 0, Some(&of(0)));
        assert_eq!(made_up::users(START), None, "it has no place");
        margin.start = Some(START);
        margin.extents = 2;
        margin.serve(driver, 0, None);
        assert_eq!(made_up::users(START), None, "a device without a margin");
        margin.serve(driver, 1, Some(&of(1)));
        assert_eq!(made_up::users(START), Some(vec![1]));
        margin.serve(driver, 0, None);
        margin.serve(driver, 1, Some(&of(1)));
        assert_eq!(made_up::users(START), Some(vec![1, 0]));
        margin.note_released(driver);
        assert!(made_up::users(START).is_some());
        margin.note_released(driver);
        assert_eq!(made_up::users(START), None);
        margin.serve(driver, 0, Some(&of(0)));
        assert_eq!(
            made_up::users(START),
            Some(vec![0]),
            "it comes with the next extent"
        );
        margin.note_released(driver);
    }

    #[test]
    fn a_full_device_is_tried_again() {
        let driver = made_up::driver();
        let mut margin = Margin {
            start: Some(START + GRANULE),
            extents: 1,
            ..Margin::none()
        };
        margin.serve(driver, 0, Some(&|_| Err(Code::MEMORY_ALLOCATION)));
        assert_eq!(made_up::users(START + GRANULE), None);
        margin.serve(driver, 0, Some(&of(0)));
        assert_eq!(made_up::users(START + GRANULE), Some(vec![0]));
        margin.note_released(driver);
    }
}
