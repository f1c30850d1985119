//! Copies between a device and pinned memory of the host.

use std::ffi::c_void;

use mgb_abi::error::Code;

use super::table::{Driver, Stream, call, written};

/// CUDA's `CU_MEMHOSTALLOC_PORTABLE`: pinned for all contexts.
const PORTABLE: u32 = 1;

impl Driver {
    /// The number of this thread's context, which no other context of the process ever has. Drivers before
    /// CUDA 12 have none.
    pub fn context_id(&self) -> Option<u64> {
        let mut id = 0;
        let code = call!(self.cuCtxGetId(0, &mut id));
        written(id, code).ok()
    }

    /// Begins a copy from a device to the host, in the stream.
    ///
    /// # Safety
    /// Both ranges have so many bytes and nobody else uses them until the stream was waited for.
    pub unsafe fn begin_copy_to_host(&self, to: *mut u8, from: u64, bytes: usize, stream: Stream) -> Code {
        call!(self.cuMemcpyDtoHAsync_v2(to, from, bytes, stream))
    }

    /// Begins a copy from the host to a device, in the stream.
    ///
    /// # Safety
    /// As of [`Driver::begin_copy_to_host`].
    pub unsafe fn begin_copy_to_device(
        &self,
        to: u64,
        from: *const u8,
        bytes: usize,
        stream: Stream,
    ) -> Code {
        call!(self.cuMemcpyHtoDAsync_v2(to, from, bytes, stream))
    }

    /// Waits for a stream's work.
    pub fn wait(&self, stream: Stream) -> Code {
        call!(self.cuStreamSynchronize(stream))
    }

    /// Pinned memory of the host, for all contexts.
    ///
    /// # Errors
    /// The driver's.
    pub fn pin(&self, bytes: usize) -> Result<*mut c_void, Code> {
        let mut start = std::ptr::null_mut();
        let code = call!(self.cuMemHostAlloc(&mut start, bytes, PORTABLE));
        written(start, code)
    }

    /// Frees pinned memory.
    ///
    /// # Safety
    /// [`Driver::pin`] made it, and nobody uses it.
    pub unsafe fn unpin(&self, start: *mut c_void) -> Code {
        call!(self.cuMemFreeHost(start))
    }
}
