//! The margin: a granule of memory before the arena's first address, in no allocation, while there is memory
//! behind others.
//!
//! Natively the driver's own memory lies around a program's, and kernels that read a row before their first
//! array do so unharmed. What a process's context is charged includes it ([`margin_bytes`]).

use mgb_probe::need::{GRANULE, margin_bytes};
use parking_lot::Mutex;

use crate::driver::{Address, Driver, Failure, Memory};
use crate::session;

struct Margin {
    /// Where it begins; none before there is an arena, and for a program with guards.
    start: Option<Address>,
    memory: Option<Memory>,
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
                let _ = driver.lend(start, GRANULE, ordinal);
                self.gpus |= bit;
            } else if session::gpu(gpu).is_some_and(|gpu| margin_bytes(gpu.usable_bytes) != 0) {
                self.memory = driver.back(start, GRANULE, ordinal).ok();
                self.gpus |= bit;
            }
        }
    }
}

/// The reserved granule at `start` is for the margin.
pub fn place(start: Address) {
    MARGIN.lock().start = Some(start);
}

/// As [`Driver::back`], for an extent.
pub fn back(
    driver: &Driver,
    (address, length): (Address, u64),
    gpu: u32,
    ordinal: i32,
) -> Result<Memory, Failure> {
    let memory = driver.back(address, length, ordinal)?;
    let mut margin = MARGIN.lock();
    margin.extents += 1;
    margin.serve(driver, gpu, ordinal);
    Ok(memory)
}

/// Extents have memory of another GPU now.
pub fn follow(driver: &Driver, gpu: u32, ordinal: i32) {
    MARGIN.lock().serve(driver, gpu, ordinal);
}

/// As [`Driver::release`], for an extent that [`back`] put memory behind.
pub fn release(driver: &Driver, address: Address, length: u64, memory: Memory) -> Result<(), Failure> {
    let released = driver.release(address, length, memory);
    let mut margin = MARGIN.lock();
    margin.extents = margin.extents.saturating_sub(1);
    if margin.extents == 0 {
        margin.gpus = 0;
        if let (Some(start), Some(memory)) = (margin.start, margin.memory.take()) {
            // A context that is broken says so to whoever asks for something.
            let _ = driver.release(start, GRANULE, memory);
        }
    }
    released
}
