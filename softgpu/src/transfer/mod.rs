//! Copies and sets of device memory: checked when they are called, done in a stream's turn.

pub mod checked;
pub mod copy;
mod faulted;
pub mod fill;

pub use checked::Transfer;
pub use copy::{CopyDirection, MemoryCopy};
pub use fill::Fill;
