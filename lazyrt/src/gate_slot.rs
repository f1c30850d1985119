//! A thread's mark at the gate (see `gate`).

use std::sync::atomic::AtomicBool;

/// What one thread publishes for the thread that closes the gate. A cache line of its own: only its
/// thread writes it on the launch path.
#[repr(align(64))]
pub struct Slot {
    /// The thread is in a native call.
    pub inside: AtomicBool,
    /// The thread has jumped into a native function, and lazyrt does not see it return.
    pub passing: AtomicBool,
    /// The slot belongs to a living thread.
    pub taken: AtomicBool,
}

impl Slot {
    /// A slot that belongs to a thread, which is outside.
    pub const fn taken() -> Slot {
        Slot {
            inside: AtomicBool::new(false),
            passing: AtomicBool::new(false),
            taken: AtomicBool::new(true),
        }
    }
}
