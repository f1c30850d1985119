//! The treatments: one file per family of functions. `exports` is what programs call.

mod alloc;
pub mod boxes;
mod company;
mod copy;
mod device;
mod errors;
mod exports;
mod free;
mod launch;
mod limits;
pub mod opaque;
mod outside;
mod peers;
mod places;
mod pointers;
pub mod pools;
mod rows;
mod run;
mod set;
mod symbol;
mod sync;
mod variables;
