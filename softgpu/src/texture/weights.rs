//! How much each of the texels that a linear filter mixes counts.
//!
//! CUDA's programming guide gives the fractions of a coordinate eight bits, and says no more. The products
//! of the fractions of several dimensions are rounded to as many: so says every pixel of the pictures that
//! NVIDIA's samples simpleTexture and simpleTexture3D compare theirs with, which real GPUs have drawn.
//! Between planes those pictures show halves only; what other fractions round to there is an assumption.

/// What all weights come to: one.
pub const ONE: u32 = 256;

/// `a * b` as a part of `ONE`, to the nearest; a half goes up.
fn product(a: u32, b: u32) -> u32 {
    (a * b + ONE / 2) / ONE
}

/// The weights of one plane's four texels, (0,0), (1,0), (0,1), (1,1): `x` and `y` are the plane's parts of
/// the fractions, `both` its part of their product, `all` its weight.
fn plane(x: u32, y: u32, both: u32, all: u32) -> [u32; 4] {
    let both = both.min(x).min(y).max((x + y).saturating_sub(all));
    [all + both - x - y, x - both, y - both, both]
}

/// The weights of eight texels by the fractions of their coordinates: those of the plane below, then those of
/// the one above. Fractions are below `ONE`; a dimension that is not there has none.
pub fn weights([x, y, z]: [u32; 3]) -> [u32; 8] {
    let (x_above, y_above) = (product(x, z), product(y, z));
    let (x_below, y_below) = (x - x_above, y - y_above);
    let below = plane(x_below, y_below, product(x, y_below), ONE - z);
    let above = plane(x_above, y_above, product(x, y_above), z);
    let mut all = [0; 8];
    all[..4].copy_from_slice(&below);
    all[4..].copy_from_slice(&above);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_planes() {
        assert_eq!(weights([0, 0, 0]), [256, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(weights([100, 0, 0])[..4], [156, 100, 0, 0]);
        assert_eq!(weights([128, 64, 0])[..4], [96, 96, 32, 32]);
        // 12 * 252 / 256 is 11.8: nothing is left of 12 for the second.
        assert_eq!(weights([12, 252, 0])[..4], [4, 0, 240, 12]);
        // 169 * 140 / 256 is 92.4.
        assert_eq!(weights([169, 140, 0])[..4], [39, 77, 48, 92]);
    }

    #[test]
    fn boxes() {
        assert_eq!(weights([128, 128, 128]), [32; 8]);
        // 9, 39, 39 and 169 are halved: the first and the last go up, in both planes.
        let odd = weights([208, 208, 128]);
        assert_eq!(odd, [5, 19, 19, 85, 5, 19, 19, 85]);
    }

    #[test]
    fn all_come_to_one() {
        for x in 0..ONE {
            for y in 0..ONE {
                for z in [0, 1, 63, 64, 127, 128, 200, 255] {
                    let all = weights([x, y, z]);
                    assert_eq!(all.iter().sum::<u32>(), ONE, "{x} {y} {z}: {all:?}");
                    let above: u32 = all[4..].iter().sum();
                    assert_eq!(above, z, "{x} {y} {z}: {all:?}");
                }
            }
        }
    }
}
