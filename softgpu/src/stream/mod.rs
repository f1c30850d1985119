//! Streams: queues of work that runs in order, while the host goes on.
//!
//! Each stream has a thread of its own, started at the first work it cannot do in the caller. Work
//! that must wait for other streams carries fences: places in those streams. Fences only name work
//! that was submitted before, so they never form a ring.
//!
//! Work is done when its modelled end has passed. The thread may run ahead of the clock by up to
//! `AHEAD`, so that many short kernels cost one sleep and not one each; it publishes what it has
//! done only when the clock has caught up.

pub mod event;
pub mod handle;
pub mod set;
pub mod shared;
mod worker;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mgb_abi::launch::LaunchAttributeValue;
use parking_lot::{Condvar, Mutex};

use crate::graph::capture::Part;
use crate::time::{clock, host};

/// Nanoseconds that a stream's thread may run ahead of the wall clock.
const AHEAD: u64 = 1_000_000;

/// The greatest priority a stream can have; the least is 0.
pub const GREATEST_PRIORITY: i32 = -5;

/// One stream.
pub struct Stream {
    /// The ordinal of its device.
    pub ordinal: usize,
    /// Unique in the process.
    pub id: u64,
    /// `cudaStreamNonBlocking` or zero.
    pub flags: u32,
    /// As asked for.
    pub priority: i32,
    legacy: bool,
    part: Mutex<Option<Part>>,
    attributes: Mutex<BTreeMap<u32, LaunchAttributeValue>>,
    queue: Mutex<Queue>,
    /// Signalled when there is work for the thread, or it may end.
    work: Condvar,
    /// Signalled when work is published as done.
    done: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Op>,
    submitted: u64,
    finished: u64,
    /// Work runs, in the thread or in a caller.
    running: bool,
    /// The thread has been started.
    served: bool,
    closing: bool,
    /// The modelled end of the last work done.
    horizon: u64,
    /// The modelled end of the last work submitted, once it is done.
    last: Arc<AtomicU64>,
}

impl Queue {
    /// One more piece of work: its ticket.
    fn next(&mut self) -> u64 {
        self.submitted += 1;
        self.last = Arc::default();
        self.submitted
    }
}

/// One piece of work.
struct Op {
    ticket: u64,
    /// Its place among all streams' work, where that matters.
    number: Option<u64>,
    /// Its modelled end, once it is done.
    end: Arc<AtomicU64>,
    submitted_at: u64,
    fences: Vec<Fence>,
    /// The host sees what it does, so the clock must have caught up before.
    visible: bool,
    run: Box<dyn FnOnce(&mut Turn) + Send>,
}

/// What work knows and says about device time.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The moment from which the device could have begun it.
    pub ready: u64,
    /// Its modelled end; `ready` unless the work says otherwise.
    pub end: u64,
}

/// A place in a stream: all work up to a ticket.
#[derive(Clone)]
pub struct Fence {
    stream: Arc<Stream>,
    ticket: u64,
    /// Its modelled end, once passed.
    end: Arc<AtomicU64>,
}

/// The latest modelled end among fences that have passed.
fn latest(fences: &[Fence]) -> u64 {
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
struct Begun {
    ticket: u64,
    number: Option<u64>,
    end: Arc<AtomicU64>,
}

/// The place of new work among all streams', where that matters.
fn number() -> Option<u64> {
    host::modelled().then(|| host::ORDER.number())
}

/// Does work in its place among all streams'.
fn in_order<T>(number: Option<u64>, work: impl FnOnce() -> T) -> T {
    match number {
        Some(number) => host::ORDER.run(number, work),
        None => work(),
    }
}

impl Stream {
    fn new(ordinal: usize, flags: u32, priority: i32, legacy: bool) -> Arc<Stream> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Stream {
            ordinal,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            flags,
            priority,
            legacy,
            part: Mutex::new(None),
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
    pub fn part(&self) -> &Mutex<Option<Part>> {
        &self.part
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

    /// Submits work that runs after `fences`; the caller goes on.
    pub fn submit(
        self: &Arc<Self>,
        fences: Vec<Fence>,
        run: impl FnOnce(&mut Turn) + Send + 'static,
    ) -> Fence {
        self.push(fences, false, Box::new(run))
    }

    /// The same for work that the host sees: a callback.
    pub fn submit_visible(
        self: &Arc<Self>,
        fences: Vec<Fence>,
        run: impl FnOnce(&mut Turn) + Send + 'static,
    ) -> Fence {
        self.push(fences, true, Box::new(run))
    }

    /// Runs work in its turn and waits for it; in the caller's thread where nothing is before it.
    pub fn run<T: Send>(self: &Arc<Self>, fences: Vec<Fence>, run: impl FnOnce(&mut Turn) -> T + Send) -> T {
        if let Some(Begun { ticket, number, end }) = self.begin(&fences) {
            let mut turn = self.turn(host::asks().max(latest(&fences)));
            let result = in_order(number, || run(&mut turn));
            end.store(turn.end, Ordering::Relaxed);
            host::waited(turn.end);
            clock::sleep_until(turn.end);
            let mut queue = self.queue.lock();
            queue.horizon = turn.end;
            queue.finished = ticket;
            queue.running = false;
            drop(queue);
            self.done.notify_all();
            self.work.notify_all();
            return result;
        }
        let mut slot = None;
        {
            let body = |turn: &mut Turn| slot = Some(run(turn));
            let body: Box<dyn FnOnce(&mut Turn) + Send + '_> = Box::new(body);
            // SAFETY: only the lifetime is changed; the closure has run and is gone when the fence
            // has passed, which is waited for while `slot` and what `run` borrows are still there.
            let body = unsafe {
                std::mem::transmute::<Box<dyn FnOnce(&mut Turn) + Send + '_>, Box<dyn FnOnce(&mut Turn) + Send>>(
                    body,
                )
            };
            self.push(fences, false, body).host_wait();
        }
        slot.expect("work that has been waited for has run")
    }

    /// Takes the stream for work in the caller's thread, if nothing is before it.
    fn begin(&self, fences: &[Fence]) -> Option<Begun> {
        if !fences.iter().all(Fence::passed) {
            return None;
        }
        let mut queue = self.queue.lock();
        if queue.running || !queue.waiting.is_empty() || queue.finished < queue.submitted {
            return None;
        }
        queue.running = true;
        Some(Begun {
            ticket: queue.next(),
            number: number(),
            end: queue.last.clone(),
        })
    }

    fn turn(&self, not_before: u64) -> Turn {
        let ready = self.queue.lock().horizon.max(not_before);
        Turn { ready, end: ready }
    }

    fn push(
        self: &Arc<Self>,
        fences: Vec<Fence>,
        visible: bool,
        run: Box<dyn FnOnce(&mut Turn) + Send>,
    ) -> Fence {
        let mut queue = self.queue.lock();
        let (ticket, end) = (queue.next(), queue.last.clone());
        queue.waiting.push_back(Op {
            ticket,
            number: number(),
            end: end.clone(),
            submitted_at: host::asks(),
            fences,
            visible,
            run,
        });
        if !queue.served {
            queue.served = true;
            worker::start(self.clone());
        }
        drop(queue);
        self.work.notify_one();
        Fence {
            stream: self.clone(),
            ticket,
            end,
        }
    }

    /// Takes no more work; what was submitted is still done.
    pub fn close(&self) {
        self.queue.lock().closing = true;
        self.work.notify_all();
    }

    /// Whether it was closed and its work is done.
    fn ended(&self) -> bool {
        let queue = self.queue.lock();
        queue.closing && queue.finished == queue.submitted
    }
}
