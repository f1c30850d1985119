//! What translated device code and this library agree on: see `include/softgpu_image.h`.

pub use mgb_abi::image::*;
