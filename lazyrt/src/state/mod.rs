//! The process's objects, extents and tasks, behind one lock.
//!
//! Launches do not take it (they read `LaunchView`); allocations, frees, copies and binding do. No thread
//! waits for mgbd or for a GPU under it: a thread that must wait marks the task busy, releases the lock,
//! and checks again afterwards.

mod activations;
mod charges;
mod device_table;
mod devices;
mod extent;
mod non_arena;
mod objects;
mod store;
mod swap_transfer;
mod tasks;

pub use self::devices::{
    is_anchored, is_tied, lazy_shared, lazy_shared_of, let_go, lets_be_on, may_be_several, note_choice, tie,
};
pub use self::extent::{Backing, Freed, Key, Returned};
pub use self::store::{CHANGED, ProcessState, lock, lock_still, lock_task_still, try_lock};
pub use self::swap_transfer::{Evicting, TakenExtent};
pub use self::tasks::WithObjects;
pub use crate::launch_view::Device;
pub use crate::thread::current_device as current;
