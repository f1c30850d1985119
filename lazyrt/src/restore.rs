//! Memory for extents that have none, and from the host to it the bytes of those that were swapped out.

use mgb_core::driver::Driver;
use mgb_core::host_bytes::HostBytes;
use mgb_core::memory::{self, Failure, Physical, Range, Restore};
use mgb_core::swaps::Watch;
use mgb_core::transfer::Copies;
use mgb_probe::need::margin_bytes;

use crate::code::Code;
use crate::state::{Backing, TakenExtent};
use crate::{device, driver_start, session};

/// Why there is no memory behind an object.
#[derive(Debug)]
pub enum Failed {
    /// The driver did not give it.
    Memory(Failure),
    /// The bytes could not be copied into it. They are still in host memory.
    Copy(Code),
}

/// Puts memory behind them, as far as that is possible; the bytes that came back.
pub fn put_all(
    parts: &mut [TakenExtent],
    gpu: u32,
    ordinal: i32,
    watch: Option<&mut Watch>,
) -> (u64, Result<(), Failed>) {
    let Ok(driver) = driver_start::get() else {
        return (0, Err(Failed::Copy(Code::INITIALIZATION)));
    };
    let in_host = |part: &TakenExtent| match &part.backing {
        Backing::Host(bytes) => bytes.len() as u64,
        _ => 0,
    };
    let bytes: u64 = parts.iter().map(in_host).sum();
    let _relaxed = device::RelaxedCapture::begin();
    let mut extents = Extents {
        driver,
        gpu,
        ordinal,
        parts,
        next: 0,
        begun: Vec::new(),
        failed: Ok(()),
    };
    let (came, copied) = match watch {
        Some(watch) => match Copies::begin(driver, bytes, watch) {
            Ok(copies) => memory::restore(&copies, &mut extents, watch),
            Err(code) => return (0, Err(Failed::Copy(code))),
        },
        // None of them has bytes to copy.
        None => {
            while extents.next().is_some() {}
            (0, Ok(()))
        }
    };
    (came, extents.failed.and(copied.map_err(Failed::Copy)))
}

/// Extents that get memory, and those of them that get their bytes back.
struct Extents<'a> {
    driver: &'static Driver,
    gpu: u32,
    ordinal: i32,
    parts: &'a mut [TakenExtent],
    /// The first that has not begun.
    next: usize,
    /// Those whose bytes are on their way: which, and the new memory; `None` once that is settled.
    begun: Vec<(usize, Option<Physical>)>,
    failed: Result<(), Failed>,
}

impl Extents<'_> {
    /// Memory of the GPU for an extent, which keeps what it has.
    fn memory(&mut self, at: usize) -> Result<Physical, Failure> {
        let part = &mut self.parts[at];
        let range = part.range();
        match std::mem::replace(&mut part.backing, Backing::None) {
            Backing::Spare(there, memory) if there == self.gpu => return Ok(memory),
            Backing::Spare(_, memory) => memory::release_extent(self.driver, range, memory)?,
            before => part.backing = before,
        }
        let has_margin = session::gpu(self.gpu).is_some_and(|gpu| margin_bytes(gpu.usable_bytes) != 0);
        let create = |bytes| self.driver.create(self.ordinal, bytes, 0, false);
        memory::back_extent(self.driver, range, self.ordinal, has_margin, &create)
    }

    /// The extent has the memory, and what is to be in it.
    fn settle(&mut self, at: usize, memory: Physical) {
        self.parts[at].backing = Backing::Device(memory);
    }
}

// SAFETY: the task is moving and its extents are taken out of the state, so nobody uses the new memory.
unsafe impl Restore for Extents<'_> {
    fn next(&mut self) -> Option<(Range, HostBytes)> {
        while self.failed.is_ok() && self.next < self.parts.len() {
            let at = self.next;
            self.next += 1;
            match self.memory(at) {
                Err(failure) => self.failed = Err(Failed::Memory(failure)),
                Ok(memory) => {
                    let part = &mut self.parts[at];
                    // It counts from here on, not once the bytes are in it: to mgbd it would be memory that
                    // the process was not granted, for as long as the copies take.
                    session::mapped(self.gpu, part.length);
                    match std::mem::replace(&mut part.backing, Backing::Moving) {
                        Backing::Host(bytes) => {
                            let range = part.range();
                            self.begun.push((at, Some(memory)));
                            return Some((range, bytes));
                        }
                        _ => self.settle(at, memory),
                    }
                }
            }
        }
        None
    }

    fn done(&mut self, index: usize) {
        let (at, memory) = &mut self.begun[index];
        let at = *at;
        if let Some(memory) = memory.take() {
            self.settle(at, memory);
        }
    }

    fn failed(&mut self, index: usize, bytes: HostBytes) {
        let (at, memory) = &mut self.begun[index];
        let part = &mut self.parts[*at];
        part.backing = Backing::Host(bytes);
        if let Some(memory) = memory.take() {
            session::unmapping(self.gpu, part.length);
            let _ = memory::release_extent(self.driver, part.range(), memory);
        }
    }
}
