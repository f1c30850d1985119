//! From device memory to the host: the bytes of extents are copied, and their memory is freed.

use mgb_core::driver::Driver;
use mgb_core::host_bytes::HostBytes;
use mgb_core::memory::{self, Offload, Range};
use mgb_core::notice;
use mgb_core::swaps::Watch;
use mgb_core::transfer::Copies;

use crate::state::{Backing, TakenExtent};
use crate::{device, driver_start, session};

/// Brings the bytes of extents to the host, and frees their memory, as far as that is possible; the bytes
/// that left. The GPU is current on this thread and has no work with them.
pub fn save_all(parts: &mut [TakenExtent], gpu: u32, watch: &mut Watch) -> u64 {
    let Ok(driver) = driver_start::get() else {
        return 0;
    };
    let _relaxed = device::RelaxedCapture::begin();
    let bytes = parts.iter().map(|part| part.length).sum();
    let failed = |code| notice::once("swap", format_args!("failed to swap out ({code})"));
    let copies = match Copies::begin(driver, bytes, watch) {
        Ok(copies) => copies,
        Err(code) => {
            failed(code);
            return 0;
        }
    };
    let mut extents = Extents {
        driver,
        gpu,
        next: 0,
        parts,
    };
    let (left, copied) = memory::offload(&copies, &mut extents, notice::host_memory, watch);
    if let Err(code) = copied {
        failed(code);
    }
    left
}

/// Extents on their way.
struct Extents<'a> {
    driver: &'static Driver,
    gpu: u32,
    /// The first that has not begun.
    next: usize,
    parts: &'a mut [TakenExtent],
}

// SAFETY: the gate is closed and the GPU at rest, so nobody uses the device memory.
unsafe impl Offload for Extents<'_> {
    fn next(&mut self) -> Option<Range> {
        let range = self.parts.get(self.next)?.range();
        self.next += 1;
        Some(range)
    }

    fn done(&mut self, index: usize, bytes: HostBytes) {
        let part = &mut self.parts[index];
        session::unmapping(self.gpu, part.length);
        if let Backing::Device(memory) = std::mem::replace(&mut part.backing, Backing::Host(bytes))
            && let Err(failure) = memory::release_extent(self.driver, part.range(), memory)
        {
            notice::once("release", format_args!("failed to free device memory: {failure}"));
        }
    }
}
