//! A stub for every function that `libcudart.so.13` exports and that softgpu does not have: it returns
//! `cudaErrorNotSupported` and names itself and the reason on stderr, once. Made by the build script
//! from the catalogue.

use crate::error::not_supported;

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
