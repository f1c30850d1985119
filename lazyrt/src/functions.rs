//! The table of the runtime's functions and the trampolines, as the build script wrote them.

use crate::handles::Kind;

/// One function that libcudart exports.
pub struct Function {
    /// Its symbol.
    pub name: &'static str,
    /// Whether it is passed on as it is.
    pub native: bool,
    /// Whether it may look at memory objects, during the call or later.
    pub touches: bool,
    /// Whether it makes or uses what belongs to one GPU.
    pub anchors: bool,
    /// Its arguments that are streams or events.
    pub handles: &'static [(Place, Kind)],
}

/// Where a call has an argument, by the x86-64 calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the integer register of this number.
    Register(usize),
    /// On the stack, this many words up.
    Stack(usize),
}

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
