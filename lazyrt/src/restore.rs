//! Physical for extents that have none, and from the host to it the bytes of those that were swapped out: one
//! extent is mapped while the copies of those before it are under way.

use mgb_core::driver::Driver;
use mgb_core::host_bytes::{self, HostBytes};
use mgb_core::memory::{Failure, Physical};
use mgb_core::staged_copy::{Piece, Pieces};
use mgb_core::swaps::{Spent, Watch};
use mgb_core::transfer::Copies;

use crate::code::Code;
use crate::state::{Backing, Part};
use crate::{device, driver_start, margin, session};

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
    parts: &mut [Part],
    gpu: u32,
    ordinal: i32,
    watch: Option<&mut Watch>,
) -> (u64, Result<(), Failed>) {
    let Ok(driver) = driver_start::get() else {
        return (0, Err(Failed::Copy(Code::INITIALIZATION)));
    };
    let in_host = |part: &Part| match &part.backing {
        Backing::Host(bytes) => bytes.len() as u64,
        _ => 0,
    };
    let bytes: u64 = parts.iter().map(in_host).sum();
    let _relaxed = device::RelaxedCapture::begin();
    let mut coming = Coming {
        driver,
        gpu,
        ordinal,
        parts,
        next: 0,
        begun: Vec::new(),
        gone: Vec::new(),
        came: 0,
        failed: Ok(()),
        watch: None,
    };
    let mut copied = Ok(());
    if let Some(watch) = watch {
        match Copies::begin(driver, bytes, watch) {
            Ok(copies) => {
                coming.watch = Some(watch);
                copied = copies.back(&mut coming);
                coming.book(Spent::Copy);
            }
            Err(code) => return (0, Err(Failed::Copy(code))),
        }
    } else {
        // None of them has bytes to copy.
        while coming.next().is_some() {}
    }
    coming.end(copied)
}

/// Extents that get memory, and those of them that get their bytes back.
struct Coming<'a> {
    driver: &'static Driver,
    gpu: u32,
    ordinal: i32,
    parts: &'a mut [Part],
    /// The first that has not begun.
    next: usize,
    /// Those whose bytes are on their way: which, and the new memory; `None` once they are there.
    begun: Vec<(usize, Option<Physical>)>,
    /// Host memory that is not needed any more.
    gone: Vec<HostBytes>,
    came: u64,
    failed: Result<(), Failed>,
    /// There is one where bytes come back.
    watch: Option<&'a mut Watch>,
}

impl Coming<'_> {
    fn book(&mut self, spent: Spent) {
        if let Some(watch) = &mut self.watch {
            watch.book(spent);
        }
    }

    /// Physical of the GPU for an extent, which keeps what it has.
    fn memory(&mut self, at: usize) -> Result<Physical, Failure> {
        let part = &mut self.parts[at];
        let range = part.range();
        match std::mem::replace(&mut part.backing, Backing::None) {
            Backing::Spare(there, memory) if there == self.gpu => return Ok(memory),
            Backing::Spare(_, memory) => margin::release(self.driver, range, memory)?,
            before => part.backing = before,
        }
        margin::back(self.driver, range, self.gpu, self.ordinal)
    }

    /// The extent has the memory, and its bytes are in it.
    fn settle(&mut self, at: usize, memory: Physical) {
        let part = &mut self.parts[at];
        session::mapped(self.gpu, part.length);
        if let Backing::Host(bytes) = std::mem::replace(&mut part.backing, Backing::Device(memory)) {
            self.came += part.length;
            self.gone.push(bytes);
        }
    }

    /// What came back, and what failed first. Bytes that did not come back stay in the host.
    fn end(mut self, copied: Result<(), Code>) -> (u64, Result<(), Failed>) {
        for (at, memory) in std::mem::take(&mut self.begun) {
            if let Some(memory) = memory {
                let part = &self.parts[at];
                let _ = margin::release(self.driver, part.range(), memory);
            }
        }
        host_bytes::free(std::mem::take(&mut self.gone));
        self.book(Spent::Host);
        let copied = copied.map_err(Failed::Copy);
        (self.came, self.failed.and(copied))
    }
}

// SAFETY: the task is moving and its extents are taken out of the state, so nobody uses the new device
// memory, nor the host memory, which is kept until its bytes are copied.
unsafe impl Pieces for Coming<'_> {
    fn next(&mut self) -> Option<Piece> {
        self.book(Spent::Copy);
        let mut piece = None;
        while self.failed.is_ok() && self.next < self.parts.len() && piece.is_none() {
            let at = self.next;
            self.next += 1;
            match self.memory(at) {
                Err(failure) => self.failed = Err(Failed::Memory(failure)),
                Ok(memory) => match &mut self.parts[at] {
                    Part {
                        backing: Backing::Host(bytes),
                        address,
                        ..
                    } => {
                        piece = Some(Piece {
                            device: *address,
                            host: bytes.as_mut_ptr(),
                            bytes: bytes.len(),
                        });
                        self.begun.push((at, Some(memory)));
                    }
                    _ => self.settle(at, memory),
                },
            }
        }
        self.book(Spent::Map);
        piece
    }

    fn done(&mut self, index: usize) {
        let (at, memory) = &mut self.begun[index];
        let at = *at;
        if let Some(memory) = memory.take() {
            self.settle(at, memory);
        }
    }
}
