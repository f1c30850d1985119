//! Copies between a GPU and ordinary host memory, as fast as the link allows.
//!
//! The driver copies pageable memory through a small buffer of its own, with one thread, at a fifth of the
//! link's speed. So bytes go through a ring of pinned slots in *lanes*: threads with slots of their own, each
//! of which copies in the host what one slot has while the GPU fills or empties another. A lane takes the
//! next chunk by itself: where one thread handed chunks to others, to wake them took longer than to copy, and
//! 16 GiB came back at 5 GiB/s. The lanes stay busy from one piece of memory to the next, so many small
//! pieces are as fast as a large one.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::own_thread;

/// Bytes of a slot: a huge page.
pub const SLOT: usize = 2 << 20;
/// Slots of the ring.
pub const SLOTS: usize = LANES * OF_LANE;
/// Slots of a lane: one for the GPU, one for the thread.
const OF_LANE: usize = 2;
/// Lanes, at most: eight fill the link on an H100, and where pages are new that takes twelve.
const LANES: usize = 12;

/// The calls of CUDA's that such a copy takes, on one GPU. A slot has a stream of its own, and one thread at
/// a time.
pub trait Link: Sync {
    /// Why a call failed.
    type Failure: Copy + Send;

    /// Lets this thread, a lane's, make the calls below, until it ends.
    ///
    /// # Errors
    /// The call's.
    fn enter(&self) -> Result<(), Self::Failure>;

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
    /// The length in bytes, of both.
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

/// A ring, for one thread's copies at a time.
pub struct Pump<L: Link> {
    link: L,
    ring: Ring,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Out,
    Back,
}

/// A part of a piece that a slot holds.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    piece: usize,
    device: u64,
    host: usize,
    bytes: usize,
}

/// What the lanes of one copy share.
struct Work<F> {
    state: Mutex<CopyState<F>>,
    /// There are more chunks, or no more will come.
    given: Condvar,
    /// A piece is copied, or a lane has ended.
    told: Condvar,
}

struct CopyState<F> {
    chunks: VecDeque<Chunk>,
    /// No more will come.
    is_all: bool,
    /// Bytes of each piece that are not copied.
    left: Vec<usize>,
    /// Pieces that are copied, and not told of.
    done: Vec<usize>,
    failed: Option<F>,
    /// Lanes that have not ended.
    lanes: usize,
}

impl<F: Copy> Work<F> {
    fn new() -> Work<F> {
        Work {
            state: Mutex::new(CopyState {
                chunks: VecDeque::new(),
                is_all: false,
                left: Vec::new(),
                done: Vec::new(),
                failed: None,
                lanes: 0,
            }),
            given: Condvar::new(),
            told: Condvar::new(),
        }
    }

    /// Cuts a piece into chunks for the lanes.
    fn give(&self, piece: Piece) {
        let mut state = self.state.lock();
        let index = state.left.len();
        state.left.push(piece.bytes);
        if piece.bytes == 0 {
            state.done.push(index);
        }
        for from in (0..piece.bytes).step_by(SLOT) {
            state.chunks.push_back(Chunk {
                piece: index,
                device: piece.device + from as u64,
                host: piece.host as usize + from,
                bytes: SLOT.min(piece.bytes - from),
            });
            self.given.notify_one();
        }
    }

    /// The next chunk; waits for one if `waits`. `None`: there is none, and none comes if this waited.
    fn take(&self, waits: bool) -> Option<Chunk> {
        let mut state = self.state.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            let chunk = state.chunks.pop_front();
            if chunk.is_some() || !waits || state.is_all {
                return chunk;
            }
            self.given.wait(&mut state);
        }
    }

    fn copied(&self, chunk: Chunk) {
        let mut state = self.state.lock();
        state.left[chunk.piece] -= chunk.bytes;
        if state.left[chunk.piece] == 0 {
            state.done.push(chunk.piece);
            self.told.notify_one();
        }
    }

    fn fail(&self, failure: F) {
        let mut state = self.state.lock();
        state.failed.get_or_insert(failure);
        self.given.notify_all();
    }

    fn lane_ended(&self) {
        self.state.lock().lanes -= 1;
        self.told.notify_one();
    }
}

impl<L: Link> Pump<L> {
    /// A pump of that ring.
    pub fn new(link: L, ring: Ring) -> Pump<L> {
        Pump { link, ring }
    }

    /// Copies from the GPU to host memory. Nothing is under way afterwards.
    ///
    /// # Errors
    /// The link's; what is in the host memory of pieces that are not done is undefined then.
    pub fn out(&self, pieces: &mut dyn Pieces) -> Result<(), L::Failure> {
        self.copy(pieces, Way::Out)
    }

    /// Copies from host memory to the GPU. Nothing is under way afterwards.
    ///
    /// # Errors
    /// The link's; what is in the device memory of pieces that are not done is undefined then.
    pub fn back(&self, pieces: &mut dyn Pieces) -> Result<(), L::Failure> {
        self.copy(pieces, Way::Back)
    }

    /// This thread gives the pieces and is told of those that are done; the lanes do the rest.
    fn copy(&self, pieces: &mut dyn Pieces, way: Way) -> Result<(), L::Failure> {
        let work = Work::new();
        std::thread::scope(|scope| {
            let mut begun = 0;
            while work.state.lock().failed.is_none()
                && let Some(piece) = pieces.next()
            {
                work.give(piece);
                // As many lanes as there are chunks, if the system has threads for them.
                while begun < lanes() && begun < work.state.lock().chunks.len() {
                    work.state.lock().lanes += 1;
                    let (lane, work) = (begun, &work);
                    if own_thread::start_within(scope, "mgb-copy", move || self.lane(lane, way, work))
                        .is_none()
                    {
                        work.lane_ended();
                        break;
                    }
                    begun += 1;
                }
                tell(&work, pieces);
            }
            work.state.lock().is_all = true;
            work.given.notify_all();
            if begun == 0 {
                work.state.lock().lanes += 1;
                self.lane(0, way, &work);
            }
            loop {
                tell(&work, pieces);
                let mut state = work.state.lock();
                if !state.done.is_empty() {
                    continue;
                }
                if state.lanes == 0 {
                    return state.failed.map_or(Ok(()), Err);
                }
                work.told.wait(&mut state);
            }
        })
    }

    /// Copies chunks until there are no more or one fails. Nothing of the lane's is under way afterwards.
    fn lane(&self, lane: usize, way: Way, work: &Work<L::Failure>) {
        let mut under_way = VecDeque::with_capacity(OF_LANE);
        let mut free: Vec<usize> = (lane * OF_LANE..(lane + 1) * OF_LANE).collect();
        let mut failed = self.link.enter();
        loop {
            // What is under way ends before this waits for more.
            let chunk = failed.ok().and_then(|()| work.take(under_way.is_empty()));
            if let Some(chunk) = chunk
                && let Some(slot) = free.pop()
            {
                failed = self.begin(slot, way, chunk);
                under_way.push_back((slot, chunk));
                if failed.is_ok() && !free.is_empty() {
                    continue;
                }
            }
            if let Err(failure) = failed {
                work.fail(failure);
            }
            let Some((slot, chunk)) = under_way.pop_front() else {
                break;
            };
            let ended = self.end(slot, way, chunk, failed);
            if failed.and(ended).is_ok() {
                work.copied(chunk);
            }
            failed = failed.and(ended);
            free.push(slot);
        }
        work.lane_ended();
    }

    fn begin(&self, slot: usize, way: Way, chunk: Chunk) -> Result<(), L::Failure> {
        let ring = self.ring.slot(slot);
        let Chunk {
            device, host, bytes, ..
        } = chunk;
        match way {
            Way::Out => self.link.begin_out(slot, ring, device, bytes),
            Way::Back => {
                // SAFETY: a slot that nothing uses, and a part of a piece, which is there until `copy`
                // returns (`Pieces`).
                unsafe { std::ptr::copy_nonoverlapping(host as *const u8, ring, bytes) };
                self.link.begin_back(slot, device, ring, bytes)
            }
        }
    }

    /// Waits for the slot's copy, also where something has `failed` before.
    fn end(
        &self,
        slot: usize,
        way: Way,
        chunk: Chunk,
        failed: Result<(), L::Failure>,
    ) -> Result<(), L::Failure> {
        self.link.wait(slot)?;
        if way == Way::Out && failed.is_ok() {
            // SAFETY: as in `begin`; the GPU is done with the slot.
            unsafe {
                std::ptr::copy_nonoverlapping(self.ring.slot(slot), chunk.host as *mut u8, chunk.bytes)
            };
        }
        Ok(())
    }
}

/// How many lanes this machine has use for.
fn lanes() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores * 3 / 4).clamp(1, LANES)
}

/// Says which pieces are done.
fn tell<F>(work: &Work<F>, pieces: &mut dyn Pieces) {
    let done = std::mem::take(&mut work.state.lock().done);
    for index in done {
        pieces.done(index);
    }
}

#[cfg(test)]
#[path = "staged_copy_tests.rs"]
mod tests;
