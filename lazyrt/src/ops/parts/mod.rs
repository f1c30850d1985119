//! Launches in parts: a kernel that has a twin is run some blocks at a time.
//!
//! A part is stopped when memory is to leave the GPU, or launches are held. With
//! `MGB_STOP_EVERY=MS` it is stopped at random, MS milliseconds after it has begun on average, and continued
//! with another number of workers. Between two parts memory may be evicted or moved, and the next part is
//! launched where the task is then. Nobody waits for a launch but what comes behind it (`in_flight`).

mod arguments;
mod control;
mod gain;
mod gone;
mod stops;
mod workers;

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mgb_abi::launch::Dim3;
use mgb_abi::stream::STREAM_PER_THREAD;
use mgb_core::{captures, pace, quiesce};
use mgb_probe::Class;
use mgb_probe::trace::Parted;

use arguments::KeptArguments;
use control::ControlBlock;
pub use control::forget;
use stops::Stops;

use crate::code::{Answer, Code, Own};
use crate::device::{self, RelaxedCapture};
use crate::in_flight::{self, EndEvent, NoRoom, PartInFlight};
use crate::native::Stream;
use crate::ops::errors;
use crate::ops::kernel_call::KernelCall;
use crate::session::Mode;
use crate::twins::{self, Twin};
use crate::{session, thread};

/// The largest grid, along x and along the other dimensions.
const MOST_COLUMNS: u32 = i32::MAX as u32;
const MOST_ROWS: u32 = 65_535;
/// How many tickets a worker takes at least, where there are blocks enough, and for how many blocks at most.
const TICKETS_OF_WORKER: u64 = 32;
const MOST_OF_TICKET: u64 = 64;
/// How long a ticket's blocks are to take: a launch that is stopped ends when the last worker is through with
/// two.
const TICKET_TIME: Duration = Duration::from_micros(50);
/// For how many blocks a ticket is while nobody knows how long they take.
const FIRST_OF_TICKET: u64 = 8;
/// How many threads a warp has.
const WARP: u32 = 32;

/// Launches a part on the GPU and in the runtime's stream that it is told, as any launch of the program's:
/// where its task is, and once it may.
pub type Relaunch = Arc<dyn Fn(&mut dyn FnMut(u32, Stream) -> Code) -> Answer + Send + Sync>;

/// A launch that is made in parts.
pub struct PartedLaunch {
    stops: Stops,
    /// What the program asked for. Its arguments may be gone.
    call: KernelCall,
    twin: Twin,
    arguments: KeptArguments,
    relaunch: Relaunch,
    /// As the program names it.
    stream: StreamHandle,
    /// The first block that is left.
    next: u32,
    /// Parts that have done nothing, one behind the other.
    idle: u32,
    /// How long a worker takes for a block.
    block_time: Option<Duration>,
    /// How long it takes is to be learned, unless it is stopped.
    is_measured: bool,
    /// The part in flight.
    part: Option<Part>,
}

#[derive(Clone, Copy)]
struct StreamHandle(Stream);

// SAFETY: a handle, which is only compared.
unsafe impl Send for StreamHandle {}

struct Part {
    control: ControlBlock,
    gpu: u32,
    ordinal: i32,
    workers: u32,
    /// When it is stopped at random, and by which block at the earliest.
    stop_at: Option<Instant>,
    until: u64,
}

/// What became of a launch that was to be made in parts.
pub enum Tried {
    /// Its first part is in flight.
    Launched,
    /// Others are stopped right now, or too many are in flight: settle, and try again.
    Blocked,
    /// The process ends: it is made at once, behind those in flight.
    Over,
    /// The twin cannot be launched here: the original can.
    Cannot,
    /// The launch failed, with this error of the runtime's.
    Failed(Code),
}

/// Called by programs' destructors that the pass adds to: this module's kernels are going.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_forget_twins(module: *mut c_void) {
    if session::decided() == Some(Mode::Mgb) {
        in_flight::settle();
    }
    twins::forget(module);
}

/// How many launches were made in parts, and in how many parts in all.
static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static PARTS: AtomicU64 = AtomicU64::new(0);

/// What was run in parts so far.
pub fn total() -> Option<Parted> {
    let (launches, parts) = (LAUNCHES.load(Ordering::Relaxed), PARTS.load(Ordering::Relaxed));
    (launches > 0).then_some(Parted { launches, parts })
}

/// A launch that may be made in parts.
pub struct WantedParts {
    stops: Stops,
    twin: Twin,
    /// How long it takes is not known well enough.
    is_measured: bool,
}

/// Whether this launch is made in parts; `None`: it is made at once.
pub fn wanted(call: &KernelCall) -> Option<WantedParts> {
    let KernelCall {
        kernel, grid, block, ..
    } = *call;
    let stops = Stops::of_process()?;
    if !twins::are_any() || (stops == Stops::WhenWanted && gain::is_as_it_is(kernel, grid)) {
        return None;
    }
    let Some(twin) = twins::of(kernel) else {
        gain::note_as_it_is(kernel, grid, u64::MAX);
        return None;
    };
    let has_rows = block.x.is_multiple_of(WARP) || (block.y, block.z) == (1, 1);
    // A twin's own grid would be a valid one.
    let is_grid = grid.x <= MOST_COLUMNS && grid.y <= MOST_ROWS && grid.z <= MOST_ROWS;
    let is_grid = is_grid && (1..=control::MOST_BLOCKS).contains(&grid.product());
    if !is_grid || (twin.whole_rows && !twin.takes_one && !has_rows) || captures::any() {
        return None;
    }
    let is_measured = match stops {
        Stops::WhenWanted if is_waited_for() => return None,
        Stops::WhenWanted => gain::of(kernel, grid)?.is_measured,
        Stops::AtRandom(_) | Stops::Never => false,
    };
    Some(WantedParts {
        stops,
        twin,
        is_measured,
    })
}

/// Whether others wait for what this program does: nobody has its kernels stop.
fn is_waited_for() -> bool {
    session::client().is_some_and(|client| client.class() == Class::Latency)
}

impl WantedParts {
    /// The launch, in a stream of the program's.
    ///
    /// # Safety
    /// It meets the contract of `cudaLaunchKernel`.
    pub unsafe fn launch(self, call: &KernelCall, stream: Stream, relaunch: Relaunch) -> Box<PartedLaunch> {
        // SAFETY: the address of each of the kernel's parameters: contract of this function.
        let arguments = unsafe { KeptArguments::copy(call.arguments, &self.twin.parameters) };
        Box::new(PartedLaunch {
            stops: self.stops,
            call: *call,
            twin: self.twin,
            arguments,
            relaunch,
            stream: StreamHandle(stream),
            next: 0,
            idle: 0,
            block_time: None,
            is_measured: self.is_measured,
            part: None,
        })
    }
}

/// Launches the first part on the current GPU, in the runtime's stream; the launch is taken once it is in
/// flight.
pub fn begin(launch: &mut Option<Box<PartedLaunch>>, gpu: u32, stream: Stream) -> Tried {
    let Some(mut parted) = launch.take() else {
        return Tried::Blocked;
    };
    let room = match in_flight::room() {
        Ok(room) => room,
        Err(why) => {
            *launch = Some(parted);
            return match why {
                NoRoom::Stopping => Tried::Blocked,
                NoRoom::Over => Tried::Over,
            };
        }
    };
    match parted.launch_part(gpu, stream) {
        Ok(()) => {
            LAUNCHES.fetch_add(1, Ordering::Relaxed);
            room.add(parted);
            Tried::Launched
        }
        Err(why) => {
            *launch = Some(parted);
            match why {
                NoPart::NoPlace if room.has_others() => Tried::Blocked,
                NoPart::NoPlace => Tried::Cannot,
                NoPart::Failed(code) => Tried::Failed(code),
            }
        }
    }
}

/// Why a part is not in flight.
enum NoPart {
    /// No control block is free, or the GPU cannot run the twin.
    NoPlace,
    Failed(Code),
}

impl PartedLaunch {
    /// Launches some of the blocks that are left, on the current GPU, in the runtime's stream.
    fn launch_part(&mut self, gpu: u32, stream: Stream) -> Result<(), NoPart> {
        let _relaxed = RelaxedCapture::begin();
        let failed = |Own(code)| NoPart::Failed(code);
        let ordinal = device::ordinal(gpu).map_err(failed)?;
        let most = self.workers();
        // Another GPU may run fewer at once, but one of a kernel that runs on the first.
        if most == 0 && self.next == 0 {
            return Err(NoPart::NoPlace);
        }
        let control = ControlBlock::take(gpu).ok_or(NoPart::NoPlace)?;
        let left = self.left();
        let workers = if self.twin.takes_one {
            left.min(u64::from(MOST_COLUMNS)) as u32
        } else if let Stops::AtRandom(_) = self.stops {
            1 + u32::try_from(random() % u64::from(most.max(1))).unwrap_or(0)
        } else {
            most.max(1)
        };
        let each = self.each(workers);
        succeeded(control.fill(self.next, self.call.grid, each))?;
        let mut address = control.address();
        let mut arguments = self.arguments.addresses();
        arguments.push((&raw mut address).cast());
        let grid = Dim3 {
            x: workers,
            y: 1,
            z: 1,
        };
        succeeded(control.record_begin(stream))?;
        let part = KernelCall {
            kernel: self.twin.stub,
            grid,
            arguments: arguments.as_mut_ptr(),
            ..self.call
        };
        // SAFETY: the program's arguments and the control block's address, as the twin takes them.
        succeeded(unsafe { part.launch(stream) })?;
        // Blocks may have run from here on: what fails is not tried again.
        match control.record_end(stream) {
            Code::SUCCESS => {}
            Code::MEMORY_ALLOCATION => return Err(NoPart::Failed(Code::UNKNOWN)),
            code => return Err(NoPart::Failed(code)),
        }
        PARTS.fetch_add(1, Ordering::Relaxed);
        self.part = Some(Part {
            control,
            gpu,
            ordinal,
            workers,
            stop_at: self.random_stop(),
            // A part of slices has a worker for each block that is left, however early it is stopped: so it
            // is stopped anywhere in what is left.
            until: u64::from(self.next) + random() % left.max(1),
        });
        Ok(())
    }

    /// For how many blocks a ticket is: so few that each worker takes some tickets, and is through with one
    /// soon.
    fn each(&self, workers: u32) -> u32 {
        let time = self.block_time.or_else(|| {
            let whole = gain::known(self.call.kernel, self.call.grid)?;
            Some(time_of_block(whole, workers, self.call.grid.product()))
        });
        let by_time = time.map_or(FIRST_OF_TICKET, |time| {
            (TICKET_TIME.as_nanos() / time.as_nanos().max(1)).min(u128::from(MOST_OF_TICKET)) as u64
        });
        let share = self.left() / (u64::from(workers) * TICKETS_OF_WORKER);
        by_time.min(share).max(1) as u32
    }

    /// When a part that begins now is stopped, if that is left to chance.
    fn random_stop(&self) -> Option<Instant> {
        let Stops::AtRandom(every) = self.stops else {
            return None;
        };
        let wait = random() % (2 * every.as_nanos() as u64).max(1);
        // Where nothing was done before, it takes longer to begin than that.
        Some(Instant::now() + Duration::from_nanos(wait) * (1 << self.idle.min(20)))
    }

    /// How many blocks are left.
    fn left(&self) -> u64 {
        self.call.grid.product().saturating_sub(u64::from(self.next))
    }

    /// How many workers the GPU runs at once, no more than there are blocks; 0: it cannot run the twin.
    fn workers(&self) -> u32 {
        let threads = i32::try_from(self.call.block.product()).unwrap_or(i32::MAX);
        let most = workers::at_once(self.call.kernel, &self.twin, threads, self.call.shared);
        u32::try_from(self.call.grid.product()).map_or(most, |blocks| most.min(blocks))
    }
}

impl PartInFlight for PartedLaunch {
    fn stream(&self) -> Stream {
        self.stream.0
    }

    fn end(&self) -> EndEvent {
        let part = self.part.as_ref();
        part.map_or(EndEvent(std::ptr::null_mut()), |part| part.control.end())
    }

    fn is_to_stop(&self) -> bool {
        let Some(part) = &self.part else { return false };
        match self.stops {
            Stops::WhenWanted => quiesce::is_wanted() || pace::would_hold(part.gpu),
            Stops::AtRandom(_) => part.stop_at.is_some_and(|at| Instant::now() >= at) && !self.is_early(part),
            Stops::Never => false,
        }
    }

    fn stop(&self) {
        if let Some(part) = &self.part
            && device::select(part.gpu, part.ordinal).is_ok()
        {
            part.control.stop();
        }
    }

    fn is_done(&mut self) -> Result<bool, Code> {
        let Some(part) = self.part.take() else {
            return Ok(true);
        };
        device::select(part.gpu, part.ordinal).map_err(|Own(code)| code)?;
        self.is_measured = false;
        let next = part.control.next()?;
        self.idle = if next == self.next { self.idle + 1 } else { 0 };
        let done = u64::from(next.saturating_sub(self.next));
        if let Some(took) = part.control.took().filter(|_| done > 0) {
            self.block_time = Some(time_of_block(took, part.workers, done));
        }
        self.next = next;
        Ok(self.left() == 0)
    }

    fn go_on(&mut self) -> Code {
        let relaunch = Arc::clone(&self.relaunch);
        let answer = relaunch(&mut |gpu, stream| match self.launch_part(gpu, stream) {
            Ok(()) => Code::SUCCESS,
            Err(NoPart::NoPlace) => Code::MEMORY_ALLOCATION,
            Err(NoPart::Failed(code)) => code,
        });
        answer.unwrap_or_else(|Own(code)| code)
    }

    fn note_whole(&self) {
        if let Some(part) = self.part.as_ref().filter(|_| self.is_measured)
            && let Some(time) = part.control.took()
        {
            gain::learn(self.call.kernel, self.call.grid, time);
        }
    }
}

impl PartedLaunch {
    /// A part of slices is stopped anywhere in what is left: has it not come there yet?
    fn is_early(&self, part: &Part) -> bool {
        let next = || part.control.next();
        self.twin.takes_one
            && device::select(part.gpu, part.ordinal).is_ok()
            && errors::untold(next).is_ok_and(|next| u64::from(next) < part.until)
    }
}

/// How long each of some workers takes for a block, where they take so long for so many.
fn time_of_block(took: Duration, workers: u32, blocks: u64) -> Duration {
    Duration::from_secs_f64(took.as_secs_f64() * f64::from(workers) / blocks.max(1) as f64)
}

fn succeeded(code: Code) -> Result<(), NoPart> {
    if code.is_success() {
        Ok(())
    } else {
        Err(NoPart::Failed(code))
    }
}

/// The stream by a name that means the same in all forms of the runtime's functions.
pub fn default_of_thread(stream: Stream) -> Stream {
    if stream.is_null() && thread::with(|thread| thread.is_per_thread()) {
        STREAM_PER_THREAD as Stream
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
