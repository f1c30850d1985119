//! Copies between a GPU and host memory by the driver's calls, for a swap: many bytes through a [`Pump`], few
//! directly.

use std::ffi::{CStr, c_int, c_uint, c_void};

use crate::pump::{Link, Pump, Ring, SLOT, SLOTS};

/// Fewer bytes are copied directly: pinned memory takes tens of milliseconds to get.
const MANY: u64 = 128 << 20;
/// CUDA's `CUDA_SUCCESS`.
const SUCCESS: c_int = 0;
/// CUDA's `CU_STREAM_NON_BLOCKING`: waits for no stream of the program's.
const NON_BLOCKING: c_uint = 1;
/// CUDA's `CU_MEMHOSTALLOC_PORTABLE`.
const PORTABLE: c_uint = 1;

macro_rules! calls {
    ($($field:ident = $name:literal: fn($($ty:ty),*);)*) => {
        /// The driver's functions, as its header has them; streams are handles.
        #[derive(Clone, Copy)]
        pub struct Calls {
            $($field: unsafe extern "C" fn($($ty),*) -> c_int,)*
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
                },)* })
            }
        }
    };
}

calls! {
    copy_out = c"cuMemcpyDtoHAsync_v2": fn(*mut u8, u64, usize, usize);
    copy_back = c"cuMemcpyHtoDAsync_v2": fn(u64, *const u8, usize, usize);
    create = c"cuStreamCreate": fn(*mut usize, c_uint);
    destroy = c"cuStreamDestroy_v2": fn(usize);
    wait = c"cuStreamSynchronize": fn(usize);
    pin = c"cuMemHostAlloc": fn(*mut *mut c_void, usize, c_uint);
    unpin = c"cuMemFreeHost": fn(*mut c_void);
}

/// Streams of this process's own in a context.
struct Streams {
    calls: Calls,
    streams: Vec<usize>,
}

impl Streams {
    fn new(calls: Calls, count: usize) -> Result<Streams, c_int> {
        let mut own = Streams {
            calls,
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

    fn begin_out(&self, slot: usize, to: *mut u8, from: u64, bytes: usize) -> Result<(), c_int> {
        // SAFETY: both ranges have so many bytes, which the caller leaves alone until the slot was waited for.
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

/// Copies of one thread, on its current context, which is to stay current while this lives.
pub struct Copies(Way);

enum Way {
    /// Dropped in this order: nothing uses the memory once the pump is gone.
    Pumped {
        pump: Pump<Streams>,
        _pinned: Pinned,
    },
    Direct(Streams),
}

impl Copies {
    /// Prepares for so many bytes in all.
    ///
    /// # Errors
    /// The driver's number: there is no stream to copy in.
    pub fn begin(calls: Calls, bytes: u64) -> Result<Copies, c_int> {
        if bytes >= MANY
            && let Some(pinned) = Pinned::new(calls)
            && let Ok(streams) = Streams::new(calls, SLOTS)
        {
            // SAFETY: so much pinned memory, of which this is the only use, and which outlives the pump.
            let ring = unsafe { Ring::new(pinned.start.cast()) };
            if let Some(pump) = Pump::new(streams, ring) {
                return Ok(Copies(Way::Pumped {
                    pump,
                    _pinned: pinned,
                }));
            }
        }
        Streams::new(calls, 1).map(|streams| Copies(Way::Direct(streams)))
    }

    /// Copies device memory to the host.
    ///
    /// # Errors
    /// The driver's number.
    pub fn out(&self, to: &mut [u8], from: u64) -> Result<(), c_int> {
        match &self.0 {
            Way::Pumped { pump, .. } => pump.out(to, from),
            Way::Direct(streams) => {
                let given = streams.begin_out(0, to.as_mut_ptr(), from, to.len());
                // What was given is done even where the call failed.
                let done = streams.wait(0);
                given.and(done)
            }
        }
    }

    /// Copies host memory to the device.
    ///
    /// # Errors
    /// The driver's number.
    pub fn back(&self, to: u64, from: &[u8]) -> Result<(), c_int> {
        match &self.0 {
            Way::Pumped { pump, .. } => pump.back(to, from),
            Way::Direct(streams) => {
                let given = streams.begin_back(0, to, from.as_ptr(), from.len());
                let done = streams.wait(0);
                given.and(done)
            }
        }
    }
}
