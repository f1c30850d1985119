//! The treatments: one file per family of functions. `exports` is what programs call.

mod alloc;
mod company;
mod copy;
mod device;
mod errors;
mod exports;
mod free;
mod launch;
mod limits;
pub mod opaque;
mod pointers;
mod rows;
mod run;
mod set;
mod symbol;
mod sync;
