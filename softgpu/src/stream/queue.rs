//! A stream and the work in it, with the fences that other streams wait for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mgb_abi::launch::LaunchAttributeValue;
use mgb_abi::stream::STREAM_NON_BLOCKING;
use parking_lot::{Condvar, Mutex};

use super::capture::{CaptureSlot, Joined};
use crate::time::host;

/// Nanoseconds that a stream's thread may run ahead of the wall clock.
pub(super) const AHEAD: u64 = 1_000_000;

/// The greatest priority a stream can have; the least is 0.
pub const GREATEST_PRIORITY: i32 = -5;

/// A stream of a device.
pub struct DeviceStream {
    /// The ordinal of its device.
    pub ordinal: usize,
    /// Unique in the process.
    pub id: u64,
    /// `cudaStreamNonBlocking` or zero.
    pub flags: u32,
    /// As asked for.
    pub priority: i32,
    legacy: bool,
    part: CaptureSlot,
    attributes: Mutex<BTreeMap<u32, LaunchAttributeValue>>,
    pub(super) queue: Mutex<Queue>,
    /// Signalled when there is work for the thread, or it may end.
    pub(super) work: Condvar,
    /// Signalled when work is published as done.
    pub(super) done: Condvar,
}

/// The work of a stream.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) waiting: VecDeque<StreamOp>,
    pub(super) submitted: u64,
    pub(super) finished: u64,
    /// Work runs, in the thread or in a caller.
    pub(super) running: bool,
    /// The thread has been started.
    pub(super) served: bool,
    pub(super) closing: bool,
    /// The modelled end of the last work done.
    pub(super) horizon: u64,
    /// The modelled end of the last work submitted, once it is done.
    pub(super) last: Arc<AtomicU64>,
}

impl Queue {
    /// One more piece of work: its ticket.
    pub(super) fn next(&mut self) -> u64 {
        self.submitted += 1;
        self.last = Arc::default();
        self.submitted
    }
}

/// One piece of work.
pub(super) struct StreamOp {
    pub(super) ticket: u64,
    /// Its number among all streams' work, where that order matters.
    pub(super) number: Option<u64>,
    /// Its modelled end, once it is done.
    pub(super) end: Arc<AtomicU64>,
    pub(super) submitted_at: u64,
    pub(super) fences: Vec<Fence>,
    /// The host sees what it does, so the clock must have caught up before.
    pub(super) visible: bool,
    pub(super) run: Box<dyn FnOnce(&mut Turn) + Send>,
}

/// What work knows and says about device time.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The moment from which the device could have begun it.
    pub ready: u64,
    /// Its modelled end; `ready` unless the work says otherwise.
    pub end: u64,
    /// The stream's priority.
    pub priority: i32,
}

/// A position in a stream: all work up to a ticket.
#[derive(Clone)]
pub struct Fence {
    pub(super) stream: Arc<DeviceStream>,
    pub(super) ticket: u64,
    /// Its modelled end, once passed.
    pub(super) end: Arc<AtomicU64>,
}

/// The latest modelled end among fences that have passed.
pub(super) fn latest(fences: &[Fence]) -> u64 {
    let ends = fences.iter().map(|fence| fence.end.load(Ordering::Relaxed));
    ends.max().unwrap_or(0)
}

impl Fence {
    /// Whether the work is done.
    pub fn passed(&self) -> bool {
        self.stream.queue.lock().finished >= self.ticket
    }

    /// Whether the work is done, as the host asks.
    pub fn query(&self) -> bool {
        let passed = self.passed();
        if passed {
            host::waited(self.end.load(Ordering::Relaxed));
        }
        passed
    }

    /// Has the host wait until the work is done.
    pub fn host_wait(&self) {
        self.wait();
        host::waited(self.end.load(Ordering::Relaxed));
    }

    /// Waits until the work is done.
    pub fn wait(&self) {
        let mut queue = self.stream.queue.lock();
        while queue.finished < self.ticket {
            self.stream.done.wait(&mut queue);
        }
    }
}

/// Work that a caller has begun.
pub(super) struct Begun {
    pub(super) ticket: u64,
    pub(super) number: Option<u64>,
    pub(super) end: Arc<AtomicU64>,
}

/// The number of new work among all streams', where that order matters.
pub(super) fn number() -> Option<u64> {
    host::modelled().then(|| host::ORDER.number())
}

/// Does work in its order among all streams' work.
pub(super) fn in_order<T>(number: Option<u64>, work: impl FnOnce() -> T) -> T {
    match number {
        Some(number) => host::ORDER.run(number, work),
        None => work(),
    }
}

impl DeviceStream {
    pub(super) fn new(ordinal: usize, flags: u32, priority: i32, legacy: bool) -> Arc<DeviceStream> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(DeviceStream {
            ordinal,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            flags,
            priority,
            legacy,
            part: CaptureSlot::default(),
            attributes: Mutex::default(),
            queue: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
        })
    }

    /// Whether its work is kept in a graph instead of being done.
    pub fn captures(&self) -> bool {
        self.part.lock().is_some()
    }

    /// Its part in a capture.
    pub fn part(&self) -> &CaptureSlot {
        &self.part
    }

    /// It, as a capture knows it.
    pub fn joined(&self) -> Joined {
        Joined {
            ordinal: self.ordinal,
            blocking: self.flags & STREAM_NON_BLOCKING == 0,
            part: self.part.clone(),
        }
    }

    /// `cudaLaunchAttribute`s that were set.
    pub fn attributes(&self) -> &Mutex<BTreeMap<u32, LaunchAttributeValue>> {
        &self.attributes
    }

    /// Whether it is the device's legacy default stream.
    pub fn is_legacy(&self) -> bool {
        self.legacy
    }

    /// All work submitted so far.
    pub fn fence(self: &Arc<Self>) -> Fence {
        let queue = self.queue.lock();
        Fence {
            stream: self.clone(),
            ticket: queue.submitted,
            end: queue.last.clone(),
        }
    }

    /// The turn of work that may not begin before a moment.
    pub(super) fn turn(&self, not_before: u64) -> Turn {
        let ready = self.queue.lock().horizon.max(not_before);
        Turn {
            ready,
            end: ready,
            priority: self.priority,
        }
    }

    /// Takes no more work; what was submitted is still done.
    pub fn close(&self) {
        self.queue.lock().closing = true;
        self.work.notify_all();
    }

    /// Whether it was closed and its work is done.
    pub(super) fn ended(&self) -> bool {
        let queue = self.queue.lock();
        queue.closing && queue.finished == queue.submitted
    }
}
