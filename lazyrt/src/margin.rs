//! The margin: a granule of memory before the arena's first address, in no allocation, while there is memory
//! behind others.
//!
//! Natively the driver's own memory lies around a program's, and kernels that read a row before their first
//! array do so unharmed. What a process's context is charged includes it ([`margin_bytes`]).

use mgb_core::driver::Driver;
use mgb_core::memory::{self, Failure, Physical, Range};
use mgb_probe::need::{GRANULE, margin_bytes};
use parking_lot::Mutex;

use crate::session;

struct Margin {
    /// Where it begins; none before there is an arena, and for a program with guards.
    start: Option<u64>,
    memory: Option<Physical>,
    /// A bit for each GPU that may use it.
    gpus: u64,
    /// Extents with memory.
    extents: usize,
}

static MARGIN: Mutex<Margin> = Mutex::new(Margin {
    start: None,
    memory: None,
    gpus: 0,
    extents: 0,
});

impl Margin {
    /// Lets the GPU use the margin.
    fn serve(&mut self, driver: &Driver, gpu: u32, ordinal: i32) {
        let bit = 1 << gpu;
        if let Some(start) = self.start.filter(|_| self.gpus & bit == 0) {
            if self.memory.is_some() {
                // GPUs without a path to each other cannot.
                let _ = memory::lend(driver, Range::new(start, GRANULE), ordinal);
                self.gpus |= bit;
            } else if session::gpu(gpu).is_some_and(|gpu| margin_bytes(gpu.usable_bytes) != 0) {
                self.memory = physical(driver, Range::new(start, GRANULE), ordinal).ok();
                self.gpus |= bit;
            }
        }
    }
}

/// Puts new memory of the device behind a range, for this process alone.
pub fn physical(driver: &Driver, range: Range, ordinal: i32) -> Result<Physical, Failure> {
    memory::back(driver, range, ordinal, || {
        driver.create(ordinal, range.bytes, 0, false)
    })
}

/// The reserved granule at `start` is for the margin.
pub fn place(start: u64) {
    MARGIN.lock().start = Some(start);
}

/// As [`physical`], for an extent.
pub fn back(driver: &Driver, range: Range, gpu: u32, ordinal: i32) -> Result<Physical, Failure> {
    let memory = physical(driver, range, ordinal)?;
    let mut margin = MARGIN.lock();
    margin.extents += 1;
    margin.serve(driver, gpu, ordinal);
    Ok(memory)
}

/// Extents have memory of another GPU now.
pub fn follow(driver: &Driver, gpu: u32, ordinal: i32) {
    MARGIN.lock().serve(driver, gpu, ordinal);
}

/// As [`memory::release`], for an extent that [`back`] put memory behind.
pub fn release(driver: &Driver, range: Range, memory: Physical) -> Result<(), Failure> {
    let released = memory::release(driver, range, memory);
    let mut margin = MARGIN.lock();
    margin.extents = margin.extents.saturating_sub(1);
    if margin.extents == 0 {
        margin.gpus = 0;
        if let (Some(start), Some(memory)) = (margin.start, margin.memory.take()) {
            // A context that is broken says so to whoever asks for something.
            let _ = memory::release(driver, Range::new(start, GRANULE), memory);
        }
    }
    released
}
