//! The table of the runtime's functions and the trampolines, as the build script wrote them.

/// One function that libcudart exports.
pub struct Function {
    /// The symbol that libcudart exports it as.
    pub name: &'static str,
    /// Whether it is passed on as it is.
    pub native: bool,
    /// Whether the runtime initialises the driver for it.
    pub initialises: bool,
    /// Whether it may look at memory objects, during the call or later.
    pub touches: bool,
    /// Whether it makes or uses what belongs to one GPU.
    pub anchors: bool,
    /// Whether it describes a copy that a graph is to make, which may be between GPUs.
    pub copies: bool,
    /// Its arguments that mean something else to the runtime than to the program.
    pub translated: &'static [(ArgumentPlace, Translated)],
}

/// What such an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translated {
    /// A `cudaStream_t` of the program.
    Stream,
    /// A `cudaEvent_t` of the program.
    Event,
    /// A device, by its number.
    Device,
}

/// Where a call has an argument, by the x86-64 calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentPlace {
    /// In the integer register of this number.
    Register(usize),
    /// On the stack, this many words up.
    Stack(usize),
}

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
