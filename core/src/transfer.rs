//! Copies between a GPU and host memory by the driver's calls, for a swap: many bytes through a [`Pump`], few
//! directly.
//!
//! To pin memory takes the driver tens of milliseconds. So a context whose memory has left once keeps its
//! pump, for the process's lifetime: memory that left comes back, and what was idle once will be again.

use std::ffi::{CStr, c_int, c_uint, c_void};

use parking_lot::Mutex;

use crate::staged_copy::{Link, Piece, Pieces, Pump, Ring, SLOT, SLOTS};
use crate::swaps::{Spent, Watch};

/// Fewer bytes are copied directly where there is no pump yet,
const MAX_DIRECT_BYTES: u64 = 128 << 20;
/// and where there is one.
const MAX_DIRECT_BESIDE_RING: u64 = 4 * SLOT as u64;
/// CUDA's `CUDA_SUCCESS`.
const SUCCESS: c_int = 0;
/// CUDA's `CU_STREAM_NON_BLOCKING`: waits for no stream of the program's.
const NON_BLOCKING: c_uint = 1;
/// CUDA's `CU_MEMHOSTALLOC_PORTABLE`.
const PORTABLE: c_uint = 1;
/// CUDA's `CU_STREAM_CAPTURE_MODE_RELAXED`: a capture elsewhere forbids this thread nothing.
const RELAXED: c_uint = 2;

type ContextId = unsafe extern "C" fn(usize, *mut u64) -> c_int;

macro_rules! calls {
    ($($field:ident = $name:literal: fn($($ty:ty),*);)*) => {
        /// The driver's functions, as its header has them; streams are handles.
        #[derive(Clone, Copy)]
        pub struct Calls {
            $($field: unsafe extern "C" fn($($ty),*) -> c_int,)*
            /// Missing in drivers before CUDA 12.
            context_id: Option<ContextId>,
        }

        impl Calls {
            /// Finds them by their names. The error is the name of one that `find` has no address of.
            ///
            /// # Safety
            /// What `find` answers is null, or the driver's function of that name.
            pub unsafe fn find(find: impl Fn(&CStr) -> *const c_void) -> Result<Calls, &'static CStr> {
                Ok(Calls { $($field: {
                    let found = find($name);
                    if found.is_null() {
                        return Err($name);
                    }
                    type Function = unsafe extern "C" fn($($ty),*) -> c_int;
                    // SAFETY: the driver's function (the caller's promise), which has this type.
                    unsafe { std::mem::transmute::<*const c_void, Function>(found) }
                },)*
                    // SAFETY: as above, or null, which is none.
                    context_id: unsafe {
                        std::mem::transmute::<*const c_void, Option<ContextId>>(find(c"cuCtxGetId"))
                    },
                })
            }
        }
    };
}

calls! {
    copy_out = c"cuMemcpyDtoHAsync_v2": fn(*mut u8, u64, usize, usize);
    copy_back = c"cuMemcpyHtoDAsync_v2": fn(u64, *const u8, usize, usize);
    current = c"cuCtxGetCurrent": fn(*mut usize);
    set_current = c"cuCtxSetCurrent": fn(usize);
    capture_mode = c"cuThreadExchangeStreamCaptureMode": fn(*mut c_uint);
    create = c"cuStreamCreate": fn(*mut usize, c_uint);
    destroy = c"cuStreamDestroy_v2": fn(usize);
    wait = c"cuStreamSynchronize": fn(usize);
    pin = c"cuMemHostAlloc": fn(*mut *mut c_void, usize, c_uint);
    unpin = c"cuMemFreeHost": fn(*mut c_void);
}

impl Calls {
    /// The number of this thread's context, which no other context of the process ever has.
    fn context(&self) -> Option<u64> {
        let mut id = 0;
        // SAFETY: writes one number; 0 is the current context.
        let code = unsafe { self.context_id?(0, &mut id) };
        (code == SUCCESS).then_some(id)
    }
}

/// Streams of this process's own in a context.
struct Streams {
    calls: Calls,
    context: usize,
    streams: Vec<usize>,
}

impl Streams {
    fn new(calls: Calls, count: usize) -> Result<Streams, c_int> {
        let mut context = 0;
        // SAFETY: writes one handle.
        done(unsafe { (calls.current)(&mut context) })?;
        let mut own = Streams {
            calls,
            context,
            streams: Vec::new(),
        };
        for _ in 0..count {
            let mut stream = 0;
            // SAFETY: writes one handle.
            let code = unsafe { (calls.create)(&mut stream, NON_BLOCKING) };
            if code != SUCCESS {
                return Err(code);
            }
            own.streams.push(stream);
        }
        Ok(own)
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        for &stream in &self.streams {
            // SAFETY: made by `new`, and destroyed once.
            unsafe { (self.calls.destroy)(stream) };
        }
    }
}

fn done(code: c_int) -> Result<(), c_int> {
    if code == SUCCESS { Ok(()) } else { Err(code) }
}

impl Link for Streams {
    type Failure = c_int;

    fn enter(&self) -> Result<(), c_int> {
        // SAFETY: the context that the thread which copies is on, and so lives.
        done(unsafe { (self.calls.set_current)(self.context) })?;
        let mut mode = RELAXED;
        // SAFETY: reads and writes one number.
        done(unsafe { (self.calls.capture_mode)(&mut mode) })
    }

    fn begin_out(&self, slot: usize, to: *mut u8, from: u64, bytes: usize) -> Result<(), c_int> {
        // SAFETY: both ranges have so many bytes, which the caller leaves alone until the slot was waited
        // for.
        done(unsafe { (self.calls.copy_out)(to, from, bytes, self.streams[slot]) })
    }

    fn begin_back(&self, slot: usize, to: u64, from: *const u8, bytes: usize) -> Result<(), c_int> {
        // SAFETY: as above.
        done(unsafe { (self.calls.copy_back)(to, from, bytes, self.streams[slot]) })
    }

    fn wait(&self, slot: usize) -> Result<(), c_int> {
        // SAFETY: a stream that is there.
        done(unsafe { (self.calls.wait)(self.streams[slot]) })
    }
}

/// Pinned memory, freed at the end.
struct Pinned {
    calls: Calls,
    start: *mut c_void,
}

impl Pinned {
    fn new(calls: Calls) -> Option<Pinned> {
        let mut start = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        let code = unsafe { (calls.pin)(&mut start, SLOTS * SLOT, PORTABLE) };
        (code == SUCCESS && !start.is_null()).then_some(Pinned { calls, start })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and freed once.
        unsafe { (self.calls.unpin)(self.start) };
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
    fn get(calls: Calls, bytes: u64) -> Option<Pumped> {
        let context = calls.context();
        let mut idle = IDLE.lock();
        let of_context = |pumped: &Pumped| context.is_some() && pumped.context == context;
        if let Some(at) = idle.iter().position(of_context) {
            return (bytes >= MAX_DIRECT_BESIDE_RING).then(|| idle.swap_remove(at));
        }
        drop(idle);
        if bytes < MAX_DIRECT_BYTES {
            return None;
        }
        let pinned = Pinned::new(calls)?;
        let streams = Streams::new(calls, SLOTS).ok()?;
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
    pub fn begin(calls: Calls, bytes: u64, watch: &mut Watch) -> Result<Copies, c_int> {
        let way = match Pumped::get(calls, bytes) {
            Some(pumped) => Ok(Way::Pumped(pumped)),
            None => Streams::new(calls, 1).map(Way::Direct),
        };
        watch.pumped = matches!(way, Ok(Way::Pumped(_)));
        watch.book(Spent::Host);
        way.map(|way| Copies(Some(way)))
    }

    /// Copies device memory to the host. Nothing is under way afterwards.
    ///
    /// # Errors
    /// The driver's number; the bytes of pieces that are not done are where they were.
    pub fn out(&self, pieces: &mut dyn Pieces) -> Result<(), c_int> {
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
    pub fn back(&self, pieces: &mut dyn Pieces) -> Result<(), c_int> {
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
    begin: impl Fn(Piece) -> Result<(), c_int>,
) -> Result<(), c_int> {
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
