//! Memory that the driver hands out in the order of streams: pools, and graphs.

use std::ffi::c_int;

use mgb_abi::error::Code;

use super::table::{Driver, Stream, call, written};

impl Driver {
    /// A number of bytes that a pool knows of itself.
    pub fn pool_attribute(&self, pool: usize, attribute: u32) -> Result<u64, Code> {
        let mut value = 0;
        let code = call!(self.cuMemPoolGetAttribute(pool, attribute, &mut value));
        written(value, code)
    }

    /// A number of bytes that the driver knows of the memory of graphs on a device.
    pub fn graph_attribute(&self, device: c_int, attribute: u32) -> Option<u64> {
        let mut value = 0;
        let code = call!(self.cuDeviceGetGraphMemAttribute(device, attribute, &mut value));
        written(value, code).ok()
    }

    /// Has a pool free what it keeps unused.
    pub fn trim_pool(&self, pool: usize) -> Code {
        call!(self.cuMemPoolTrimTo(pool, 0))
    }

    /// Has graphs free what they keep unused on a device.
    pub fn trim_graphs(&self, device: c_int) -> Code {
        call!(self.cuDeviceGraphMemTrim(device))
    }

    /// The pool that allocations on the device come from.
    pub fn pool_of(&self, device: c_int) -> Option<usize> {
        let mut pool = 0;
        let code = call!(self.cuDeviceGetMemPool(&mut pool, device));
        written(pool, code).ok()
    }

    /// The pool that a device's allocations come from unless another one is chosen.
    pub fn default_pool_of(&self, device: c_int) -> Option<usize> {
        let mut pool = 0;
        let code = call!(self.cuDeviceGetDefaultMemPool(&mut pool, device));
        written(pool, code).ok()
    }

    /// Chooses the pool that allocations on the device come from.
    pub fn set_pool(&self, device: c_int, pool: usize) -> Code {
        call!(self.cuDeviceSetMemPool(device, pool))
    }

    /// Ends a pool.
    pub fn destroy_pool(&self, pool: usize) -> Code {
        call!(self.cuMemPoolDestroy(pool))
    }

    /// Frees memory of a pool in the stream.
    ///
    /// # Safety
    /// It was allocated in stream order, and nothing uses it.
    pub unsafe fn free_in(&self, address: u64, stream: Stream) -> Code {
        call!(self.cuMemFreeAsync(address, stream))
    }
}
