//! The functions of the CUDA driver that MGB calls for itself, each under the name that the driver's library
//! exports, and with the types of its header.
//!
//! How a front finds them is its own: lazyrt asks the library that the program's runtime uses, the driver
//! front NVIDIA's library behind its own one. A driver that lacks an optional function answers
//! [`NOT_FOUND`](mgb_abi::error::Code::NOT_FOUND) where it is called.

mod contexts;
mod copies;
mod devices;
mod graphs;
mod pools;
mod streams;
mod table;
mod virtual_memory;

pub use contexts::{Entered, Relaxed};
pub use graphs::GraphNode;
pub use table::{Context, Driver, Event, Stream};
pub use virtual_memory::POSIX_FILE;
