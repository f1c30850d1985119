//! How often NVML was initialized and not shut down again.

use std::sync::atomic::{AtomicU32, Ordering};

static USERS: AtomicU32 = AtomicU32::new(0);

/// Whether NVML is initialized and not shut down.
pub fn any() -> bool {
    USERS.load(Ordering::Relaxed) > 0
}

/// NVML is initialized once more.
pub fn add() {
    USERS.fetch_add(1, Ordering::Relaxed);
}

/// NVML is shut down once. False: it was not initialized.
pub fn remove() -> bool {
    let left = |users: u32| users.checked_sub(1);
    USERS
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
        .is_ok()
}
