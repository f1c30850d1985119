//! The memory behind addresses that a front has handed out: how it is made and taken away.

mod failure;
mod physical;

pub use failure::Failure;
pub use physical::{Physical, Range, back, exchange, lend, release};
