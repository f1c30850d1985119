//! Launches in parts: a kernel that has a twin is run some blocks at a time.
//!
//! With `MGB_RUN_PARTS` a part is stopped when memory is to leave the GPU, or launches are held. With
//! `MGB_STOP_EVERY=MS` it is stopped at random, MS milliseconds after it has begun on average, and continued
//! with another number of workers. Between two parts memory may be evicted or moved, and the next part is
//! launched where the task is then. The launch waits until the kernel is done.

mod control;
mod stops;
mod workers;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mgb_abi::launch::Dim3;
use mgb_core::{captures, pace, quiesce};
use mgb_probe::trace::Parted;

use control::ControlBlock;
pub use control::forget;
use stops::Stops;

use crate::code::Code;
use crate::device::RelaxedCapture;
use crate::native::{self, Launch, Stream};
use crate::ops::errors;
use crate::thread;
use crate::twins::{self, Twin};

/// The largest grid, along x and along the other dimensions.
const MOST_COLUMNS: u32 = i32::MAX as u32;
const MOST_ROWS: u32 = 65_535;
/// How many tickets a worker takes at least, where there are blocks enough, and for how many blocks at most:
/// a launch that is stopped ends when the last worker is through with its ticket.
const TICKETS_OF_WORKER: u64 = 32;
const MOST_OF_TICKET: u64 = 64;
/// How many threads a warp has.
const WARP: u32 = 32;
/// How often a launch that is to be stopped is asked whether it has ended by itself.
const LOOK: Duration = Duration::from_micros(50);

/// A launch that is made in parts.
pub struct PartedLaunch {
    stops: Stops,
    kernel: *const c_void,
    twin: Twin,
    grid: Dim3,
    block: Dim3,
    shared: usize,
    arguments: Vec<*mut c_void>,
    /// The first block that is left.
    next: u32,
    /// Whether some of it was run as a part.
    has_begun: bool,
    /// Whether all blocks have been run.
    is_done: bool,
    /// Parts that have done nothing, one behind the other.
    idle: u32,
}

/// How many launches were made in parts, and in how many parts in all.
static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static PARTS: AtomicU64 = AtomicU64::new(0);

/// What was run in parts so far.
pub fn total() -> Option<Parted> {
    let (launches, parts) = (LAUNCHES.load(Ordering::Relaxed), PARTS.load(Ordering::Relaxed));
    (launches > 0).then_some(Parted { launches, parts })
}

/// This launch in parts; `None`: it is made as a whole.
///
/// # Safety
/// The arguments meet the contract of `cudaLaunchKernel`.
pub unsafe fn begin(
    kernel: *const c_void,
    grid: Dim3,
    block: Dim3,
    arguments: *mut *mut c_void,
    shared: usize,
) -> Option<PartedLaunch> {
    let stops = Stops::of_process()?;
    let twin = twins::of(kernel)?;
    let has_rows = block.x.is_multiple_of(WARP) || (block.y, block.z) == (1, 1);
    // A twin's own grid would be a valid one.
    let is_grid = grid.x <= MOST_COLUMNS && grid.y <= MOST_ROWS && grid.z <= MOST_ROWS;
    let is_grid = is_grid && (1..=control::MOST_BLOCKS).contains(&grid.product());
    if !is_grid || (twin.whole_rows && !twin.takes_one && !has_rows) || captures::any() {
        return None;
    }
    let arguments = if twin.parameters == 0 {
        Vec::new()
    } else {
        // SAFETY: the address of as many arguments as the kernel has parameters: contract of
        // `cudaLaunchKernel`.
        unsafe { std::slice::from_raw_parts(arguments, twin.parameters) }.to_vec()
    };
    Some(PartedLaunch {
        stops,
        kernel,
        twin,
        grid,
        block,
        shared,
        arguments,
        next: 0,
        has_begun: false,
        is_done: false,
        idle: 0,
    })
}

impl PartedLaunch {
    /// Whether all blocks have been run, or the launch has failed.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Runs some of the blocks on the current GPU, in the runtime's stream, and waits for them. `whole`
    /// launches the original, where the twin cannot be launched.
    pub fn run(&mut self, launch: Launch, gpu: u32, stream: Stream, whole: impl FnOnce() -> Code) -> Code {
        // It may be tried again after it has failed.
        self.is_done = false;
        // Another thread may begin a capture, which waits here would end.
        let _relaxed = RelaxedCapture::begin();
        let stream = default_of_thread(stream);
        let most = self.workers();
        // Another GPU may run fewer at once, but one of a kernel that runs on the first.
        let can_begin = most > 0 || self.has_begun;
        let code = match can_begin.then(|| ControlBlock::take(gpu)).flatten() {
            Some(control) => self.part(&control, launch, gpu, stream, most.max(1)),
            None if self.has_begun => Code::MEMORY_ALLOCATION,
            None => {
                self.is_done = true;
                whole()
            }
        };
        self.is_done |= !code.is_success();
        code
    }

    fn part(&mut self, control: &ControlBlock, launch: Launch, gpu: u32, stream: Stream, most: u32) -> Code {
        let left = self.left();
        let workers = if self.twin.takes_one {
            left.min(u64::from(MOST_COLUMNS)) as u32
        } else if let Stops::AtRandom(_) = self.stops {
            1 + u32::try_from(random() % u64::from(most)).unwrap_or(0)
        } else {
            most
        };
        // So many that each worker takes some tickets, and all have about as much to do.
        let each = left / (u64::from(workers) * TICKETS_OF_WORKER);
        let each = each.clamp(1, MOST_OF_TICKET) as u32;
        let code = control.fill(self.next, self.grid, each, stream);
        if !code.is_success() {
            return code;
        }
        let mut address = control.address();
        let mut arguments = self.arguments.clone();
        arguments.push((&raw mut address).cast());
        let grid = Dim3 {
            x: workers,
            y: 1,
            z: 1,
        };
        let (stub, block, shared) = (self.twin.stub, self.block, self.shared);
        // SAFETY: the program's arguments and the control block's address, as the twin takes them.
        let code = unsafe { launch(stub, grid, block, arguments.as_mut_ptr(), shared, stream) };
        if !code.is_success() {
            return code;
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            LAUNCHES.fetch_add(1, Ordering::Relaxed);
        }
        PARTS.fetch_add(1, Ordering::Relaxed);
        // That a stream is not ready is no error of the program's. A part that cannot be stopped runs to its
        // end.
        errors::untold(|| match self.stops {
            Stops::WhenWanted => {
                stop_when(control, stream, || quiesce::is_wanted() || pace::would_hold(gpu));
            }
            Stops::AtRandom(every) => self.stop_at_random(control, stream, every),
            Stops::Never => {}
        });
        // SAFETY: the runtime's own stream.
        let code = unsafe { native::cudaStreamSynchronize(stream) };
        match (code, control.next()) {
            (Code::SUCCESS, Ok(next)) => {
                self.idle = if next == self.next { self.idle + 1 } else { 0 };
                self.next = next;
                self.is_done = self.left() == 0;
                Code::SUCCESS
            }
            // A call that lacks memory is made again, which would run blocks twice.
            (Code::SUCCESS, Err(Code::MEMORY_ALLOCATION)) => Code::UNKNOWN,
            (Code::SUCCESS, Err(code)) | (code, _) => code,
        }
    }

    /// Has workers stop after a random time, unless the part ends before.
    fn stop_at_random(&self, control: &ControlBlock, stream: Stream, every: Duration) {
        let wait = random() % (2 * every.as_nanos() as u64).max(1);
        // Where nothing was done before, it takes longer to begin than that.
        let wait = Duration::from_nanos(wait) * (1 << self.idle.min(20));
        // A part of slices has a worker for each block that is left, however early it is stopped: so it is
        // stopped anywhere in what is left.
        let until = u64::from(self.next) + random() % self.left().max(1);
        let is_early = || self.twin.takes_one && control.next().is_ok_and(|next| u64::from(next) < until);
        let began = Instant::now();
        stop_when(control, stream, || began.elapsed() >= wait && !is_early());
    }

    /// How many blocks are left.
    fn left(&self) -> u64 {
        self.grid.product().saturating_sub(u64::from(self.next))
    }

    /// How many workers the GPU runs at once, no more than there are blocks; 0: it cannot run the twin.
    fn workers(&self) -> u32 {
        let threads = i32::try_from(self.block.product()).unwrap_or(i32::MAX);
        let most = workers::at_once(self.kernel, &self.twin, threads, self.shared);
        u32::try_from(self.grid.product()).map_or(most, |blocks| most.min(blocks))
    }
}

/// Has workers stop once `is_time`, unless the part ends before.
fn stop_when(control: &ControlBlock, stream: Stream, is_time: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_time() {
        // SAFETY: the runtime's own stream. What fails shows when it is waited for.
        if unsafe { native::cudaStreamQuery(stream) } != Code::NOT_READY {
            return;
        }
        if began.elapsed() < LOOK {
            std::thread::yield_now();
        } else {
            std::thread::sleep(LOOK);
        }
    }
    control.stop();
}

/// The stream by a name that means the same in all forms of the runtime's functions.
fn default_of_thread(stream: Stream) -> Stream {
    const PER_THREAD: usize = 2;
    if stream.is_null() && thread::with(|thread| thread.is_per_thread()) {
        PER_THREAD as Stream
    } else {
        stream
    }
}

/// Xorshift: it need not be good.
fn random() -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0);
    let step = |state: u64| {
        let mut state = if state == 0 {
            u64::from(std::process::id()) << 32 | 1
        } else {
            state
        };
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let before = STATE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| Some(step(state)));
    step(before.unwrap_or_default()) >> 8
}
