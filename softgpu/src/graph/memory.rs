//! Memory that belongs to graphs.

use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::device::spec::MAX_DEVICES;
use crate::device::{Gpu, node};
use crate::error::{Error, Result};
use crate::memory::{self, heap::Use};

/// Memory of an allocation node. Its address is the same at every launch, so it is kept as long as the node or an
/// executable copy of it is.
pub struct GraphMemory {
    /// The device.
    pub ordinal: usize,
    /// Its address.
    pub address: usize,
    /// Bytes asked for.
    pub size: usize,
}

/// Bytes now, and at most so far, by device.
static USED: Mutex<[(u64, u64); MAX_DEVICES]> = Mutex::new([(0, 0); MAX_DEVICES]);

/// What graphs have of a device's memory, and had at most.
pub fn used(ordinal: usize) -> (u64, u64) {
    USED.lock()[ordinal]
}

/// The most begins anew.
pub fn forget_high(ordinal: usize) {
    let used = &mut USED.lock()[ordinal];
    used.1 = used.0;
}

impl GraphMemory {
    /// Allocates.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no bytes, `OUT_OF_MEMORY`.
    pub fn new(gpu: &Gpu, size: usize) -> Result<Arc<GraphMemory>> {
        if size == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let address = memory::allocate(gpu, size, Use::Graph)?;
        let ordinal = gpu.ordinal;
        let used = &mut USED.lock()[ordinal];
        used.0 += size as u64;
        used.1 = used.1.max(used.0);
        Ok(Arc::new(GraphMemory {
            ordinal,
            address,
            size,
        }))
    }

    /// Its address, as programs have it.
    pub fn pointer(&self) -> *mut c_void {
        self.address as *mut c_void
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        USED.lock()[self.ordinal].0 -= self.size as u64;
        let Ok(node) = node() else { return };
        // After a reset there is nothing left to free.
        if let Ok(gpu) = node.gpu(self.ordinal as i32) {
            gpu.streams.finish();
            let _ = memory::take_back(self.address);
        }
    }
}
