//! Most texels and bytes of textures and surfaces: the same on every kind of device that there is here, which
//! is what CUDA's programming guide states for compute capability 6.0 and later.

use std::ffi::c_int;

/// Elements of a texture of linear memory.
pub const LINEAR: usize = 1 << 28;
/// Elements of a row, and rows, of a texture of pitched memory.
pub const PITCHED: [usize; 2] = [131_072, 65_000];
/// Bytes from row to row of such a texture.
pub const PITCH: usize = 2_097_120;
/// Where the memory of a texture begins: a multiple of this.
pub const ALIGNMENT: usize = 512;
/// Where the rows of pitched memory begin: multiples of this.
pub const PITCH_ALIGNMENT: usize = 32;

/// One of these figures, by its number in `cudaDeviceAttr`; `None` for attributes about other things.
pub fn attribute(number: c_int) -> Option<usize> {
    const PLANE: [usize; 2] = [131_072, 65_536];
    const BOX: usize = 16_384;
    const LAYER: usize = 32_768;
    const LAYERS: usize = 2_048;
    const CUBES: usize = 2_046;
    Some(match number {
        14 => ALIGNMENT,
        51 => PITCH_ALIGNMENT,
        // Lines, planes and boxes of textures and of surfaces.
        21 => PLANE[0],
        22 | 56 => PLANE[0],
        23 | 57 => PLANE[1],
        24..=26 | 58..=60 => BOX,
        47 | 48 => BOX / 2,
        49 => 2 * BOX,
        // Layers, and what can be gathered from.
        27 | 28 | 42 | 45 | 46 | 61 | 63 | 64 => LAYER,
        29 | 43 | 62 | 65 => LAYERS,
        55 => LAYER,
        // Cubes.
        52 | 53 | 66 | 67 => LAYER,
        54 | 68 => CUBES,
        69 => LINEAR,
        70 => PITCHED[0],
        71 => PITCHED[1],
        72 => PITCH,
        _ => return None,
    })
}
