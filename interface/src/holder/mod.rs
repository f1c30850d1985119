//! Speaking to the holder, the process that keeps what must outlive an `mgbd`: what is said, how, and where it
//! listens.

mod connect;
pub mod packet;
mod report;
pub mod wire;

pub use connect::{SOCKET, find};
pub use report::{HolderReport, report};
