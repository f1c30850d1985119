//! The face of a cube that a direction points to, and where.

/// The face, and the two coordinates on it, from 0 to 1. The largest part of the direction chooses the face;
/// of equal ones, the last.
pub fn face([x, y, z]: [f32; 3]) -> (usize, [f32; 2]) {
    let (absolute_x, absolute_y, absolute_z) = (x.abs(), y.abs(), z.abs());
    let (face, s, t, largest) = if absolute_z >= absolute_x && absolute_z >= absolute_y {
        match z >= 0.0 {
            true => (4, x, -y, absolute_z),
            false => (5, -x, -y, absolute_z),
        }
    } else if absolute_y >= absolute_x {
        match y >= 0.0 {
            true => (2, x, z, absolute_y),
            false => (3, x, -z, absolute_y),
        }
    } else {
        match x >= 0.0 {
            true => (0, -z, -y, absolute_x),
            false => (1, z, -y, absolute_x),
        }
    };
    (face, [s, t].map(|part| (part / largest + 1.0) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::face;

    #[test]
    fn six_directions_six_faces() {
        for (direction, wanted) in [
            ([2.0, 0.0, 0.0], (0, [0.5, 0.5])),
            ([-1.0, 0.5, 0.0], (1, [0.5, 0.25])),
            ([0.5, 1.0, -0.5], (2, [0.75, 0.25])),
            ([0.5, -1.0, -0.5], (3, [0.75, 0.75])),
            ([-0.5, 0.5, 1.0], (4, [0.25, 0.25])),
            ([-0.5, 0.5, -1.0], (5, [0.75, 0.25])),
        ] {
            assert_eq!(face(direction), wanted, "{direction:?}");
        }
    }
}
