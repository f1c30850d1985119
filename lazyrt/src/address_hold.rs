//! The arena's addresses, while there is no driver yet that could reserve them.
//!
//! Programs allocate first, and then may wait for long: for their input, or for room on a GPU. The driver
//! initialises one process of a node after another. Many processes that initialise it early therefore
//! delay the context of a process that already has a grant. So a mapping without access holds the
//! addresses until the process first needs a GPU; then the driver reserves the same addresses.

use mgb_core::driver::Driver;
use parking_lot::Mutex;

/// What holds the addresses of the arena.
enum AddressHolder {
    Nothing,
    /// The mapping at this address, of this many bytes.
    Mapping(u64, u64),
    Driver,
}

static HOLDER: Mutex<AddressHolder> = Mutex::new(AddressHolder::Nothing);

/// Holds the first of these ranges (start and length) that is free; ranges that start at 0 have no fixed
/// address yet and are skipped. `None`: the driver is loaded already, or no range is free.
pub fn hold(ranges: &[(u64, u64)]) -> Option<(u64, u64)> {
    let mut holder = HOLDER.lock();
    if matches!(*holder, AddressHolder::Driver) {
        return None;
    }
    let mut chosen = ranges.iter().copied().filter(|&(base, _)| base != 0);
    let (base, bytes) = chosen.find(|&(base, bytes)| map(base, bytes))?;
    *holder = AddressHolder::Mapping(base, bytes);
    Some((base, bytes))
}

/// Initialises the driver, and has it reserve what was held.
///
/// # Errors
/// The errors of `initialise`, and an error if the driver does not reserve the addresses, since the
/// program already has pointers into them.
pub fn hand_over(initialise: impl FnOnce() -> Result<Driver, String>) -> Result<Driver, String> {
    let mut holder = HOLDER.lock();
    let held = match *holder {
        AddressHolder::Mapping(base, bytes) => Some((base, bytes)),
        AddressHolder::Nothing | AddressHolder::Driver => None,
    };
    // As the driver finds it where programs do not allocate before.
    if let Some((base, bytes)) = held {
        // SAFETY: the range was mapped by `map`, and nothing of it has been accessible since.
        unsafe { libc::munmap(base as *mut libc::c_void, bytes as usize) };
    }
    let driver = initialise()?;
    if let Some((base, bytes)) = held {
        match driver.reserve(bytes, base) {
            Ok(given) if given == base => {}
            Ok(given) => return Err(format!("{LOST}: it gives those from {given:#x} instead")),
            Err(code) => return Err(format!("{LOST}: {code}")),
        }
    }
    *holder = AddressHolder::Driver;
    Ok(driver)
}

const LOST: &str = "failed to have the CUDA driver reserve the addresses that this program's memory has";

fn map(base: u64, bytes: u64) -> bool {
    let wanted = base as *mut libc::c_void;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping; where something lies already it fails.
    let mapped = unsafe { libc::mmap(wanted, bytes as usize, libc::PROT_NONE, flags, -1, 0) };
    if mapped != libc::MAP_FAILED && mapped != wanted {
        // An older kernel ignores the flag and takes the address as a hint only.
        // SAFETY: mapped just now.
        unsafe { libc::munmap(mapped, bytes as usize) };
        return false;
    }
    mapped == wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_there_is_left_alone() {
        let (base, bytes) = (3 << 44, 1 << 40);
        assert!(map(base, bytes));
        assert!(!map(base + (1 << 30), 1 << 20) && !map(base, bytes));
        // SAFETY: mapped above.
        unsafe { libc::munmap(base as *mut libc::c_void, bytes as usize) };
    }
}
