//! The body for a function that device code declares, from the family that knows its name.
use super::body::{ForeignFunction, HostBody};
use super::{atomics, float, integer, libdevice, matrix, quarters, registers, services, synchronise};

/// The body for a function that device code declares.
pub fn function(foreign: &ForeignFunction) -> Option<HostBody> {
    if foreign.name.starts_with("__nv_") {
        return libdevice::body(foreign);
    }
    let Some(name) = foreign.name.strip_prefix("llvm.nvvm.") else {
        return services::body(foreign);
    };
    registers::body(name, foreign)
        .or_else(|| synchronise::body(name, foreign))
        .or_else(|| atomics::body(name, foreign))
        .or_else(|| matrix::body(name, foreign))
        .or_else(|| quarters::body(name, foreign))
        .or_else(|| float::body(name, foreign))
        .or_else(|| integer::body(name, foreign))
        .or_else(|| services::intrinsic(name, foreign))
}
