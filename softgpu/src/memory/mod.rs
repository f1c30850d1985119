//! Memory: what there is at an address, and whether it may be touched.

pub mod advice;
pub mod array;
pub mod extents;
pub mod heap;
pub mod pages;
mod physical;
pub mod pinned;
pub mod pool;
pub mod region;
pub mod share;
pub mod transfer;
pub mod vmm;

use crate::device::{Gpu, node};
use crate::error::{Error, Result};
use heap::Use;
use vmm::Found;

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Memory of a device: first byte and size of the allocation or mapping.
    Device {
        /// Ordinal of the device.
        ordinal: usize,
        /// First byte.
        base: usize,
        /// Bytes.
        size: usize,
    },
    /// Managed memory, which host and devices may touch.
    Managed {
        /// Ordinal of the device that is charged.
        ordinal: usize,
        /// First byte.
        base: usize,
        /// Bytes.
        size: usize,
    },
    /// A device address with no memory behind it, or none that any device may touch.
    Nothing,
    /// Pinned host memory.
    Pinned {
        /// First byte.
        base: usize,
        /// Bytes.
        size: usize,
    },
    /// Anything else: the host's.
    Host,
}

impl Place {
    /// Whether a device address stands here.
    pub fn is_device(self) -> bool {
        matches!(
            self,
            Place::Device { .. } | Place::Managed { .. } | Place::Nothing
        )
    }

    /// The device whose memory it is.
    pub fn ordinal(self) -> Option<usize> {
        match self {
            Place::Device { ordinal, .. } | Place::Managed { ordinal, .. } => Some(ordinal),
            _ => None,
        }
    }

    /// Whether the host may touch it through its own pointer.
    pub fn is_host(self) -> bool {
        matches!(self, Place::Pinned { .. } | Place::Host | Place::Managed { .. })
    }
}

/// What `address` is.
pub fn locate(address: usize) -> Place {
    let gpus = node().map(|node| node.gpus()).unwrap_or_default();
    for (ordinal, gpu) in gpus.iter().enumerate() {
        let heap = gpu.heap();
        if heap.owns(address) {
            return match heap.find(address) {
                Some(found) if found.purpose == Use::Managed => Place::Managed {
                    ordinal,
                    base: found.base,
                    size: found.size,
                },
                Some(found) => Place::Device {
                    ordinal,
                    base: found.base,
                    size: found.size,
                },
                None => Place::Nothing,
            };
        }
    }
    match vmm::with(|vmm| vmm.find(address)) {
        Some(Found::Mapped {
            base,
            length,
            ordinal,
            access,
        }) if access.read != 0 => {
            return Place::Device {
                ordinal,
                base,
                size: length,
            };
        }
        Some(_) => return Place::Nothing,
        None => {}
    }
    match pinned::find(address) {
        Some(range) => Place::Pinned {
            base: range.base,
            size: range.size,
        },
        None => Place::Host,
    }
}

/// Checks that a copy or set may touch `length` bytes of device memory at `address`.
///
/// # Errors
/// `ILLEGAL_ADDRESS` where a device address has nothing behind it or may not be touched so;
/// `INVALID_VALUE` where the bytes reach past the end of an allocation, or are none of a device's.
pub fn check_device(address: usize, length: usize, write: bool) -> Result {
    let mut at = address;
    let end = address.checked_add(length).ok_or(Error::INVALID_VALUE)?;
    while at < end {
        let next = match vmm::with(|vmm| vmm.find(at)) {
            Some(Found::Mapped {
                base, length, access, ..
            }) => {
                if (if write { access.write } else { access.read }) == 0 {
                    return Err(Error::ILLEGAL_ADDRESS);
                }
                base + length
            }
            Some(Found::Reserved) => return Err(Error::ILLEGAL_ADDRESS),
            None => match locate(at) {
                Place::Device { base, size, .. } | Place::Managed { base, size, .. }
                    if base + size >= end =>
                {
                    end
                }
                Place::Nothing => return Err(Error::ILLEGAL_ADDRESS),
                _ => return Err(Error::INVALID_VALUE),
            },
        };
        at = next;
    }
    Ok(())
}

/// Allocates `size` bytes on a device; zero bytes are address zero.
pub fn allocate(gpu: &Gpu, size: usize, purpose: Use) -> Result<usize> {
    let state = crate::state::shared()?;
    if size == 0 {
        Ok(0)
    } else {
        crate::fail::allocation(gpu.index).inspect_err(|&error| {
            if error != Error::MEMORY_ALLOCATION {
                gpu.fail(error);
            }
        })?;
        gpu.heap().allocate(state, size, purpose)
    }
}

/// Frees device memory, on whichever device it is.
///
/// # Errors
/// `INVALID_VALUE` if no allocation starts there.
pub fn free(address: usize) -> Result {
    let mut heap = owner(address)?.heap();
    match heap.find(address) {
        Some(found) if matches!(found.purpose, Use::Plain | Use::Managed) => {
            if found.purpose == Use::Managed {
                advice::forget(found.base, found.size);
            }
            heap.free(crate::state::shared()?, address)?;
            drop(heap);
            pool::forget(address);
            Ok(())
        }
        // The address is the graph's for ever.
        Some(found) if found.purpose == Use::Graph && found.base == address => {
            drop(heap);
            crate::graph::memory::freed(address);
            Ok(())
        }
        _ => Err(Error::INVALID_VALUE),
    }
}

/// Frees memory that softgpu itself allocated for the program.
///
/// # Errors
/// As [`free`].
pub fn take_back(address: usize) -> Result {
    owner(address)?.heap().free(crate::state::shared()?, address)
}

fn owner(address: usize) -> Result<&'static Gpu> {
    let mut gpus = node()?.gpus().iter();
    gpus.find(|gpu| gpu.heap().owns(address))
        .ok_or(Error::INVALID_VALUE)
}
