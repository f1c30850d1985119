//! Copies between a GPU and host memory by the driver's calls, for a swap: many bytes through a [`Pump`], few
//! directly.
//!
//! To pin memory takes the driver tens of milliseconds. So a context whose memory has left once keeps its
//! pump, for the process's lifetime: memory that left comes back, and what was idle once will be again.

use std::ffi::c_void;

use parking_lot::Mutex;

use mgb_abi::error::Code;

use crate::driver::Driver;
use crate::staged_copy::{Link, Piece, Pieces, Pump, Ring, SLOT, SLOTS};
use crate::swaps::{Spent, Watch};

/// Fewer bytes are copied directly where there is no pump yet,
const MAX_DIRECT_BYTES: u64 = 128 << 20;
/// and where there is one.
const MAX_DIRECT_BESIDE_RING: u64 = 4 * SLOT as u64;
/// Streams of this process's own in a context.
struct Streams {
    driver: &'static Driver,
    context: usize,
    streams: Vec<usize>,
}

impl Streams {
    fn new(driver: &'static Driver, count: usize) -> Result<Streams, Code> {
        let mut own = Streams {
            driver,
            context: driver.context(),
            streams: Vec::new(),
        };
        for _ in 0..count {
            own.streams.push(driver.stream()?);
        }
        Ok(own)
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        for &stream in &self.streams {
            self.driver.end_stream(stream);
        }
    }
}

fn done(code: Code) -> Result<(), Code> {
    if code.is_success() { Ok(()) } else { Err(code) }
}

impl Link for Streams {
    type Failure = Code;

    fn enter(&self) -> Result<(), Code> {
        // The context that the thread which copies is on, and so lives.
        done(self.driver.set_current(self.context))?;
        done(self.driver.relax_for_good())
    }

    fn begin_out(&self, slot: usize, to: *mut u8, from: u64, bytes: usize) -> Result<(), Code> {
        // SAFETY: both ranges have so many bytes, which the caller leaves alone until the slot was waited
        // for.
        done(unsafe {
            self.driver
                .begin_copy_to_host(to, from, bytes, self.streams[slot])
        })
    }

    fn begin_back(&self, slot: usize, to: u64, from: *const u8, bytes: usize) -> Result<(), Code> {
        // SAFETY: as above.
        done(unsafe {
            self.driver
                .begin_copy_to_device(to, from, bytes, self.streams[slot])
        })
    }

    fn wait(&self, slot: usize) -> Result<(), Code> {
        done(self.driver.wait(self.streams[slot]))
    }
}

/// Pinned memory, freed at the end.
struct Pinned {
    driver: &'static Driver,
    start: *mut c_void,
}

impl Pinned {
    fn new(driver: &'static Driver) -> Option<Pinned> {
        let start = driver.pin(SLOTS * SLOT).ok().filter(|start| !start.is_null())?;
        Some(Pinned { driver, start })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and freed once.
        unsafe { self.driver.unpin(self.start) };
    }
}

// SAFETY: it is a place that one pump at a time uses, from whichever thread.
unsafe impl Send for Pinned {}

/// A pump of a context.
struct Pumped {
    /// Its number, if it has one.
    context: Option<u64>,
    /// Dropped in this order: nothing uses the memory once the pump is gone.
    pump: Pump<Streams>,
    _pinned: Pinned,
}

/// Pumps that nobody uses at the moment. The driver frees what one has with its context, whose number never
/// comes again; so none is ever dropped here.
static IDLE: Mutex<Vec<Pumped>> = Mutex::new(Vec::new());

impl Pumped {
    /// That of the context, or a new one if it is worth that.
    fn get(driver: &'static Driver, bytes: u64) -> Option<Pumped> {
        let context = driver.context_id();
        let mut idle = IDLE.lock();
        let of_context = |pumped: &Pumped| context.is_some() && pumped.context == context;
        if let Some(at) = idle.iter().position(of_context) {
            return (bytes >= MAX_DIRECT_BESIDE_RING).then(|| idle.swap_remove(at));
        }
        drop(idle);
        if bytes < MAX_DIRECT_BYTES {
            return None;
        }
        let pinned = Pinned::new(driver)?;
        let streams = Streams::new(driver, SLOTS).ok()?;
        // SAFETY: so much pinned memory, of which this is the only use, and which outlives the pump.
        let ring = unsafe { Ring::new(pinned.start.cast()) };
        Some(Pumped {
            context,
            pump: Pump::new(streams, ring),
            _pinned: pinned,
        })
    }
}

/// Copies of one thread, on its current context, which is to stay current while this lives.
pub struct Copies(Option<Way>);

enum Way {
    Pumped(Pumped),
    Direct(Streams),
}

impl Drop for Copies {
    fn drop(&mut self) {
        if let Some(Way::Pumped(pumped)) = self.0.take()
            && pumped.context.is_some()
        {
            IDLE.lock().push(pumped);
        }
    }
}

impl Copies {
    /// Prepares for so many bytes in all.
    ///
    /// # Errors
    /// The driver's number: there is no stream to copy in.
    pub fn begin(driver: &'static Driver, bytes: u64, watch: &mut Watch) -> Result<Copies, Code> {
        let way = match Pumped::get(driver, bytes) {
            Some(pumped) => Ok(Way::Pumped(pumped)),
            None => Streams::new(driver, 1).map(Way::Direct),
        };
        watch.pumped = matches!(way, Ok(Way::Pumped(_)));
        watch.book(Spent::Host);
        way.map(|way| Copies(Some(way)))
    }

    /// Copies device memory to the host. Nothing is under way afterwards.
    ///
    /// # Errors
    /// The driver's number; the bytes of pieces that are not done are where they were.
    pub fn out(&self, pieces: &mut dyn Pieces) -> Result<(), Code> {
        match &self.0 {
            Some(Way::Pumped(pumped)) => pumped.pump.out(pieces),
            Some(Way::Direct(streams)) => directly(streams, pieces, |Piece { device, host, bytes }| {
                streams.begin_out(0, host, device, bytes)
            }),
            None => Ok(()),
        }
    }

    /// Copies host memory to the device. Nothing is under way afterwards.
    ///
    /// # Errors
    /// The driver's number; the bytes of pieces that are not done are where they were.
    pub fn back(&self, pieces: &mut dyn Pieces) -> Result<(), Code> {
        match &self.0 {
            Some(Way::Pumped(pumped)) => pumped.pump.back(pieces),
            Some(Way::Direct(streams)) => directly(streams, pieces, |Piece { device, host, bytes }| {
                streams.begin_back(0, device, host, bytes)
            }),
            None => Ok(()),
        }
    }
}

/// Copies one piece after another.
fn directly(
    streams: &Streams,
    pieces: &mut dyn Pieces,
    begin: impl Fn(Piece) -> Result<(), Code>,
) -> Result<(), Code> {
    let mut index = 0;
    while let Some(piece) = pieces.next() {
        let given = begin(piece);
        // What was given is done even where the call failed.
        let done = streams.wait(0);
        given.and(done)?;
        pieces.done(index);
        index += 1;
    }
    Ok(())
}
