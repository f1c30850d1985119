//! The table of the runtime's functions and the trampolines, as the build script wrote them.

/// One function that libcudart exports.
pub struct Function {
    /// Its symbol.
    pub name: &'static str,
    /// Whether it is passed on as it is.
    pub native: bool,
    /// Whether it may look at memory objects, during the call or later.
    pub touches: bool,
}

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
