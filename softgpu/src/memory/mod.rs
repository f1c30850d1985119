//! Memory of devices and pinned memory of the host: what is allocated, without the calls that use it.

pub mod advice;
pub mod array;
mod chunk_file;
pub mod extents;
pub mod heap;
mod physical;
pub mod pinned;
pub mod pool;
pub mod region;
pub mod share;
pub mod vmm;
