//! What there is at an address.

use crate::device::node;
use crate::error::{Error, Result};
use crate::memory::heap::AllocationUse;
use crate::memory::vmm::AddressContent;
use crate::memory::{pinned, vmm};

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// Memory of a device: first byte and size of the allocation or mapping.
    Device {
        /// Ordinal of the device.
        ordinal: usize,
        /// The first byte of the allocation.
        base: usize,
        /// The size of the allocation in bytes.
        size: usize,
    },
    /// Managed memory, which host and devices may touch.
    Managed {
        /// Ordinal of the device that is charged.
        ordinal: usize,
        /// The first byte of the allocation.
        base: usize,
        /// The size of the allocation in bytes.
        size: usize,
    },
    /// A device address with no memory behind it, or none that any device may touch.
    Nothing,
    /// Pinned host memory.
    Pinned {
        /// The first byte of the allocation.
        base: usize,
        /// The size of the allocation in bytes.
        size: usize,
    },
    /// Anything else: the host's.
    Host,
}

impl AddressKind {
    /// Whether a device address stands here.
    pub fn is_device(self) -> bool {
        matches!(
            self,
            AddressKind::Device { .. } | AddressKind::Managed { .. } | AddressKind::Nothing
        )
    }

    /// The device whose memory it is.
    pub fn ordinal(self) -> Option<usize> {
        match self {
            AddressKind::Device { ordinal, .. } | AddressKind::Managed { ordinal, .. } => Some(ordinal),
            _ => None,
        }
    }

    /// Whether the host may touch it through its own pointer.
    pub fn is_host(self) -> bool {
        matches!(
            self,
            AddressKind::Pinned { .. } | AddressKind::Host | AddressKind::Managed { .. }
        )
    }
}

/// What `address` is.
pub fn locate(address: usize) -> AddressKind {
    let gpus = node().map(|node| node.gpus()).unwrap_or_default();
    for (ordinal, gpu) in gpus.iter().enumerate() {
        let heap = gpu.heap();
        if heap.owns(address) {
            return match heap.find(address) {
                Some(found) if found.purpose == AllocationUse::Managed => AddressKind::Managed {
                    ordinal,
                    base: found.base,
                    size: found.size,
                },
                Some(found) => AddressKind::Device {
                    ordinal,
                    base: found.base,
                    size: found.size,
                },
                None => AddressKind::Nothing,
            };
        }
    }
    match vmm::with(|vmm| vmm.find(address)) {
        Some(AddressContent::Mapped {
            base,
            length,
            ordinal,
            access,
        }) if access.read != 0 => {
            return AddressKind::Device {
                ordinal,
                base,
                size: length,
            };
        }
        Some(_) => return AddressKind::Nothing,
        None => {}
    }
    match pinned::find(address) {
        Some(range) => AddressKind::Pinned {
            base: range.base,
            size: range.size,
        },
        None => AddressKind::Host,
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
            Some(AddressContent::Mapped {
                base, length, access, ..
            }) => {
                if (if write { access.write } else { access.read }) == 0 {
                    return Err(Error::ILLEGAL_ADDRESS);
                }
                base + length
            }
            Some(AddressContent::Reserved) => return Err(Error::ILLEGAL_ADDRESS),
            None => match locate(at) {
                AddressKind::Device { base, size, .. } | AddressKind::Managed { base, size, .. }
                    if base + size >= end =>
                {
                    end
                }
                AddressKind::Nothing => return Err(Error::ILLEGAL_ADDRESS),
                _ => return Err(Error::INVALID_VALUE),
            },
        };
        at = next;
    }
    Ok(())
}
