//! Kernels on devices: what a launch asks for, and the module variables that it finds there.

pub mod launch;
pub mod variables;
