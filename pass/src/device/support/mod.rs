//! What stands on the host for each thing that device code takes from the GPU: NVVM's intrinsics,
//! CUDA's device system calls, libdevice, and PTX in inline assembly.
//!
//! Each is a function of LLVM IR text: the families here are regular, so that a body is its name
//! taken apart, and text is both the shortest way to write IR and the one that LLVM checks itself.
//! Only what a module uses is written out and parsed (see [`super::runtime_stubs`]).
mod atomics;
mod body;
mod float;
mod functions;
mod integer;
mod libdevice;
mod matrix;
mod ptx;
mod quarters;
mod registers;
pub(super) mod services;
mod synchronise;

pub use body::{ForeignFunction, HostBody, definition};
pub use functions::function;
pub use ptx::{Operand, Statement, number, statements};

/// The texts every translated module gets.
pub const PRELUDE: [&str; 4] = [
    include_str!("prelude.ll"),
    include_str!("halves.ll"),
    include_str!("quarters.ll"),
    include_str!("barriers.ll"),
];

/// Whether a libdevice function is replaced as a whole, rather than translated from its body.
pub fn replaces_libdevice(name: &str) -> bool {
    libdevice::is_known(name)
}

/// Whether a symbol is a function of the C library that translated code may call.
pub fn is_host_function(name: &str) -> bool {
    libdevice::is_library(name)
}

/// The body for inline assembly with LLVM's constraints; an error is the statement that is not known.
pub fn assembly(foreign: &ForeignFunction, constraints: &str) -> Result<HostBody, String> {
    ptx::body(foreign, constraints)
}

#[cfg(test)]
mod tests;
