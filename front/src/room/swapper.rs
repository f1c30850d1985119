//! Who brings memory elsewhere: the modules above this one.

use std::sync::OnceLock;
use std::time::Duration;

use mgb_core::swaps::Watch;

/// Who makes room on a device by bringing memory elsewhere. All are called outside the gate and without a
/// lock that a thread inside it may need.
pub trait Swapper: Sync {
    /// Frees memory that the program does not have any more and that was kept; its bytes.
    fn release_spares(&self, device: i32) -> u64;

    /// Keeps all threads of the program from its devices. `None`: that cannot be done now; they may take so
    /// long to come to rest.
    fn close(&self, patience: Duration) -> Option<Box<dyn Shut>>;

    /// Brings the device's memory to the host, between [`Swapper::close`] and the end of what that returned.
    fn save(&self, device: i32, watch: Watch) -> Box<dyn Saved>;
}

/// No thread of the program goes on with its devices as long as it lives.
pub trait Shut {
    /// Waits until a thread of the program wants to go on, a second at most. False: none does.
    fn is_wanted(&self) -> bool;
}

/// Memory in the host.
pub trait Saved: Send {
    /// Bytes that the device has free now.
    fn freed(&self) -> u64;

    /// Brings it back. There is room for it, which `poll_thread` has seen the wait for.
    fn back(self: Box<Self>, watch: Watch);
}

pub(super) static SWAPPER: OnceLock<&'static dyn Swapper> = OnceLock::new();

/// Who gives up memory that is kept for the program and that nothing uses. Called outside the gate and
/// without a lock.
pub struct Reclaimer {
    /// Whether there may be any on the device.
    pub has_idle: fn(i32) -> bool,
    /// Gives it up.
    pub reclaim: fn(i32),
}

pub(super) static RECLAIMER: OnceLock<Reclaimer> = OnceLock::new();

/// Sets who gives up unused memory. Called once, before the first task begins.
pub fn set_reclaimer(reclaimer: Reclaimer) {
    let _ = RECLAIMER.set(reclaimer);
}

/// Sets who makes room. Called once, before the first task begins.
pub fn set_swapper(swapper: &'static dyn Swapper) {
    let _ = SWAPPER.set(swapper);
}
