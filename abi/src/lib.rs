//! CUDA's binary interface as plain Rust types: the structures, constants and error codes of the runtime, the
//! driver and NVML that lazyrt passes on and the software GPU implements. Each is written once, here.
//!
//! A file per family; every type names the C type it stands for. Layouts and values are those of CUDA 13.0's
//! headers (`driver_types.h`, `vector_types.h`, `cuda.h`, `nvml.h`) and are checked at compile time by size.
//! Members keep CUDA's names in Rust's spelling, except where CUDA repeats a group of members for both sides
//! of a copy.
//!
//! Enumerations are integers with named constants, never Rust enums: a program may pass any value, and a Rust
//! enum with an unknown value is undefined behaviour. That is also why cudarc's types are
//! not used, which are enums.
//!
//! [`image`] and [`matrix`] are the software GPU's own interface, for whatever has kernels for it.

#![no_std]

pub mod array;
pub mod copy;
pub mod copy3d;
pub mod device;
pub mod error;
pub mod graph;
pub mod host;
pub mod image;
pub mod ipc;
pub mod launch;
pub mod location;
pub mod managed;
pub mod matrix;
pub mod nvml;
pub mod pointer;
pub mod pool;
pub mod properties;
pub mod stream;
pub mod texture;
pub mod vmm;
