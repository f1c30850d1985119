//! The streams of one device, and what waits for what among them.
//!
//! The legacy default stream waits for all blocking streams, and they for it. Streams made with
//! `cudaStreamNonBlocking` wait for no other stream. Each host thread has a default stream of its own, which
//! is a blocking one, for functions compiled with per-thread default streams.

use std::collections::HashMap;
use std::sync::Arc;

use mgb_abi::stream::STREAM_NON_BLOCKING;
use parking_lot::Mutex;

use super::handle;
use super::queue::{DeviceStream, Fence, Turn};
use crate::per_thread::PerThread;
use crate::time::{host, precedence};

static OWN: PerThread<ThreadStreams> = PerThread::new();

/// A host thread's own default streams, by device; they end with the thread.
#[derive(Default)]
struct ThreadStreams(HashMap<usize, Arc<DeviceStream>>);

impl Drop for ThreadStreams {
    fn drop(&mut self) {
        self.0.values().for_each(|stream| stream.close());
    }
}

/// A device's streams.
pub struct Streams {
    ordinal: usize,
    legacy: Arc<DeviceStream>,
    others: Mutex<Vec<Arc<DeviceStream>>>,
}

impl Streams {
    /// The streams of a device: the legacy default stream.
    pub fn new(ordinal: usize) -> Streams {
        Streams {
            ordinal,
            legacy: DeviceStream::new(ordinal, 0, 0, true),
            others: Mutex::default(),
        }
    }

    /// The legacy default stream.
    pub fn legacy(&self) -> &Arc<DeviceStream> {
        &self.legacy
    }

    /// The calling thread's own default stream.
    pub fn per_thread(&self) -> Arc<DeviceStream> {
        OWN.with(|own| {
            let stream = own
                .0
                .get(&self.ordinal)
                .filter(|stream| self.has(stream))
                .cloned();
            stream.unwrap_or_else(|| {
                let stream = self.create(0, 0);
                own.0.insert(self.ordinal, stream.clone());
                stream
            })
        })
    }

    /// A new stream.
    pub fn create(&self, flags: u32, priority: i32) -> Arc<DeviceStream> {
        let stream = DeviceStream::new(self.ordinal, flags, priority, false);
        precedence::note_stream(priority);
        let mut others = self.others.lock();
        // Streams that were closed stay until their work is done, since others may have to wait for it.
        others.retain(|other| !other.ended());
        others.push(stream.clone());
        stream
    }

    fn has(&self, stream: &Arc<DeviceStream>) -> bool {
        self.others.lock().iter().any(|other| Arc::ptr_eq(other, stream))
    }

    /// What the host waits for with `stream`: with the legacy stream for the blocking ones as well, which it
    /// would wait for.
    pub fn fences_of(&self, stream: &Arc<DeviceStream>) -> Vec<Fence> {
        let mut fences = match Arc::ptr_eq(stream, &self.legacy) {
            true => self.fences(stream),
            false => Vec::new(),
        };
        fences.push(stream.fence());
        fences
    }

    /// What new work on `stream` must wait for on others.
    pub fn fences(&self, stream: &Arc<DeviceStream>) -> Vec<Fence> {
        let mut fences = Vec::new();
        if Arc::ptr_eq(stream, &self.legacy) {
            let others = self.others.lock();
            fences.extend(
                others
                    .iter()
                    .filter(|other| other.flags & STREAM_NON_BLOCKING == 0)
                    .map(DeviceStream::fence),
            );
        } else if stream.flags & STREAM_NON_BLOCKING == 0 {
            fences.push(self.legacy.fence());
        }
        // Where the host's time is modelled, what has passed on the wall clock may still be ahead.
        fences.retain(|fence| host::modelled() || !fence.passed());
        fences
    }

    /// Submits work to `stream` in its order among the device's streams.
    pub fn submit(&self, stream: &Arc<DeviceStream>, run: impl FnOnce(&mut Turn) + Send + 'static) -> Fence {
        stream.submit(self.fences(stream), run)
    }

    /// Runs work on `stream` in its order among the device's streams, and waits for it.
    pub fn run<T: Send>(&self, stream: &Arc<DeviceStream>, run: impl FnOnce(&mut Turn) -> T + Send) -> T {
        stream.run(self.fences(stream), run)
    }

    /// Waits for all work of the device.
    pub fn finish(&self) {
        let others: Vec<Fence> = self.others.lock().iter().map(DeviceStream::fence).collect();
        others
            .iter()
            .chain([&self.legacy.fence()])
            .for_each(Fence::host_wait);
    }

    /// Whether all work of the device is done.
    pub fn idle(&self) -> bool {
        self.legacy.fence().query() && self.others.lock().iter().all(|stream| stream.fence().query())
    }

    /// Ends all streams but the legacy one, as when the context goes.
    pub fn clear(&self) {
        for stream in self.others.lock().drain(..) {
            handle::forget(&stream);
            stream.close();
        }
    }
}
