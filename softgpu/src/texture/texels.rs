//! The elements of an array or of linear memory, by their place.

use std::ptr::read_unaligned;

use mgb_abi::array::ChannelFormatDesc;

/// What the bits of a channel are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// A number with a sign.
    Signed,
    /// A number without.
    Unsigned,
    /// IEEE's formats of 16 and 32 bits.
    Float,
}

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// What a channel is.
    pub kind: ChannelKind,
    /// Bits of a channel: 8, 16 or 32.
    pub bits: usize,
    /// Channels: 1, 2 or 4.
    pub channels: usize,
}

impl Format {
    /// The format of a description that an array or a linear resource may have.
    pub fn of(description: &ChannelFormatDesc) -> Format {
        let bits = description.bits();
        Format {
            kind: match description.f {
                0 => ChannelKind::Signed,
                1 => ChannelKind::Unsigned,
                _ => ChannelKind::Float,
            },
            bits: bits[0] as usize,
            channels: bits.iter().filter(|&&bits| bits != 0).count(),
        }
    }

    /// Bytes of an element.
    pub fn bytes(&self) -> usize {
        self.bits / 8 * self.channels
    }
}

/// Elements in rows, planes and layers.
#[derive(Clone, Copy, Debug)]
pub struct Texels {
    /// The address of the first.
    pub base: usize,
    /// What each is.
    pub format: Format,
    /// Elements of a row, rows of a plane, planes or layers: at least one of each.
    pub size: [usize; 3],
    /// Bytes from row to row.
    pub pitch: usize,
    /// Bytes from plane to plane, or from layer to layer.
    pub slice: usize,
    /// Whether the third dimension counts layers.
    pub layered: bool,
    /// Whether each six layers are the faces of a cube.
    pub cube: bool,
}

impl Texels {
    /// Whether an instruction for `dimensions` dimensions can read them: those that it does not name have
    /// one element.
    pub fn fits(&self, geometry: super::Geometry) -> bool {
        if geometry.cube || self.cube {
            let several = self.size[2] > 6;
            return geometry.cube && self.cube && (geometry.layered || !several);
        }
        let dimensions = if self.layered { 2 } else { 3 };
        let beyond = &self.size[geometry.dimensions.min(dimensions)..dimensions];
        geometry.layered == self.layered && beyond.iter().all(|&size| size == 1)
    }

    /// The shape of the texels in words.
    pub fn shape(&self) -> String {
        let [width, height, depth] = self.size;
        match (self.cube, self.layered) {
            (true, _) => format!("cubemaps of {width} texels, {depth} faces"),
            (_, true) => format!("{depth} layers of {width} x {height} texels"),
            _ => format!("{width} x {height} x {depth} texels"),
        }
    }

    /// The address of the element at a place.
    pub fn address(&self, [x, y, z]: [usize; 3]) -> usize {
        self.base + z * self.slice + y * self.pitch + x * self.format.bytes()
    }

    /// The channels of the element at a place: numbers extended to 32 bits, or the bits of floats. Those that
    /// the format does not have are zero, the fourth one.
    ///
    /// # Safety
    /// The place is one of the texels', and their memory can be read. Where it cannot, the fault is the
    /// running kernel's.
    pub unsafe fn channels(&self, place: [usize; 3], one: u32) -> [u32; 4] {
        let (address, Format { kind, bits, channels }) = (self.address(place), self.format);
        let mut found = [0, 0, 0, one];
        for (at, to) in found.iter_mut().enumerate().take(channels) {
            let from = address + at * bits / 8;
            // SAFETY: `from` lies in the element: contract of `channels`. Device memory has no alignment
            // that an address given by a program could be held to.
            unsafe {
                *to = match (kind, bits) {
                    (ChannelKind::Unsigned, 8) => read_unaligned(from as *const u8).into(),
                    (ChannelKind::Unsigned, 16) => read_unaligned(from as *const u16).into(),
                    (ChannelKind::Signed, 8) => i32::from(read_unaligned(from as *const i8)) as u32,
                    (ChannelKind::Signed, 16) => i32::from(read_unaligned(from as *const i16)) as u32,
                    (ChannelKind::Float, 16) => widened(read_unaligned(from as *const u16)).to_bits(),
                    _ => read_unaligned(from as *const u32),
                };
            }
        }
        found
    }
}

/// The value of a number of 16 bits, which a float has exactly.
fn widened(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(half >> 10 & 0x1f), u32::from(half & 0x3ff));
    let size = match exponent {
        // Without the leading bit, in steps of 2^-24.
        0 => (fraction as f32 / 16_777_216.0).to_bits(),
        0x1f => 0x7f80_0000 | fraction << 13,
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | size)
}

#[cfg(test)]
mod tests {
    use super::super::Geometry;
    use super::*;

    fn texels(base: usize, kind: ChannelKind, bits: usize, channels: usize) -> Texels {
        Texels {
            base,
            format: Format { kind, bits, channels },
            size: [4, 2, 1],
            pitch: 64,
            slice: 128,
            layered: false,
            cube: false,
        }
    }

    #[test]
    fn halves_are_widened() {
        for (half, float) in [
            (0x0000, 0.0),
            (0x8000, -0.0),
            (0x3c00, 1.0),
            (0xc500, -5.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(widened(half).to_bits(), f32::to_bits(float), "{half:x}");
        }
        assert!(widened(0x7e01).is_nan());
    }

    #[test]
    fn channels_of_every_format() {
        let bytes: Vec<u8> = (0..128).map(|at| 0x80 + at).collect();
        let base = bytes.as_ptr() as usize;
        let read = |kind, bits, channels, place| {
            let texels = texels(base, kind, bits, channels);
            // SAFETY: the places lie in `bytes`.
            unsafe { texels.channels(place, 7) }
        };
        assert_eq!(read(ChannelKind::Unsigned, 8, 1, [1, 0, 0]), [0x81, 0, 0, 7]);
        assert_eq!(
            read(ChannelKind::Signed, 8, 2, [1, 0, 0])[..2],
            [-126i32 as u32, -125i32 as u32]
        );
        assert_eq!(read(ChannelKind::Unsigned, 16, 1, [0, 1, 0])[0], 0xc1c0);
        assert_eq!(read(ChannelKind::Signed, 16, 1, [0, 1, 0])[0], 0xffff_c1c0);
        let words = [0x8382_8180, 0x8786_8584, 0x8b8a_8988, 0x8f8e_8d8c];
        assert_eq!(read(ChannelKind::Unsigned, 32, 4, [0, 0, 0]), words);
        assert_eq!(read(ChannelKind::Float, 32, 4, [0, 0, 0]), words);
        assert_eq!(
            read(ChannelKind::Float, 16, 1, [0, 0, 0])[0],
            widened(0x8180).to_bits()
        );
    }

    #[test]
    fn an_instruction_fits_texels_of_its_shape() {
        let plane = texels(0, ChannelKind::Float, 32, 1);
        let line = Texels {
            size: [4, 1, 1],
            ..plane
        };
        let layers = Texels {
            size: [4, 1, 3],
            layered: true,
            ..plane
        };
        let cube = Texels {
            size: [4, 4, 6],
            cube: true,
            ..plane
        };
        let fit = |texels: &Texels| -> Vec<u32> {
            let fits = |&number: &u32| texels.fits(Geometry::of(number).unwrap());
            (0..7).filter(fits).collect()
        };
        assert_eq!(fit(&plane), [1, 2]);
        assert_eq!(fit(&line), [0, 1, 2]);
        assert_eq!(fit(&layers), [3, 4]);
        assert_eq!(fit(&cube), [5, 6]);
    }
}
