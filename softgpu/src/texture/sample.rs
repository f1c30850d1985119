//! Reading a texture: the texels that a coordinate asks for, as the values that a kernel gets.

use mgb_abi::texture::DriverTextureDesc;
use mgb_abi::texture::{FILTER_LINEAR, FLAG_NORMALIZED_COORDINATES, FLAG_READ_AS_INTEGER, FLAG_SRGB};

use super::Geometry;
use super::address::{AddressMode, between, nearest};
use super::cube::face;
use super::texels::{ChannelKind, Format, Texels};
use super::weights::{ONE, weights};

/// What a coordinate reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    modes: [AddressMode; 3],
    /// Mix neighbours by their distance.
    linear: bool,
    /// Coordinates go from 0 to 1.
    normalized: bool,
    /// Integers become floats, from -1 or 0 to 1.
    promotes: bool,
    /// They are converted from sRGB.
    srgb: bool,
    /// Bits of what is read outside.
    border: [u32; 4],
}

impl Sampler {
    /// The sampler of a description, for elements of a format.
    pub fn of(description: &DriverTextureDesc, format: Format) -> Sampler {
        let has = |flag| description.flags & flag != 0;
        let normalized = has(FLAG_NORMALIZED_COORDINATES);
        // Integers of 32 bits stay as they are.
        let small = format.kind != ChannelKind::Float && format.bits < 32;
        Sampler {
            modes: description
                .address
                .map(|number| AddressMode::of(number, normalized)),
            linear: description.filter == FILTER_LINEAR,
            normalized,
            promotes: small && !has(FLAG_READ_AS_INTEGER),
            srgb: has(FLAG_SRGB) && (format.kind, format.bits) == (ChannelKind::Unsigned, 8),
            border: description.border.map(f32::to_bits),
        }
    }

    /// Whether elements of this format are read as floats.
    pub fn gives_floats(&self, format: Format) -> bool {
        self.promotes || format.kind == ChannelKind::Float
    }
}

/// How an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// At coordinates with a fraction, as the sampler says.
    Sample,
    /// The element at whole coordinates.
    Element,
    /// One channel of each of the four texels that a linear filter would mix.
    Gather(usize),
}

impl Fetch {
    /// As `softgpu_image.h` numbers them.
    pub fn of(number: u32) -> Option<Fetch> {
        match number {
            0 => Some(Fetch::Sample),
            1 => Some(Fetch::Element),
            4..=7 => Some(Fetch::Gather(number as usize - 4)),
            _ => None,
        }
    }
}

/// Texels with a sampler.
#[derive(Clone, Copy, Debug)]
pub struct Texture {
    /// What is read.
    pub texels: Texels,
    /// How the texture is sampled.
    pub sampler: Sampler,
    /// Linear memory has elements, and no sampler.
    pub is_linear: bool,
}

/// The indices of the texels of each dimension; `None`: the border.
type TexelIndices = [Option<usize>; 3];

impl Texture {
    /// Reads. `at` has the coordinates of the instruction's geometry, after the layer where there is one.
    ///
    /// # Errors
    /// What is wrong: the instruction is for textures of another shape.
    ///
    /// # Safety
    /// The texels' memory can be read. Where it cannot, the fault is the running kernel's.
    pub unsafe fn read(&self, geometry: Geometry, fetch: Fetch, at: [u32; 4]) -> Result<[u32; 4], String> {
        if !self.texels.fits(geometry) {
            return Err(format!(
                "has {}, and the instruction is for {geometry} textures",
                self.texels.shape()
            ));
        }
        if self.is_linear && fetch != Fetch::Element {
            return Err("is of linear memory, which only tex1Dfetch reads".to_owned());
        }
        let (layer, coordinates) = match geometry.layered {
            true => (at[0] as usize, [at[1], at[2], at[3]]),
            false => (0, [at[0], at[1], at[2]]),
        };
        let [width, height, depth] = self.texels.size;
        if fetch == Fetch::Element {
            let inside =
                |at: usize, size: usize| Some(coordinates[at] as usize).filter(|&index| index < size);
            let mut place = [inside(0, width), Some(0), Some(0)];
            if geometry.dimensions > 1 {
                place[1] = inside(1, height);
            }
            place[2] = match geometry.layered {
                true => Some(layer.min(depth - 1)),
                false if geometry.dimensions > 2 => inside(2, depth),
                false => Some(0),
            };
            // SAFETY: contract of `read`.
            return Ok(unsafe { self.value(place, [0; 4]) });
        }
        let floats = coordinates.map(f32::from_bits);
        let sampler = &self.sampler;
        // SAFETY: contract of `read`.
        unsafe {
            if geometry.cube {
                let (face, [s, t]) = face(floats);
                let layer = (layer * 6 + face).min(depth - 1);
                let modes = [AddressMode::Clamp; 3];
                return Ok(self.sampled(fetch, 2, [s, t, 0.0], Some(layer), modes, true));
            }
            let layer = (geometry.dimensions < 3).then(|| layer.min(depth - 1));
            let dimensions = geometry.dimensions;
            Ok(self.sampled(
                fetch,
                dimensions,
                floats,
                layer,
                sampler.modes,
                sampler.normalized,
            ))
        }
    }

    /// What coordinates read, in the layer given, if any.
    ///
    /// # Safety
    /// As [`Texture::read`].
    unsafe fn sampled(
        &self,
        fetch: Fetch,
        dimensions: usize,
        coordinates: [f32; 3],
        layer: Option<usize>,
        modes: [AddressMode; 3],
        normalized: bool,
    ) -> [u32; 4] {
        let size = self.texels.size;
        let texel = |at: usize, index: i64| modes[at].texel(index, size[at]);
        let mixes = self.sampler.linear && self.gives_floats();
        if fetch == Fetch::Sample && !mixes {
            let mut place = [Some(0), Some(0), layer.or(Some(0))];
            for at in 0..dimensions {
                place[at] = texel(at, nearest(coordinates[at], size[at], normalized));
            }
            // SAFETY: contract of this function.
            return unsafe { self.value(place, self.sampler.border) };
        }
        // The two texels of each dimension, and how far the coordinate is from the lower one.
        let mut pairs = [[Some(0); 2]; 3];
        pairs[2][0] = layer.or(Some(0));
        let mut fractions = [0; 3];
        for at in 0..dimensions {
            let (index, fraction) = between(coordinates[at], size[at], normalized);
            pairs[at] = [texel(at, index), texel(at, index + 1)];
            fractions[at] = fraction;
        }
        // A line is the only row of a plane, read on its edge: an H100 mixes in half of the border.
        if fetch == Fetch::Sample && dimensions == 1 && modes[1] == AddressMode::Border {
            (pairs[1], fractions[1]) = ([None, Some(0)], ONE / 2);
        }
        let corner = |x: usize, y: usize, z: usize| {
            let place = [pairs[0][x], pairs[1][y], pairs[2][z]];
            // SAFETY: contract of this function.
            unsafe { self.value(place, self.sampler.border) }
        };
        if let Fetch::Gather(channel) = fetch {
            // Around the four, from the lower left one on.
            return [(0, 1), (1, 1), (1, 0), (0, 0)].map(|(x, y)| corner(x, y, 0)[channel]);
        }
        let mut sum = [0.0f64; 4];
        for (at, weight) in weights(fractions).into_iter().enumerate() {
            if weight == 0 {
                continue;
            }
            let value = corner(at & 1, at >> 1 & 1, at >> 2);
            for (sum, bits) in sum.iter_mut().zip(value) {
                *sum += f64::from(weight) * f64::from(f32::from_bits(bits));
            }
        }
        let rounds = (self.texels.format.kind, self.texels.format.bits) == (ChannelKind::Float, 16);
        sum.map(|sum| {
            let mixed = sum / f64::from(ONE);
            (if rounds { half(mixed) } else { mixed as f32 }).to_bits()
        })
    }

    fn gives_floats(&self) -> bool {
        self.sampler.gives_floats(self.texels.format)
    }

    /// The value of a texel; of one outside, `outside`.
    ///
    /// # Safety
    /// As [`Texture::read`].
    unsafe fn value(&self, place: TexelIndices, outside: [u32; 4]) -> [u32; 4] {
        let [Some(x), Some(y), Some(z)] = place else {
            return outside;
        };
        let one = if self.gives_floats() { 1.0f32.to_bits() } else { 1 };
        // SAFETY: the indices are below the sizes: modes and callers see to that.
        let mut channels = unsafe { self.texels.channels([x, y, z], one) };
        if self.sampler.promotes {
            let format = self.texels.format;
            for (at, channel) in channels.iter_mut().enumerate().take(format.channels) {
                let float = promoted(*channel, format);
                // The fourth channel, opacity, is not encoded.
                let decoded = if self.sampler.srgb && at < 3 {
                    from_srgb(float)
                } else {
                    float
                };
                *channel = decoded.to_bits();
            }
        }
        channels
    }
}

/// An integer of 8 or 16 bits as a part of the largest one.
fn promoted(channel: u32, format: Format) -> f32 {
    match format.kind {
        ChannelKind::Signed => (channel as i32 as f32 / ((1 << (format.bits - 1)) - 1) as f32).max(-1.0),
        _ => channel as f32 / ((1 << format.bits) - 1) as f32,
    }
}

/// The nearest number that 16 bits have, the larger one of two: an H100 mixes such texels to such a number.
fn half(value: f64) -> f32 {
    /// The steps between numbers below the smallest normal one, and bits of a fraction.
    const STEP: f64 = 1.0 / (1 << 24) as f64;
    const BITS: i32 = 10;
    let exponent = value.abs().log2().floor();
    if !exponent.is_finite() {
        return value as f32;
    }
    let step = 2f64.powi(exponent as i32 - BITS).max(STEP);
    ((value / step).round() * step) as f32
}

/// The light that a value encodes, by the formula of IEC 61966-2-1.
fn from_srgb(value: f32) -> f32 {
    if value <= 0.04045 {
        value / 12.92
    } else {
        ((value + 0.055) / 1.055).powf(2.4)
    }
}

#[cfg(test)]
mod tests;
