//! Ranges of bytes that rows with a pitch and boxes take.

use mgb_abi::copy3d::{CudaExtent, PitchedPtr, Pos};

/// A range of bytes that a call touches.
#[derive(Clone, Copy)]
pub struct Span {
    /// The first address.
    pub address: u64,
    /// How many bytes from there on.
    pub bytes: u64,
}

impl Span {
    /// What rows with a pitch touch: the last one only as far as its width.
    pub fn of_rows(address: u64, pitch: usize, width: usize, height: usize) -> Span {
        let bytes = match (width, height) {
            (0, _) | (_, 0) => 0,
            _ => (pitch as u64)
                .saturating_mul(height as u64 - 1)
                .saturating_add(width as u64),
        };
        Span { address, bytes }
    }

    /// The bytes from the first to the last one of a box that begins at `pos` in pitched memory.
    pub fn of_box(memory: &PitchedPtr, pos: Pos, extent: CudaExtent) -> Span {
        let words = [
            memory.pitch,
            memory.ysize,
            pos.x,
            pos.y,
            pos.z,
            extent.width,
            extent.height,
            extent.depth,
        ];
        let [pitch, rows, x, y, z, width, height, depth] = words.map(|word| word as u64);
        let slice = pitch.saturating_mul(rows);
        let at = |z: u64, y: u64, x: u64| {
            (slice.saturating_mul(z))
                .saturating_add(pitch.saturating_mul(y))
                .saturating_add(x)
        };
        let bytes = match (width, height, depth) {
            (0, ..) | (_, 0, _) | (.., 0) => 0,
            _ => at(depth - 1, height - 1, width),
        };
        Span {
            address: (memory.ptr as u64).saturating_add(at(z, y, x)),
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_ends_at_its_width() {
        let bytes = |pitch, width, height| Span::of_rows(0, pitch, width, height).bytes;
        assert_eq!(bytes(512, 100, 3), 1124);
        assert_eq!(bytes(512, 100, 0), 0);
        assert_eq!(bytes(usize::MAX, 100, usize::MAX), u64::MAX);
    }

    #[test]
    fn a_box_ends_with_the_last_byte_of_its_last_row() {
        let ptr = PitchedPtr {
            ptr: 1000 as *mut _,
            pitch: 512,
            xsize: 300,
            ysize: 10,
        };
        let span = |pos, width, height, depth| {
            let span = Span::of_box(&ptr, pos, CudaExtent { width, height, depth });
            (span.address, span.bytes)
        };
        assert_eq!(span(Pos::default(), 100, 3, 1), (1000, 1124));
        assert_eq!(
            span(Pos { x: 1, y: 2, z: 3 }, 100, 3, 2),
            (1000 + 3 * 5120 + 1025, 5120 + 1124)
        );
        assert_eq!(span(Pos::default(), 100, 0, 5).1, 0);
        assert_eq!(span(Pos::default(), 1, usize::MAX, usize::MAX).1, u64::MAX);
    }
}
