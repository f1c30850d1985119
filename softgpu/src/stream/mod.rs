//! Streams: queues of work that runs in order, while the host goes on.
//!
//! Each stream has a thread of its own, started at the first work it cannot do in the caller. Work
//! that must wait for other streams carries fences: positions in those streams. Fences only name work
//! that was submitted before, so they never form a ring.
//!
//! Work is done when its modelled end has passed. The thread may run ahead of the clock by up to
//! `AHEAD`, so that many short kernels cost one sleep and not one each; it publishes what it has
//! done only when the clock has caught up.

pub mod capture;
pub mod event;
pub mod handle;
pub mod queue;
pub mod set;
pub mod shared;
mod submit;
mod worker;

pub use queue::{DeviceStream, Fence, GREATEST_PRIORITY, Turn};
