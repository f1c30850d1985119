//! Addresses: what lies at one, and how device memory comes and goes.

mod allocate;
mod find;
pub mod graph_memory;
pub mod share;

pub use allocate::{allocate, allocate_from, free, take_back};
pub use find::{AddressKind, check_device, locate};
