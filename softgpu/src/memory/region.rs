//! Boxes of bytes, and moving them: rows of bytes, rows of rows, and which way they go.

use mgb_abi::copy::{DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST};
use mgb_abi::copy3d::{Extent, PitchedPtr};

use super::{Place, check_device, locate};
use crate::error::{Error, Result, say};
use crate::exec::fault;

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
    /// Planes.
    pub depth: usize,
}

impl From<Extent> for Size {
    /// The extent's width counts bytes.
    fn from(Extent { width, height, depth }: Extent) -> Size {
        Size { width, height, depth }
    }
}

impl Size {
    /// One row.
    pub fn row(width: usize) -> Size {
        Size::plane(width, 1)
    }

    /// One plane.
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
    fn rows(self, to: Side, from: Side) -> impl Iterator<Item = (usize, usize)> {
        (0..self.depth).flat_map(move |plane| {
            (0..self.height).map(move |row| {
                let of = |side: Side| side.at + plane * side.slice + row * side.pitch;
                (of(to), of(from))
            })
        })
    }
}

/// A copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where to.
    pub to: Side,
    /// Where from.
    pub from: Side,
    /// How much.
    pub size: Size,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From host to host.
    Host,
    /// From the host to a device.
    ToDevice,
    /// From a device to the host.
    FromDevice,
    /// From device memory to device memory.
    Within,
}

impl Way {
    /// `cudaMemcpyKind`.
    pub fn kind(self) -> u32 {
        match self {
            Way::Host => HOST_TO_HOST,
            Way::ToDevice => HOST_TO_DEVICE,
            Way::FromDevice => DEVICE_TO_HOST,
            Way::Within => DEVICE_TO_DEVICE,
        }
    }
}

impl Copy {
    /// A plain copy.
    pub fn bytes(to: usize, from: usize, count: usize) -> Copy {
        Copy {
            to: Side::plain(to),
            from: Side::plain(from),
            size: Size::row(count),
        }
    }

    /// Decides which way the bytes go, as `cudaMemcpyKind` says and the pointers allow.
    ///
    /// # Errors
    /// `INVALID_MEMCPY_DIRECTION` for no such kind, `INVALID_VALUE` for pointers that are not what it
    /// says, and those of [`check_device`].
    pub fn way(&self, kind: u32) -> Result<Way> {
        let (to, from) = (locate(self.to.at), locate(self.from.at));
        let fits = |place: Place, device: bool| {
            if device {
                place.is_device()
            } else {
                place.is_host()
            }
        };
        let way = match kind {
            HOST_TO_HOST => Way::Host,
            HOST_TO_DEVICE => Way::ToDevice,
            DEVICE_TO_HOST => Way::FromDevice,
            DEVICE_TO_DEVICE => Way::Within,
            DEFAULT => match (to.is_device(), from.is_device()) {
                (false, false) => Way::Host,
                (true, false) => Way::ToDevice,
                (false, true) => Way::FromDevice,
                (true, true) => Way::Within,
            },
            _ => return Err(Error::INVALID_MEMCPY_DIRECTION),
        };
        let (to_device, from_device) = match way {
            Way::Host => (false, false),
            Way::ToDevice => (true, false),
            Way::FromDevice => (false, true),
            Way::Within => (true, true),
        };
        if !fits(to, to_device) || !fits(from, from_device) {
            return Err(Error::INVALID_VALUE);
        }
        if to_device && to.is_device() {
            check_device(self.to.at, self.size.span(&self.to), true)?;
        }
        if from_device && from.is_device() {
            check_device(self.from.at, self.size.span(&self.from), false)?;
        }
        Ok(way)
    }

    /// Moves the bytes.
    ///
    /// # Errors
    /// `ILLEGAL_ADDRESS` or `INVALID_VALUE` where one side has no memory.
    pub fn perform(&self) -> Result {
        let Copy { to, from, size } = *self;
        let moved = fault::guarded(|| {
            for (to, from) in size.rows(to, from) {
                // SAFETY: device ranges were checked; host ranges are the caller's, whose faults
                // are caught.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, size.width) };
            }
        });
        moved?.map_err(faulted)
    }
}

/// A set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Where.
    pub to: Side,
    /// How much; the width is a multiple of the element.
    pub size: Size,
    /// What each element becomes.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: usize,
}

impl Fill {
    /// Sets bytes.
    pub fn bytes(to: Side, size: Size, value: u8) -> Fill {
        Fill {
            to,
            size,
            value: u32::from(value),
            element: 1,
        }
    }

    /// Checks that it sets device memory that can be written.
    ///
    /// # Errors
    /// Those of [`check_device`].
    pub fn check(&self) -> Result {
        check_device(self.to.at, self.size.span(&self.to), true)
    }

    /// Sets the bytes.
    ///
    /// # Errors
    /// `ILLEGAL_ADDRESS` where there is no memory.
    pub fn perform(&self) -> Result {
        let Fill {
            to,
            size,
            value,
            element,
        } = *self;
        let bytes = value.to_le_bytes();
        let set = fault::guarded(|| {
            for (row, _) in size.rows(to, to) {
                // SAFETY: the range was checked; should it have gone since, the fault is caught.
                unsafe {
                    if element == 1 {
                        std::ptr::write_bytes(row as *mut u8, bytes[0], size.width);
                    } else {
                        for at in (0..size.width).step_by(element) {
                            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (row + at) as *mut u8, element);
                        }
                    }
                }
            }
        });
        set?.map_err(faulted)
    }
}

/// What a copy or set that faulted returns.
fn faulted(address: usize) -> Error {
    say(&format!(
        "a copy or set touched {address:#x}, where there is no memory"
    ));
    if locate(address).is_device() {
        Error::ILLEGAL_ADDRESS
    } else {
        Error::INVALID_VALUE
    }
}
