//! Surfaces: the bytes of an array, which kernels read and write as they are.

use mgb_abi::texture::{BOUNDARY_CLAMP, BOUNDARY_TRAP, BOUNDARY_ZERO};

use super::Geometry;
use super::texels::Texels;

/// What an access outside does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// Reads zero, and writes nothing.
    Zero,
    /// Is one at the edge.
    Clamp,
    /// Ends the kernel.
    Trap,
}

impl Boundary {
    /// The mode of CUDA's number.
    pub fn of(number: u32) -> Option<Boundary> {
        match number {
            BOUNDARY_ZERO => Some(Boundary::Zero),
            BOUNDARY_CLAMP => Some(Boundary::Clamp),
            BOUNDARY_TRAP => Some(Boundary::Trap),
            _ => None,
        }
    }
}

/// An array, as a surface.
#[derive(Clone, Copy, Debug)]
pub struct Surface {
    /// Its elements; the faces of cubes are layers.
    pub texels: Texels,
}

impl Surface {
    /// The address of `bytes` bytes at a place: bytes into a row, row, plane, after the layer where there is
    /// one. `None`: outside, where nothing is to be done.
    ///
    /// # Errors
    /// What is wrong with the access.
    pub fn place(
        &self,
        geometry: Geometry,
        boundary: Boundary,
        at: [u32; 4],
        bytes: usize,
    ) -> Result<Option<usize>, String> {
        let texels = &self.texels;
        if geometry.cube || !texels.fits(geometry) {
            return Err(format!(
                "has {}, and the instruction is for {geometry} surfaces",
                texels.shape()
            ));
        }
        let at = at.map(|coordinate| coordinate as i32 as i64);
        let [x, y, z] = match (geometry.layered, geometry.dimensions) {
            (true, 1) => [at[1], 0, at[0]],
            (true, _) => [at[1], at[2], at[0]],
            (false, 1) => [at[0], 0, 0],
            (false, 2) => [at[0], at[1], 0],
            (false, _) => [at[0], at[1], at[2]],
        };
        let [width, height, depth] = texels.size.map(|size| size as i64);
        let row = width * texels.format.bytes() as i64;
        let most = [row - bytes as i64, height - 1, depth - 1];
        let inside = [x, y, z]
            .iter()
            .zip(most)
            .all(|(&at, most)| (0..=most).contains(&at));
        let [x, y, z] = match boundary {
            _ if inside => [x, y, z],
            Boundary::Zero => return Ok(None),
            Boundary::Clamp if most[0] >= 0 => {
                [x.clamp(0, most[0]), y.clamp(0, most[1]), z.clamp(0, most[2])]
            }
            _ => {
                return Err(format!(
                    "has {row} bytes in a row, {height} rows and {depth} planes or layers: none at byte {x}, \
                     row {y}, plane or layer {z}"
                ));
            }
        };
        if x % bytes as i64 != 0 {
            return Err(format!(
                "is accessed at byte {x} of a row, which is no multiple of {bytes}: x counts bytes"
            ));
        }
        let row = texels.address([0, y as usize, z as usize]);
        Ok(Some(row + x as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::super::texels::{ChannelKind, Format};
    use super::*;

    /// 5 elements of 4 bytes, 3 rows, 2 planes.
    fn surface(layered: bool) -> Surface {
        let format = Format {
            kind: ChannelKind::Unsigned,
            bits: 8,
            channels: 4,
        };
        Surface {
            texels: Texels {
                base: 1000,
                format,
                size: [5, 3, 2],
                pitch: 20,
                slice: 60,
                layered,
                cube: false,
            },
        }
    }

    fn place(boundary: Boundary, at: [i32; 3], bytes: usize) -> Result<Option<usize>, String> {
        let [x, y, z] = at.map(|at| at as u32);
        surface(false).place(Geometry::of(2).unwrap(), boundary, [x, y, z, z], bytes)
    }

    #[test]
    fn places_inside_are_the_same_in_every_mode() {
        for boundary in [Boundary::Zero, Boundary::Clamp, Boundary::Trap] {
            assert_eq!(place(boundary, [8, 2, 1], 4), Ok(Some(1000 + 60 + 40 + 8)));
            assert_eq!(place(boundary, [19, 0, 0], 1), Ok(Some(1019)));
        }
        let layered = surface(true);
        let at = layered.place(Geometry::of(4).unwrap(), Boundary::Trap, [1, 8, 2, 2], 4);
        assert_eq!(at, Ok(Some(1000 + 60 + 40 + 8)));
    }

    #[test]
    fn places_outside() {
        for at in [[-4, 0, 0], [20, 0, 0], [0, 3, 0], [0, -1, 0], [0, 0, 2]] {
            assert_eq!(place(Boundary::Zero, at, 4), Ok(None));
            assert!(place(Boundary::Trap, at, 4).is_err(), "{at:?}");
        }
        assert_eq!(place(Boundary::Clamp, [-4, 9, -9], 4), Ok(Some(1040)));
        assert_eq!(place(Boundary::Clamp, [400, 0, 1], 4), Ok(Some(1076)));
        // The last bytes of the access would be outside.
        assert_eq!(place(Boundary::Zero, [16, 0, 0], 8), Ok(None));
    }

    #[test]
    fn what_a_program_gets_wrong_is_named() {
        let error = place(Boundary::Zero, [2, 0, 0], 4).unwrap_err();
        assert!(error.contains("no multiple of 4"), "{error}");
        let error = surface(true).place(Geometry::of(1).unwrap(), Boundary::Zero, [0; 4], 4);
        assert!(error.unwrap_err().contains("is for 2-D surfaces"));
    }
}
