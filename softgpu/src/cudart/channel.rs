//! Channel formats, which describe the elements of arrays and textures.

use std::ffi::c_int;

use mgb_abi::array::ChannelFormatDesc;

/// Implements CUDA's `cudaCreateChannelDesc`.
#[unsafe(no_mangle)]
pub extern "C" fn cudaCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    f: c_int,
) -> ChannelFormatDesc {
    ChannelFormatDesc { x, y, z, w, f }
}
