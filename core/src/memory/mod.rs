//! The memory behind addresses that a front has handed out: how it is made and taken away, and how its bytes go
//! to the host and come back. Whom it belongs to, and how it is charged, is the front's.

mod failure;
pub mod granted;
mod growth;
mod offload;
mod physical;
mod restore;

pub use failure::Failure;
pub use growth::Growth;
pub use offload::{Offload, offload};
pub use physical::{Physical, Range, back, exchange, lend, release};
pub use restore::{Restore, restore};
