//! The arena's addresses, while there is no driver yet that could reserve them.
//!
//! Programs allocate first, and then may wait for long: for their input, or for room on a GPU. The driver
//! initialises one process after another on the whole node, so that many which start together and do so early
//! keep those from making their context that have been granted a GPU. So a mapping without access holds the
//! addresses until this process has to do with a GPU; then the driver reserves the same ones.

use parking_lot::Mutex;

use crate::driver::{Address, Driver};

/// Who has them.
enum Holder {
    Nobody,
    /// The mapping of so many bytes.
    Mapping(Address, u64),
    Driver,
}

static HOLDER: Mutex<Holder> = Mutex::new(Holder::Nobody);

/// Holds the first of these ranges, each its start and length, in which nothing lies; those that start at 0
/// have no place yet. `None`: the driver is there already, or there is no such range.
pub fn hold(places: &[(Address, u64)]) -> Option<(Address, u64)> {
    let mut holder = HOLDER.lock();
    if matches!(*holder, Holder::Driver) {
        return None;
    }
    let mut chosen = places.iter().copied().filter(|&(base, _)| base != 0);
    let (base, bytes) = chosen.find(|&(base, bytes)| map(base, bytes))?;
    *holder = Holder::Mapping(base, bytes);
    Some((base, bytes))
}

/// Initialises the driver, and has it reserve what was held.
///
/// # Errors
/// Those of `initialise`; and if the driver does not give the addresses, which the program has been told.
pub fn hand_over(initialise: impl FnOnce() -> Result<Driver, String>) -> Result<Driver, String> {
    let mut holder = HOLDER.lock();
    let held = match *holder {
        Holder::Mapping(base, bytes) => Some((base, bytes)),
        Holder::Nobody | Holder::Driver => None,
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
            // A failure shows itself by the driver's words, and the driver is not to be had yet.
            Err(failure) => return Err(format!("{LOST}: {:?}", failure.result)),
        }
    }
    *holder = Holder::Driver;
    Ok(driver)
}

const LOST: &str = "failed to have the CUDA driver reserve the addresses that this program's memory has";

fn map(base: Address, bytes: u64) -> bool {
    let wanted = base as *mut libc::c_void;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping; where something lies already it fails.
    let mapped = unsafe { libc::mmap(wanted, bytes as usize, libc::PROT_NONE, flags, -1, 0) };
    if mapped != libc::MAP_FAILED && mapped != wanted {
        // A kernel that does not know the flag takes the address for a wish.
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
