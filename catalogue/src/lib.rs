//! The CUDA API table: every function of the runtime, what it means and how MGB treats it.
//!
//! Generated from the CUDA headers and the symbol table of libcudart (`data/api.json`, written by
//! `tools/generate.py`) and from the treatments that the project decided on (`data/treatments.toml`), which
//! the build script joins into one sorted table. The pass, lazyrt, softgpu and the support table of the docs
//! are driven from it.

pub mod driver;
mod kinds;
pub mod nvml;
pub mod report;
pub mod softgpu;
pub mod support;
mod table;
pub mod twelve;

pub use kinds::{Class, Role, Treatment};
pub use table::{Param, RuntimeFunction, all, cuda_version, lookup};
