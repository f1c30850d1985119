//! A `libcublas.so.13` for software GPUs: the commonest functions of cuBLAS.
//!
//! It is to the software GPU what NVIDIA's is to the driver: a library of its own, which launches kernels by
//! the runtime's public functions ([`launch`]). So everything is in the order of streams, can be captured in
//! graphs, is seen by a driver front, and faults as kernels do. Kernels are written in Rust and follow the
//! contract of translated ones (`softgpu/include/softgpu_image.h`).
//!
//! All sums are made in double precision, in the order of their index, and rounded once to the type of the
//! result. [`launch::BlasKernel`] says what device time a kernel is taken to need. A function that is not here is
//! not exported.

#![allow(non_snake_case, reason = "exported functions have cuBLAS's names")]
#![cfg_attr(
    not(test),
    warn(
        clippy::print_stderr,
        clippy::print_stdout,
        reason = "both panic where nothing can be written"
    )
)]

pub mod export;
pub mod handle;
pub mod launch;
pub mod level1;
pub mod level2;
pub mod level3;
pub mod number;
pub mod runtime;
pub mod scalar;
pub mod status;
pub mod strided;
pub mod transfer;

/// The software GPU, which the exported functions of a test run on.
#[cfg(test)]
use softgpu as _;
