//! Boxes of bytes: rows of bytes, and rows of rows.

use mgb_abi::copy3d::{CudaExtent, PitchedPtr};

/// Where one side of a copy lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Address of the first byte.
    pub at: usize,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Bytes from plane to plane.
    pub slice: usize,
}

impl Side {
    /// Bytes one after another: for copies of one row.
    pub fn plain(at: usize) -> Side {
        Side::rows(at, 0)
    }

    /// Rows of one plane.
    pub fn rows(at: usize, pitch: usize) -> Side {
        Side { at, pitch, slice: 0 }
    }
}

impl From<PitchedPtr> for Side {
    /// Planes are `ysize` rows apart.
    fn from(ptr: PitchedPtr) -> Side {
        Side {
            at: ptr.ptr as usize,
            pitch: ptr.pitch,
            slice: ptr.pitch * ptr.ysize,
        }
    }
}

/// Bytes of a row, rows of a plane, planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of a row.
    pub width: usize,
    /// Rows of a plane.
    pub height: usize,
    /// The number of planes.
    pub depth: usize,
}

impl From<CudaExtent> for Size {
    /// The extent's width counts bytes.
    fn from(CudaExtent { width, height, depth }: CudaExtent) -> Size {
        Size { width, height, depth }
    }
}

impl Size {
    /// The size of a single row.
    pub fn row(width: usize) -> Size {
        Size::plane(width, 1)
    }

    /// The size of a single plane.
    pub fn plane(width: usize, height: usize) -> Size {
        Size {
            width,
            height,
            depth: 1,
        }
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.width as u64 * self.height as u64 * self.depth as u64
    }

    /// Bytes from the first to the last, with what lies between rows and planes.
    pub fn span(&self, side: &Side) -> usize {
        if self.bytes() == 0 {
            0
        } else {
            side.slice * (self.depth - 1) + side.pitch * (self.height - 1) + self.width
        }
    }

    /// The first byte of each row on both sides.
    pub fn rows(self, to: Side, from: Side) -> impl Iterator<Item = (usize, usize)> {
        (0..self.depth).flat_map(move |plane| {
            (0..self.height).map(move |row| {
                let of = |side: Side| side.at + plane * side.slice + row * side.pitch;
                (of(to), of(from))
            })
        })
    }
}
