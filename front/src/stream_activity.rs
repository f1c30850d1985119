//! Whether work of the program is under way, which mgbd reads for the load of its GPUs, and if the program is
//! killed.
//!
//! A call that gives a GPU work marks its stream, with two plain stores. A thread of the front's own looks
//! from time to time whether the marked streams have finished. It closes the gate for that moment: no stream
//! can begin a capture then, which a question would end.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mgb_abi::stream::{STREAM_LEGACY, STREAM_PER_THREAD};
use mgb_core::{captures, gate, gpu_idle, work};
use parking_lot::Mutex;

use crate::calls::{Code, Context, Stream, driver};
use crate::native::own;
use crate::{fault, live_contexts, room, swap};

/// After so many looks without new work all of a GPU's work is waited for, where streams cannot be asked.
const MAX_IDLE_LOOKS: u32 = 40;
/// How long the gate may be closed before a look: threads that are about to give work wait meanwhile.
const GATE_TIMEOUT: Duration = Duration::from_micros(200);
/// How long all of a GPU's work is waited for at a time.
const QUIET_TIMEOUT: Duration = Duration::from_millis(2);
/// Streams that are told apart; what is given to more of them is waited for as a whole.
const MAX_STREAMS: usize = 64;

/// A stream that was given work.
struct StreamSlot {
    stream: AtomicUsize,
    context: AtomicUsize,
    gpu: AtomicU32,
    /// It may have work under way.
    marked: AtomicBool,
    taken: AtomicBool,
}

static SLOTS: [StreamSlot; MAX_STREAMS] = [const {
    StreamSlot {
        stream: AtomicUsize::new(0),
        context: AtomicUsize::new(0),
        gpu: AtomicU32::new(0),
        marked: AtomicBool::new(false),
        taken: AtomicBool::new(false),
    }
}; MAX_STREAMS];
/// Held while slots are taken, left or asked about.
static TABLE: Mutex<()> = Mutex::new(());
/// Rises when a slot is left: what threads remember of slots holds no more.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Whether the process is under MGB and has a context.
static ON: AtomicBool = AtomicBool::new(false);
/// A bit for each GPU that was given work which no slot stands for.
static UNASKABLE: AtomicUsize = AtomicUsize::new(0);

/// What a thread remembers: the stream that it used last, its context, and its slot.
#[derive(Clone, Copy)]
struct Last {
    stream: Stream,
    context: Context,
    generation: u32,
    slot: Option<&'static StreamSlot>,
}

thread_local! {
    static LAST: Cell<Last> = const {
        Cell::new(Last { stream: 0, context: 0, generation: 0, slot: None })
    };
}

/// From here on work is noted, in this process and not in its children.
pub fn turn_on() {
    // SAFETY: the handler is a function of this library, which stays loaded, and only stores an atomic.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    ON.store(true, Ordering::Release);
}

extern "C" fn after_fork() {
    ON.store(false, Ordering::Release);
}

/// The process is about to end: what it does now is published no more.
pub fn turn_off() {
    ON.store(false, Ordering::Release);
}

/// Work was handed to the stream: called after the call that did so. The GPU, if it is noted.
#[inline]
pub fn note(stream: Stream) -> Option<u32> {
    if ON.load(Ordering::Relaxed) {
        mark(stream)
    } else {
        None
    }
}

fn mark(stream: Stream) -> Option<u32> {
    let stream = if stream == STREAM_LEGACY { 0 } else { stream };
    // With contexts on one device only, one context is as good as another.
    let context = if live_contexts::is_on_several() {
        driver().context()
    } else {
        0
    };
    let generation = GENERATION.load(Ordering::Acquire);
    let last = LAST.get();
    let slot = match last.slot {
        Some(slot) if last.stream == stream && last.context == context && last.generation == generation => {
            Some(slot)
        }
        _ => {
            let slot = find(stream);
            LAST.set(Last {
                stream,
                context,
                generation,
                slot,
            });
            slot
        }
    };
    let gpu = match slot {
        Some(slot) => {
            if !slot.marked.load(Ordering::Relaxed) {
                slot.marked.store(true, Ordering::Release);
            }
            Some(slot.gpu.load(Ordering::Relaxed))
        }
        None => current_gpu().inspect(|gpu| {
            UNASKABLE.fetch_or(1 << gpu, Ordering::AcqRel);
        }),
    };
    if let Some(gpu) = gpu {
        work::note(gpu);
    }
    gpu
}

/// The GPU that the thread's next work is likely to go to. Where all contexts are on one device, by what the
/// thread remembers: to ask takes locks, and right behind a launch those cost a third of one.
pub fn likely_gpu() -> Option<u32> {
    let last = LAST.get();
    let is_known = !live_contexts::is_on_several() && last.generation == GENERATION.load(Ordering::Acquire);
    match last.slot.filter(|_| is_known) {
        Some(slot) => Some(slot.gpu.load(Ordering::Relaxed)),
        None => current_gpu(),
    }
}

/// The GPU of the current device.
pub fn current_gpu() -> Option<u32> {
    room::gpu(driver().device().ok()?)
}

/// The stream's slot; none for a stream that only its own thread can ask about, and if there is none left.
#[cold]
fn find(stream: Stream) -> Option<&'static StreamSlot> {
    if stream == STREAM_PER_THREAD {
        return None;
    }
    let (context, gpu) = (driver().context(), current_gpu()?);
    let _table = TABLE.lock();
    let is = |slot: &&StreamSlot| {
        slot.taken.load(Ordering::Relaxed)
            && slot.stream.load(Ordering::Relaxed) == stream
            && (stream != 0 || slot.context.load(Ordering::Relaxed) == context)
    };
    if let Some(slot) = SLOTS.iter().find(is) {
        return Some(slot);
    }
    let slot = SLOTS.iter().find(|slot| !slot.taken.load(Ordering::Relaxed))?;
    slot.stream.store(stream, Ordering::Relaxed);
    slot.context.store(context, Ordering::Relaxed);
    slot.gpu.store(gpu, Ordering::Relaxed);
    slot.marked.store(false, Ordering::Relaxed);
    slot.taken.store(true, Ordering::Release);
    Some(slot)
}

/// Slots of streams or of a context that are about to end are left. What they still have to do is waited for
/// as a whole.
fn leave(which: impl Fn(&StreamSlot) -> bool) {
    let _table = TABLE.lock();
    for slot in SLOTS
        .iter()
        .filter(|slot| slot.taken.load(Ordering::Relaxed) && which(slot))
    {
        if slot.marked.load(Ordering::Acquire) {
            UNASKABLE.fetch_or(1 << slot.gpu.load(Ordering::Relaxed), Ordering::AcqRel);
        }
        slot.taken.store(false, Ordering::Relaxed);
        GENERATION.fetch_add(1, Ordering::AcqRel);
    }
}

/// A context is gone.
pub fn forget(context: Context) {
    leave(|slot| slot.context.load(Ordering::Relaxed) == context);
}

/// How often in a row each GPU, by its bit, was found without new work and still busy.
#[derive(Default)]
pub struct Looks([u32; u32::BITS as usize]);

impl Looks {
    /// Looks at a device that may have work, unless it was given more since the last look.
    pub fn look(&mut self, device: c_int) {
        let Some(gpu) = room::gpu(device) else { return };
        let ticks = &mut self.0[gpu as usize % u32::BITS as usize];
        if work::take_new(gpu) {
            *ticks = 0;
        } else if work::is_busy(gpu) {
            *ticks += 1;
            if has_finished(gpu, device, *ticks) {
                *ticks = 0;
            }
        }
    }
}

/// Whether all that the GPU was given is done; if so that is published.
fn has_finished(gpu: u32, device: c_int, ticks: u32) -> bool {
    let wait = work::wait(gpu);
    {
        let Ok(_closed) = gate::close_within(GATE_TIMEOUT) else {
            return false;
        };
        let _table = TABLE.lock();
        if !have_finished(gpu) {
            return false;
        }
    }
    let bit = 1 << gpu;
    if UNASKABLE.load(Ordering::Acquire) & bit != 0 {
        let line = u32::try_from(device).unwrap_or(0);
        let settles = || {
            gpu_idle::wait(line, Instant::now() + QUIET_TIMEOUT, move || {
                swap::settle_beside(device)
            })
        };
        if ticks < MAX_IDLE_LOOKS || !settles() {
            return false;
        }
        UNASKABLE.fetch_and(!bit, Ordering::AcqRel);
    }
    wait.over();
    true
}

/// Asks the GPU's marked streams. The gate is closed, and the table locked.
fn have_finished(gpu: u32) -> bool {
    let marked = SLOTS.iter().filter(|slot| {
        slot.taken.load(Ordering::Acquire)
            && slot.gpu.load(Ordering::Relaxed) == gpu
            && slot.marked.load(Ordering::Acquire)
    });
    for slot in marked {
        let Ok(_entered) = driver().enter(slot.context.load(Ordering::Relaxed)) else {
            return false;
        };
        let stream = slot.stream.load(Ordering::Relaxed);
        // To ask the legacy stream is to ask for all that it waits for.
        if stream == 0 && captures::any() || driver().is_capturing(stream) {
            return false;
        }
        let _relaxed = driver().relax();
        match driver().query(stream) {
            Code::SUCCESS => slot.marked.store(false, Ordering::Release),
            // The work goes on, or the context is broken.
            code => {
                fault::note(code);
                return false;
            }
        }
    }
    true
}

own! {
    fn cuStreamDestroy(stream: Stream) |native| {
        leave(|slot| slot.stream.load(Ordering::Relaxed) == stream);
        captures::forget(stream);
        native(stream)
    }

    fn cuStreamDestroy_v2(stream: Stream) |native| {
        leave(|slot| slot.stream.load(Ordering::Relaxed) == stream);
        captures::forget(stream);
        native(stream)
    }
}
