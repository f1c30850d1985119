//! Launches in parts: a kernel that has a twin is run some blocks at a time.
//!
//! With `MGB_STOP_EVERY=MS` each such launch is stopped at random, MS milliseconds after it began or was
//! continued on average, and continued with another number of workers. Between two parts memory may be
//! evicted or moved, and the next part is launched where the task is then. The launch waits until the kernel
//! is done.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mgb_abi::host::{HOST_ALLOC_MAPPED, HOST_ALLOC_PORTABLE};
use mgb_abi::launch::Dim3;
use mgb_probe::trace::Parted;

use crate::code::Code;
use crate::handles::capture;
use crate::native::{self, Launch, Stream};
use crate::thread;
use crate::twins::{self, Twin};

/// `cudaDevAttrMultiProcessorCount`.
const MULTIPROCESSOR_COUNT: u32 = 16;
/// The largest grid, along x and along the other dimensions.
const MOST_COLUMNS: u32 = i32::MAX as u32;
const MOST_ROWS: u32 = 65_535;
/// How many threads a warp has.
const WARP: u32 = 32;
/// How often a launch that is to be stopped is asked whether it has ended by itself.
const LOOK: Duration = Duration::from_micros(50);

/// What a twin reads, and counts its tickets in: the table in `pass/src/device/parts/twin.rs`. The stop word
/// lies behind.
#[repr(C)]
#[derive(Debug)]
struct ControlBlock {
    next: AtomicU64,
    total: u64,
    grid: [u32; 3],
    _unused: u32,
    stop_address: u64,
    stop: AtomicU32,
}

/// A launch that is made in parts.
pub struct PartedLaunch {
    twin: Twin,
    grid: Dim3,
    block: Dim3,
    shared: usize,
    arguments: Vec<*mut c_void>,
    control: Option<PinnedControl>,
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

/// The time between two stops on average, if launches are to be stopped.
fn stop_every() -> Option<Duration> {
    static EVERY: OnceLock<Option<Duration>> = OnceLock::new();
    *EVERY.get_or_init(|| {
        let text = std::env::var("MGB_STOP_EVERY").ok()?;
        let milliseconds = text.parse::<f64>().ok();
        let every = milliseconds.and_then(|number| Duration::try_from_secs_f64(number / 1000.0).ok());
        if every.is_none() {
            mgb_stderr::say!("mgb: MGB_STOP_EVERY={text} is no number of milliseconds: no launch is stopped");
        }
        every
    })
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
    stream: Stream,
) -> Option<PartedLaunch> {
    stop_every()?;
    let twin = twins::of(kernel)?;
    let has_rows = block.x.is_multiple_of(WARP) || (block.y, block.z) == (1, 1);
    // A twin's own grid would be a valid one.
    let is_grid = grid.x <= MOST_COLUMNS && grid.y <= MOST_ROWS && grid.z <= MOST_ROWS && grid.product() > 0;
    if !is_grid || (twin.whole_rows && !has_rows) || capture::is_capturing(stream) {
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
        twin,
        grid,
        block,
        shared,
        arguments,
        control: None,
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
    pub fn run(&mut self, launch: Launch, stream: Stream, whole: impl FnOnce() -> Code) -> Code {
        // It may be tried again after it has failed.
        self.is_done = false;
        let most = self.workers();
        if self.control.is_none() && most > 0 {
            self.control = PinnedControl::new(self.grid);
            LAUNCHES.fetch_add(u64::from(self.control.is_some()), Ordering::Relaxed);
        }
        let Some(control) = self.control.take() else {
            self.is_done = true;
            return whole();
        };
        // Another GPU may run fewer at once, but one of a kernel that runs on the first.
        let code = self.part(&control, launch, default_of_thread(stream), most.max(1));
        self.control = Some(control);
        self.is_done |= !code.is_success();
        code
    }

    fn part(&mut self, control: &PinnedControl, launch: Launch, stream: Stream, most: u32) -> Code {
        let words = control.words();
        words.stop.store(0, Ordering::Release);
        let before = words.next.load(Ordering::Acquire);
        let workers = 1 + u32::try_from(random() % u64::from(most)).unwrap_or(0);
        let mut address = control.0;
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
        self.stop_later(&words.stop, stream);
        // SAFETY: the runtime's own stream.
        let code = unsafe { native::cudaStreamSynchronize(stream) };
        // The last workers take tickets of blocks that are not there.
        let next = words.next.load(Ordering::Acquire);
        self.idle = if next == before { self.idle + 1 } else { 0 };
        self.is_done = next >= words.total;
        PARTS.fetch_add(1, Ordering::Relaxed);
        code
    }

    /// Sets the stop word after a random time, unless the part ends before.
    fn stop_later(&self, stop: &AtomicU32, stream: Stream) {
        let every = stop_every().unwrap_or_default().as_nanos() as u64;
        let wait = random() % (2 * every).max(1);
        // Where nothing was done before, it takes longer to begin than that.
        let wait = Duration::from_nanos(wait) * (1 << self.idle.min(20));
        let began = Instant::now();
        while began.elapsed() < wait {
            // SAFETY: the runtime's own stream. What fails shows when it is waited for.
            if unsafe { native::cudaStreamQuery(stream) } != Code::NOT_READY {
                return;
            }
            if wait < LOOK {
                std::thread::yield_now();
            } else {
                std::thread::sleep(LOOK);
            }
        }
        stop.store(1, Ordering::Release);
    }

    /// How many workers the GPU runs at once, no more than there are blocks; 0: it cannot run the twin.
    fn workers(&self) -> u32 {
        let (mut each, mut multiprocessors, mut device) = (0, 0, 0);
        let threads = i32::try_from(self.block.product()).unwrap_or(i32::MAX);
        // SAFETY: they write one int each.
        let codes = unsafe {
            [
                native::cudaGetDevice(&mut device),
                native::cudaDeviceGetAttribute(&mut multiprocessors, MULTIPROCESSOR_COUNT, device),
                native::cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                    &mut each,
                    self.twin.stub,
                    threads,
                    self.shared,
                ),
            ]
        };
        if !codes.iter().all(|code| code.is_success()) {
            // SAFETY: no arguments. The original's launch says what is wrong.
            unsafe { native::cudaGetLastError() };
            return 0;
        }
        let most = u64::try_from(each * multiprocessors).unwrap_or(0);
        u32::try_from(most.min(self.grid.product())).unwrap_or(0)
    }
}

/// A control block in pinned memory of the host, where every GPU of the process reaches it.
struct PinnedControl(*mut c_void);

impl PinnedControl {
    fn new(grid: Dim3) -> Option<Self> {
        let mut memory = std::ptr::null_mut();
        // SAFETY: it writes one pointer.
        let code = unsafe {
            native::cudaHostAlloc(
                &mut memory,
                size_of::<ControlBlock>(),
                HOST_ALLOC_PORTABLE | HOST_ALLOC_MAPPED,
            )
        };
        if !code.is_success() {
            // SAFETY: no arguments. The program asked for nothing that failed.
            unsafe { native::cudaGetLastError() };
            return None;
        }
        let words = memory.cast::<ControlBlock>();
        // SAFETY: pinned memory of that size that nobody else knows yet; the stop word lies in it.
        unsafe {
            words.write(ControlBlock {
                next: AtomicU64::new(0),
                total: grid.product(),
                grid: grid.array(),
                _unused: 0,
                stop_address: (&raw const (*words).stop) as u64,
                stop: AtomicU32::new(0),
            });
        }
        Some(Self(memory))
    }

    fn words(&self) -> &ControlBlock {
        // SAFETY: written as it was made, and freed with this.
        unsafe { &*self.0.cast() }
    }
}

impl Drop for PinnedControl {
    fn drop(&mut self) {
        // SAFETY: memory of this block, which no work uses any more: each part was waited for.
        unsafe { native::cudaFreeHost(self.0) };
    }
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
