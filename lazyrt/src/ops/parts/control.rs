//! Control blocks, in a GPU's own memory: what a twin reads, and counts its tickets in.
//!
//! In pinned memory of the host they would be seen by every GPU, but each worker looks at them once a ticket,
//! and a GPU reads host memory a word in a microsecond, one after the other.

use std::ffi::c_void;
use std::time::Duration;

use mgb_abi::launch::Dim3;
use mgb_probe::wire::MAX_GPUS;
use parking_lot::Mutex;

use crate::code::Code;
use crate::contexts;
use crate::device;
use crate::in_flight::EndEvent;
use crate::native::{self, Stream};
use crate::ops::errors;
use crate::ops::parts::gone;

/// `cudaMemcpyHostToDevice`, `cudaMemcpyDeviceToHost`.
const TO_DEVICE: u32 = 1;
const TO_HOST: u32 = 2;

/// How many launches of a GPU may be in flight in parts at once: to stop one takes some microseconds of the
/// host's. `pass/src/device/parts/gone.rs` counts on it.
const BLOCKS: usize = 64;

/// The upper half of the next ticket that stops a launch. The lower one goes on counting, also what is drawn
/// in vain.
static STOP: u32 = 1 << 30;
/// How many blocks a launch in parts may have: with the tickets that workers draw in vain they fit the lower
/// half.
pub const MOST_BLOCKS: u64 = 1 << 31;

/// A control block: the table in `pass/src/device/parts/tickets.rs`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct ControlWords {
    next: u32,
    stop: u32,
    total: u64,
    grid: [u32; 3],
    each: u32,
    vain: u32,
    first: u32,
    all: u64,
    gone: u64,
    _rest: u64,
}

const _: () = assert!(size_of::<ControlWords>() == 64 && cfg!(target_endian = "little"));

/// The control blocks of a GPU.
struct Blocks {
    /// Their memory's address, and those that nobody has.
    start: u64,
    free: Vec<usize>,
    /// The events of those that were used: before their launches, and behind them.
    events: [Option<[EndEvent; 2]>; BLOCKS],
    /// Which memory it is: after a reset of the device there is another.
    generation: u64,
    /// The word that says that the process is gone, as the GPU reaches it; 0: it does not.
    gone: u64,
}

static GPUS: Mutex<[Option<Blocks>; MAX_GPUS]> = Mutex::new([const { None }; MAX_GPUS]);
static GENERATIONS: Mutex<u64> = Mutex::new(0);

/// The GPU's contexts are gone, and all their memory.
pub fn forget(gpu: u32) {
    GPUS.lock()[gpu as usize % MAX_GPUS] = None;
}

/// A control block of a launch on a GPU, which is current while it is used.
pub struct ControlBlock {
    gpu: u32,
    address: u64,
    at: usize,
    generation: u64,
    all: u64,
    gone: u64,
    events: [EndEvent; 2],
    /// One that waits for no other.
    stream: Stream,
}

// SAFETY: addresses and handles, which the runtime takes on any thread.
unsafe impl Send for ControlBlock {}

impl ControlBlock {
    /// One that no other launch has; none if the GPU has no memory for it, or all are taken. Whatever it
    /// takes to stop the launch is there before it begins.
    pub fn take(gpu: u32) -> Option<Self> {
        let stream = errors::untold(|| device::own_stream(gpu).ok())?;
        let mut gpus = GPUS.lock();
        let blocks = &mut gpus[gpu as usize % MAX_GPUS];
        if blocks.is_none() {
            let mut start = std::ptr::null_mut();
            let bytes = BLOCKS * size_of::<ControlWords>();
            // SAFETY: it writes one pointer.
            let code = errors::untold(|| unsafe { native::cudaMalloc(&mut start, bytes) });
            if !code.is_success() {
                return None;
            }
            let mut generation = GENERATIONS.lock();
            *generation += 1;
            *blocks = Some(Blocks {
                start: start as u64,
                free: (0..BLOCKS).collect(),
                events: [None; BLOCKS],
                generation: *generation,
                gone: errors::untold(gone::address).unwrap_or(0),
            });
        }
        let blocks = blocks.as_mut()?;
        let at = *blocks.free.last()?;
        let events = match blocks.events[at] {
            Some(known) => known,
            None => errors::untold(|| Some([new_event()?, new_event()?]))?,
        };
        blocks.events[at] = Some(events);
        blocks.free.pop();
        Some(Self {
            gpu,
            address: blocks.start + (at * size_of::<ControlWords>()) as u64,
            at,
            generation: blocks.generation,
            all: blocks.start,
            gone: blocks.gone,
            events,
            stream,
        })
    }

    /// What the twin takes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Passes as the launch ends, once it is recorded.
    pub fn end(&self) -> EndEvent {
        self.events[1]
    }

    /// Records the begin of the launch, which comes next in its stream.
    pub fn record_begin(&self, stream: Stream) -> Code {
        // SAFETY: this block's event.
        unsafe { native::cudaEventRecord(self.events[0].0, stream) }
    }

    /// Records the end of the launch, as the last in its stream.
    pub fn record_end(&self, stream: Stream) -> Code {
        // SAFETY: this block's event.
        unsafe { native::cudaEventRecord(self.events[1].0, stream) }
    }

    /// The time from its begin to its end, if both were recorded and have passed.
    pub fn took(&self) -> Option<Duration> {
        let mut milliseconds = 0.0_f32;
        let [begin, end] = self.events;
        // SAFETY: it writes one number; this block's events.
        let code =
            errors::untold(|| unsafe { native::cudaEventElapsedTime(&mut milliseconds, begin.0, end.0) });
        let seconds = Some(milliseconds / 1000.0).filter(|_| code.is_success())?;
        Duration::try_from_secs_f32(seconds).ok()
    }

    /// Has the next launch begin with this block, by tickets for so many blocks each. Filled beside the
    /// program's streams: a stop before the launch begins is not to be written over.
    pub fn fill(&self, next: u32, grid: Dim3, each: u32) -> Code {
        let words = ControlWords {
            next,
            total: grid.product(),
            grid: grid.array(),
            each,
            first: next,
            all: self.all,
            gone: self.gone,
            ..ControlWords::default()
        };
        let from = (&raw const words).cast();
        let to = self.address as *mut c_void;
        // SAFETY: this block's memory; the stream is waited for before the words are gone.
        let code =
            unsafe { native::cudaMemcpyAsync(to, from, size_of::<ControlWords>(), TO_DEVICE, self.stream) };
        if code.is_success() { self.wait() } else { code }
    }

    /// Has workers find no further ticket, unless it fails. Returns before they do; on one GPU in order.
    pub fn stop(&self) {
        let to = (self.address + std::mem::offset_of!(ControlWords, stop) as u64) as *mut c_void;
        let from = (&raw const STOP).cast();
        // SAFETY: as above.
        unsafe { native::cudaMemcpyAsync(to, from, size_of::<u32>(), TO_DEVICE, self.stream) };
        if contexts::on_several() {
            self.wait();
        }
    }

    /// The first block that no worker has taken, once the launch is over. While it runs a little less or
    /// more.
    pub fn next(&self) -> Result<u32, Code> {
        let mut words = ControlWords::default();
        let from = self.address as *const c_void;
        let to = (&raw mut words).cast();
        // SAFETY: as above; the stream is waited for before the words are looked at.
        let begun =
            unsafe { native::cudaMemcpyAsync(to, from, size_of::<ControlWords>(), TO_HOST, self.stream) };
        let code = if begun.is_success() { self.wait() } else { begun };
        if code.is_success() {
            Ok(words.next.wrapping_sub(words.vain))
        } else {
            Err(code)
        }
    }

    fn wait(&self) -> Code {
        // SAFETY: lazyrt's own stream.
        unsafe { native::cudaStreamSynchronize(self.stream) }
    }
}

/// An event of the current GPU.
fn new_event() -> Option<EndEvent> {
    let mut event = std::ptr::null_mut();
    // SAFETY: it writes one handle.
    let code = unsafe { native::cudaEventCreateWithFlags(&mut event, 0) };
    code.is_success().then_some(EndEvent(event))
}

impl Drop for ControlBlock {
    fn drop(&mut self) {
        let mut gpus = GPUS.lock();
        if let Some(blocks) = &mut gpus[self.gpu as usize % MAX_GPUS]
            && blocks.generation == self.generation
        {
            blocks.free.push(self.at);
        }
    }
}
