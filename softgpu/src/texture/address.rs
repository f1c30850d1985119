//! From a coordinate to the texels of one dimension, by the dimension's address mode.

use mgb_abi::texture::{ADDRESS_BORDER, ADDRESS_MIRROR, ADDRESS_WRAP};

use super::weights::ONE;

/// What a coordinate outside reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressMode {
    /// What it would read if the texels were repeated.
    Wrap,
    /// The nearest texel.
    #[default]
    Clamp,
    /// What it would read if every second repetition were reversed.
    Mirror,
    /// The border's value.
    Border,
}

impl AddressMode {
    /// The mode of CUDA's number. Only normalised coordinates can repeat: others clamp.
    pub fn of(number: u32, normalized: bool) -> AddressMode {
        match number {
            ADDRESS_WRAP if normalized => AddressMode::Wrap,
            ADDRESS_MIRROR if normalized => AddressMode::Mirror,
            ADDRESS_BORDER => AddressMode::Border,
            _ => AddressMode::Clamp,
        }
    }

    /// The texel that an index of a dimension of `size` texels reads; `None`: the border.
    pub fn texel(self, index: i64, size: usize) -> Option<usize> {
        let size = size as i64;
        let found = match self {
            AddressMode::Wrap => index.rem_euclid(size),
            AddressMode::Clamp => index.clamp(0, size - 1),
            AddressMode::Mirror => {
                let at = index.rem_euclid(2 * size);
                at.min(2 * size - 1 - at)
            }
            AddressMode::Border if (0..size).contains(&index) => index,
            AddressMode::Border => return None,
        };
        Some(found as usize)
    }
}

/// No coordinate is further out: sums of indices stay in range.
const FARTHEST: f64 = (1u64 << 50) as f64;

/// A coordinate in texels; no number is zero.
fn in_texels(coordinate: f32, size: usize, normalized: bool) -> f64 {
    let scale = if normalized { size as f64 } else { 1.0 };
    let texels = f64::from(coordinate) * scale;
    if texels.is_nan() {
        return 0.0;
    }
    texels.clamp(-FARTHEST, FARTHEST)
}

/// The index of the texel that a coordinate lies in.
pub fn nearest(coordinate: f32, size: usize, normalized: bool) -> i64 {
    in_texels(coordinate, size, normalized).floor() as i64
}

/// The lower index of the two texels that a coordinate lies between, and the upper one's part of [`ONE`].
pub fn between(coordinate: f32, size: usize, normalized: bool) -> (i64, u32) {
    let parts = f64::from(ONE);
    let steps = ((in_texels(coordinate, size, normalized) - 0.5) * parts + 0.5).floor() as i64;
    let one = i64::from(ONE);
    (steps.div_euclid(one), steps.rem_euclid(one) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texels(mode: AddressMode, indices: std::ops::RangeInclusive<i64>) -> Vec<i64> {
        let found = |index| mode.texel(index, 3).map_or(-1, |texel| texel as i64);
        indices.map(found).collect()
    }

    #[test]
    fn every_mode_outside() {
        assert_eq!(texels(AddressMode::Wrap, -4..=4), [2, 0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(texels(AddressMode::Clamp, -2..=4), [0, 0, 0, 1, 2, 2, 2]);
        assert_eq!(
            texels(AddressMode::Mirror, -4..=6),
            [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0]
        );
        assert_eq!(texels(AddressMode::Border, -2..=4), [-1, -1, 0, 1, 2, -1, -1]);
        for mode in [AddressMode::Wrap, AddressMode::Clamp, AddressMode::Mirror] {
            assert_eq!(mode.texel(-7, 1), Some(0), "{mode:?}");
        }
    }

    #[test]
    fn only_normalised_coordinates_repeat() {
        for (number, plain, normalized) in [
            (0, AddressMode::Clamp, AddressMode::Wrap),
            (1, AddressMode::Clamp, AddressMode::Clamp),
            (2, AddressMode::Clamp, AddressMode::Mirror),
            (3, AddressMode::Border, AddressMode::Border),
        ] {
            assert_eq!(
                (AddressMode::of(number, false), AddressMode::of(number, true)),
                (plain, normalized)
            );
        }
    }

    #[test]
    fn the_nearest_texel() {
        assert_eq!(nearest(2.999, 8, false), 2);
        assert_eq!(nearest(-0.25, 8, false), -1);
        assert_eq!(nearest(0.5, 8, true), 4);
        assert_eq!(nearest(1.0, 8, true), 8);
        assert_eq!(nearest(f32::NAN, 8, true), 0);
        // Far outside an index still has neighbours.
        for far in [f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30] {
            let index = nearest(far, 8, true);
            assert_eq!(
                AddressMode::Clamp.texel(index + 1, 8),
                Some(if far > 0.0 { 7 } else { 0 })
            );
        }
    }

    #[test]
    fn weights_have_eight_bits_of_fraction() {
        assert_eq!(between(1.5, 8, false), (1, 0));
        assert_eq!(between(1.75, 8, false), (1, 64));
        assert_eq!(between(0.25, 8, false), (-1, 192));
        // Between two steps the nearer one, which may be the next texel's; in the middle the upper one.
        assert_eq!(between(1.5 + 1.4 / 256.0, 8, false), (1, 1));
        assert_eq!(between(1.5 - 0.5 / 256.0, 8, false), (1, 0));
        assert_eq!(between(2.499, 8, false), (2, 0));
        assert_eq!(between(0.5, 8, true), (3, 128));
    }
}
