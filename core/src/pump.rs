//! Copies between a GPU and ordinary host memory, as fast as the link allows.
//!
//! The driver copies pageable memory through a small buffer of its own, with one thread, at a fifth of the
//! link's speed. So bytes go through a ring of pinned slots: while the GPU fills or empties some, threads
//! copy the others from or to the host memory, where new pages are paid by these threads as well. The ring
//! stays busy from one piece of memory to the next, so many small pieces are as fast as a large one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;

use crate::own_thread;

/// Bytes of a slot: a huge page.
pub const SLOT: usize = 2 << 20;
/// Slots of the ring, at most: one for each thread and those of the GPU.
pub const SLOTS: usize = THREADS + FOR_GPU;
/// Slots for the GPU to fill or empty meanwhile: a third of a millisecond of the link. No more than needed
/// are used, so that the ring stays in the processor's cache.
const FOR_GPU: usize = 8;
/// Threads that copy in the host, at most: one fills new pages at some 3 GB/s, the link takes 50.
const THREADS: usize = 12;

/// The calls of CUDA's that such a copy takes, on one GPU. A slot has a stream of its own.
pub trait Link {
    /// Why a call failed.
    type Failure: Copy;

    /// Begins to copy from the GPU to host memory, in the slot's stream.
    ///
    /// # Errors
    /// The call's.
    fn begin_out(&self, slot: usize, to: *mut u8, from: u64, bytes: usize) -> Result<(), Self::Failure>;

    /// Begins to copy from host memory to the GPU, in the slot's stream.
    ///
    /// # Errors
    /// The call's.
    fn begin_back(&self, slot: usize, to: u64, from: *const u8, bytes: usize) -> Result<(), Self::Failure>;

    /// Waits until the slot's copy is done.
    ///
    /// # Errors
    /// The call's, or that of the copy.
    fn wait(&self, slot: usize) -> Result<(), Self::Failure>;
}

/// Pinned memory of `SLOTS * SLOT` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Ring(usize);

impl Ring {
    /// # Safety
    /// `start` is the start of so much pinned memory, which nobody else uses, and which
    /// outlives all uses of the ring.
    pub unsafe fn new(start: *mut u8) -> Ring {
        Ring(start as usize)
    }

    fn slot(self, slot: usize) -> *mut u8 {
        (self.0 + slot * SLOT) as *mut u8
    }
}

/// Device memory, and the host memory that its bytes go to or come from.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Where it begins on the device.
    pub device: u64,
    /// Where it begins in the host.
    pub host: *mut u8,
    /// Its length.
    pub bytes: usize,
}

/// Pieces to copy, one after another. All is called by the thread that copies.
///
/// # Safety
/// The memory of a piece is there, and nobody else uses it, from `next` until the copy of the piece is done
/// or the copying has returned.
pub unsafe trait Pieces {
    /// The next piece, while copies of those before may be under way. `None`: there are no more.
    fn next(&mut self) -> Option<Piece>;

    /// The copy of a piece is done; they count from 0, as `next` gave them.
    fn done(&mut self, index: usize);
}

/// A copy within host memory, the slot that it is of, and whom to tell.
struct Job {
    to: usize,
    from: usize,
    bytes: usize,
    slot: usize,
    done: Sender<usize>,
}

/// The threads of a process: what gives them jobs, and how many they are.
#[derive(Clone)]
struct Threads {
    process: u32,
    jobs: Sender<Job>,
    count: usize,
}

static THREADS_OF: Mutex<Option<Threads>> = Mutex::new(None);

/// The threads, which are started once and wait for ever. `None`: the system has none.
fn threads() -> Option<Threads> {
    let mut known = THREADS_OF.lock();
    let process = std::process::id();
    // A forked child has none of its parent's.
    if let Some(threads) = known.as_ref().filter(|threads| threads.process == process) {
        return Some(threads.clone());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (jobs, queue) = channel();
    let queue = Arc::new(Mutex::new(queue));
    let count = (0..(cores * 3 / 4).clamp(1, THREADS))
        .filter_map(|_| {
            let queue = queue.clone();
            own_thread::start("mgb-copy", move || work(&queue))
        })
        .count();
    *known = (count > 0).then_some(Threads { process, jobs, count });
    known.clone()
}

/// A ring, for one thread's copies at a time.
pub struct Pump<L: Link> {
    link: L,
    ring: Ring,
    threads: Threads,
    finished: Sender<usize>,
    done: Receiver<usize>,
}

/// A part of a piece that a slot holds.
#[derive(Clone, Copy, Default)]
struct Chunk {
    piece: usize,
    device: u64,
    host: usize,
    bytes: usize,
}

/// Cuts pieces into chunks, and knows when all of a piece are done.
struct Cutter<'a> {
    pieces: &'a mut dyn Pieces,
    /// What is left to cut of the last piece.
    rest: Chunk,
    /// Bytes of each piece that are not copied.
    left: Vec<usize>,
    is_empty: bool,
}

impl<'a> Cutter<'a> {
    fn new(pieces: &'a mut dyn Pieces) -> Cutter<'a> {
        Cutter {
            pieces,
            rest: Chunk::default(),
            left: Vec::new(),
            is_empty: false,
        }
    }

    fn next(&mut self) -> Option<Chunk> {
        while self.rest.bytes == 0 {
            let piece = self.pieces.next();
            let Some(Piece { device, host, bytes }) = piece else {
                self.is_empty = true;
                return None;
            };
            let host = host as usize;
            self.rest = Chunk {
                piece: self.left.len(),
                device,
                host,
                bytes,
            };
            self.left.push(bytes);
            if bytes == 0 {
                self.pieces.done(self.rest.piece);
            }
        }
        let bytes = SLOT.min(self.rest.bytes);
        let chunk = Chunk { bytes, ..self.rest };
        self.rest.device += bytes as u64;
        self.rest.host += bytes;
        self.rest.bytes -= bytes;
        Some(chunk)
    }

    fn done(&mut self, chunk: Chunk) {
        self.left[chunk.piece] -= chunk.bytes;
        if self.left[chunk.piece] == 0 {
            self.pieces.done(chunk.piece);
        }
    }
}

impl<L: Link> Pump<L> {
    /// A pump. `None`: the system has no threads.
    pub fn new(link: L, ring: Ring) -> Option<Pump<L>> {
        let (finished, done) = channel();
        Some(Pump {
            link,
            ring,
            threads: threads()?,
            finished,
            done,
        })
    }

    /// Copies from the GPU to host memory. Nothing is under way afterwards.
    ///
    /// # Errors
    /// The link's; what is in the host memory of pieces that are not done is undefined then.
    pub fn out(&self, pieces: &mut dyn Pieces) -> Result<(), L::Failure> {
        let mut cutter = Cutter::new(pieces);
        let mut failed = Ok(());
        let mut free: Vec<usize> = (0..self.slots()).collect();
        let mut chunks = [Chunk::default(); SLOTS];
        // Slots that the GPU fills, in their order. And how many threads empty.
        let mut filling: VecDeque<usize> = VecDeque::new();
        let mut emptying = 0;
        loop {
            while failed.is_ok() && !cutter.is_empty && !free.is_empty() {
                let Some(chunk) = cutter.next() else { break };
                let Some(slot) = free.pop() else { break };
                chunks[slot] = chunk;
                failed = self
                    .link
                    .begin_out(slot, self.ring.slot(slot), chunk.device, chunk.bytes);
                filling.push_back(slot);
            }
            let mut emptied = Vec::new();
            if let Some(slot) = filling.pop_front() {
                let filled = self.link.wait(slot);
                failed = failed.and(filled);
                if failed.is_ok() {
                    let Chunk { host, bytes, .. } = chunks[slot];
                    self.give(host, self.ring.slot(slot) as usize, bytes, slot);
                    emptying += 1;
                }
            } else if emptying > 0 {
                self.collect(&mut emptied, true);
            } else if failed.is_err() || cutter.is_empty {
                return failed;
            }
            self.collect(&mut emptied, false);
            for slot in emptied {
                emptying -= 1;
                cutter.done(chunks[slot]);
                free.push(slot);
            }
        }
    }

    /// Copies from host memory to the GPU. Nothing is under way afterwards.
    ///
    /// # Errors
    /// The link's; what is in the device memory of pieces that are not done is undefined then.
    pub fn back(&self, pieces: &mut dyn Pieces) -> Result<(), L::Failure> {
        let mut cutter = Cutter::new(pieces);
        let mut failed = Ok(());
        let mut free: Vec<usize> = (0..self.slots()).collect();
        let mut chunks = [Chunk::default(); SLOTS];
        // How many slots threads fill, and which the GPU empties.
        let mut filling = 0;
        let mut emptying: VecDeque<usize> = VecDeque::new();
        loop {
            // One at a time: to get a piece may take long, and filled slots should not wait for it.
            let mut is_given = false;
            if failed.is_ok()
                && !cutter.is_empty
                && !free.is_empty()
                && let Some(chunk) = cutter.next()
                && let Some(slot) = free.pop()
            {
                chunks[slot] = chunk;
                self.give(self.ring.slot(slot) as usize, chunk.host, chunk.bytes, slot);
                filling += 1;
                is_given = true;
            }
            let mut filled = Vec::new();
            self.collect(&mut filled, !is_given && filling > 0);
            for slot in filled {
                filling -= 1;
                let Chunk { device, bytes, .. } = chunks[slot];
                if failed.is_ok() {
                    failed = self.link.begin_back(slot, device, self.ring.slot(slot), bytes);
                }
                emptying.push_back(slot);
            }
            if is_given {
                continue;
            }
            // A slot that may be used again, or all of them at the end.
            if (free.is_empty() || filling == 0)
                && let Some(slot) = emptying.pop_front()
            {
                let emptied = self.link.wait(slot);
                failed = failed.and(emptied);
                if failed.is_ok() {
                    cutter.done(chunks[slot]);
                }
                free.push(slot);
            }
            if (cutter.is_empty || failed.is_err()) && filling == 0 && emptying.is_empty() {
                return failed;
            }
        }
    }

    /// How many slots are used.
    fn slots(&self) -> usize {
        (self.threads.count + FOR_GPU).min(SLOTS)
    }

    fn give(&self, to: usize, from: usize, bytes: usize, slot: usize) {
        let done = self.finished.clone();
        // The threads live as long as the process.
        let _ = self.threads.jobs.send(Job {
            to,
            from,
            bytes,
            slot,
            done,
        });
    }

    /// Takes the slots whose copies in the host are done; waits for one if `waits`.
    fn collect(&self, slots: &mut Vec<usize>, waits: bool) {
        if waits && let Ok(slot) = self.done.recv() {
            slots.push(slot);
        }
        slots.extend(self.done.try_iter());
    }
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().recv();
        let Ok(Job {
            to,
            from,
            bytes,
            slot,
            done,
        }) = job
        else {
            return;
        };
        // SAFETY: a slot of the ring, which is used by this job alone until it is reported, and a part of a
        // piece, which is there until then (`Pieces`), since `out` and `back` wait for all reports.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
        // A pump waits for all its jobs.
        let _ = done.send(slot);
    }
}

#[cfg(test)]
#[path = "pump_tests.rs"]
mod tests;
