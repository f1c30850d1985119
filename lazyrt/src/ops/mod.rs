//! The treatments: one file per family of functions. `exports` is what programs call.

mod alloc;
mod attempts;
mod batch;
mod boxes;
mod capture;
mod colocation;
mod configuration;
mod copy;
mod device;
mod driver_memory;
mod errors;
mod event;
mod exports;
mod free;
mod function;
mod graphs;
mod host;
mod information;
mod kernel_call;
mod launch;
mod limits;
mod locations;
mod never_fits;
mod node;
mod non_arena;
mod ordinals;
mod pacing;
pub mod parts;
pub mod passthrough;
mod peers;
mod pointers;
mod pools;
mod ranges;
mod rows;
mod run;
mod set;
mod sources;
mod span;
mod stream;
mod symbol;
mod sync;
mod two;
mod variables;

use crate::code::Code;

/// A context was made, and is current on this thread: applies what the program asked for before.
///
/// # Errors
/// Host memory cannot be pinned.
pub fn context_made() -> Result<(), Code> {
    function::context_made();
    host::context_made()
}
