//! The memory behind addresses that a front has handed out: how it is made and taken away, and how its bytes go
//! to the host and come back. Whom it belongs to, and how it is charged, is the front's.

mod failure;
pub mod granted;
mod growth;
#[cfg(test)]
mod made_up;
mod margin;
mod offload;
mod physical;
mod restore;
mod spares;

pub use failure::Failure;
pub use growth::Growth;
pub use margin::{arena, back_extent, lend_margin, release_extent};
pub use offload::{Offload, offload};
pub use physical::{Physical, Range, back, exchange, lend, release};
pub use restore::{Restore, restore};
pub use spares::{Spare, Spares};
