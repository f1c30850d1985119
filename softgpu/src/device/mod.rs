//! The devices as this process uses them: their contexts, and which one a host thread uses.

pub mod current;
mod fault;
pub mod gpu;
pub mod node;
pub mod properties;
pub mod resolve;

pub use gpu::Gpu;
pub use node::{VisibleDevices, is_forked, node};
