//! One launch while it runs: its blocks, which of them have been taken, and its outcome.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::{Condvar, Mutex};

use super::order::{BlockOrder, Sequence};
use super::output::KernelOutput;
use crate::error::Error;
use crate::image::{self, Begin, Image, KernelEntry};
use crate::texture::objects::Objects;

/// Why a kernel failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFailure {
    /// What CUDA's calls return from now on.
    pub error: Error,
    /// What happened, and where.
    pub text: String,
}

/// A kernel's code, by how its threads wait for each other.
#[derive(Clone, Copy)]
pub enum GridCode {
    /// Not at barriers: they run one after another.
    Rows(KernelEntry),
    /// Each on a stack of its own.
    Fibers(KernelEntry),
    /// The threads run as coroutines.
    Coroutines {
        /// Lays out a thread.
        begin: Begin,
        /// Bytes of a thread's frame.
        frame: usize,
    },
}

/// What a launch needs to run.
pub struct LaunchPlan {
    /// The kernel's name.
    pub name: Arc<str>,
    /// Its translation unit.
    pub image: &'static Image,
    /// The code of the kernel.
    pub code: GridCode,
    /// Stack that a thread needs.
    pub local_bytes: usize,
    /// The dimensions of the grid in blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Static shared memory.
    pub static_shared: usize,
    /// Dynamic shared memory.
    pub dynamic_shared: usize,
    /// The block of the image's variables on the device.
    pub variables: usize,
    /// The device's textures and surfaces, as they were when the launch was called.
    pub objects: Arc<Objects>,
    /// The arguments' values.
    pub arguments: Arc<Arguments>,
    /// Blocks that the device holds at once, at least 1: no more may wait for others.
    pub resident: u64,
    /// Of a cooperative launch.
    pub workspace: Option<Workspace>,
}

/// What a cooperative launch keeps its grid barrier in: as CUDA's headers have it, its size and the barrier's
/// word.
pub struct Workspace(Box<[AtomicU32; 4]>);

impl Default for Workspace {
    fn default() -> Workspace {
        Workspace(Box::new([16, 0, 0, 0].map(AtomicU32::new)))
    }
}

impl Workspace {
    /// Where it is.
    pub fn address(&self) -> *mut u32 {
        self.0[0].as_ptr()
    }
}

/// Copies of a launch's arguments, and the array that points to them.
pub struct Arguments {
    /// The values; kept for the pointers into them.
    _values: Vec<u128>,
    pointers: Vec<*const c_void>,
}

// SAFETY: the pointers point into the values, which move with them and are only read.
unsafe impl Send for Arguments {}
// SAFETY: as above.
unsafe impl Sync for Arguments {}

impl Arguments {
    /// Copies the arguments.
    ///
    /// # Safety
    /// `from` points to a pointer per parameter, each to a value of that parameter's size.
    pub unsafe fn copy(parameters: &[image::Parameter], from: *const *const c_void) -> Arguments {
        let mut offsets = Vec::with_capacity(parameters.len());
        let mut end = 0usize;
        for parameter in parameters {
            let start = end.next_multiple_of(parameter.align.clamp(1, 16) as usize);
            offsets.push(start);
            end = start + parameter.size as usize;
        }
        let mut values = vec![0u128; end.div_ceil(16)];
        let base = values.as_mut_ptr().cast::<u8>();
        let mut pointers = Vec::with_capacity(parameters.len());
        for (at, (parameter, offset)) in parameters.iter().zip(offsets).enumerate() {
            // SAFETY: the offset and size lie within `values`; the source holds a value: contract of `copy`.
            unsafe {
                let to = base.add(offset);
                std::ptr::copy_nonoverlapping((*from.add(at)).cast::<u8>(), to, parameter.size as usize);
                pointers.push(to.cast_const().cast::<c_void>());
            }
        }
        Arguments {
            _values: values,
            pointers,
        }
    }

    /// What an entry takes.
    pub fn pointers(&self) -> *const *const c_void {
        self.pointers.as_ptr()
    }
}

/// A launch that runs.
pub struct Grid {
    /// The launch that the grid runs.
    pub plan: LaunchPlan,
    /// No other has the same.
    pub number: u64,
    blocks: u64,
    /// The order of the blocks.
    order: Sequence,
    /// The order of a block's threads.
    pub threads: Sequence,
    chunk: u64,
    next: AtomicU64,
    /// Blocks that wait for others.
    waiting: AtomicU64,
    operations: AtomicU64,
    longest: AtomicU64,
    failed: AtomicBool,
    progress: Mutex<GridProgress>,
    done: Condvar,
}

#[derive(Default)]
struct GridProgress {
    finished: u64,
    failure: Option<KernelFailure>,
    output: KernelOutput,
}

/// How a launch went.
pub struct LaunchOutcome {
    /// Instructions of all threads.
    pub operations: u64,
    /// Instructions of the longest thread.
    pub longest: u64,
    /// What it printed.
    pub output: KernelOutput,
    /// Why it failed, if it did.
    pub failure: Option<KernelFailure>,
}

impl Grid {
    /// A launch that has not begun, for this many workers.
    pub fn new(plan: LaunchPlan, workers: usize) -> Grid {
        let blocks = plan.grid.iter().map(|&n| u64::from(n)).product();
        let threads = plan.block.iter().map(|&n| u64::from(n)).product();
        static LAUNCHES: AtomicU64 = AtomicU64::new(0);
        Grid {
            plan,
            number: LAUNCHES.fetch_add(1, Relaxed),
            blocks,
            order: Sequence::new(BlockOrder::get(), blocks),
            threads: Sequence::new(BlockOrder::get(), threads),
            // Small enough that the last chunks end together, large enough to be cheap to take.
            chunk: (blocks / (workers as u64 * 16)).clamp(1, 64),
            next: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            progress: Mutex::default(),
            done: Condvar::new(),
        }
    }

    /// Takes the only block of a grid that has one.
    pub fn only_block(&self) -> Option<std::ops::Range<u64>> {
        if self.blocks == 1 { self.take() } else { None }
    }

    /// Takes the next blocks; `None` once all are taken.
    pub fn take(&self) -> Option<std::ops::Range<u64>> {
        let start = self.next.fetch_add(self.chunk, Relaxed);
        (start < self.blocks).then(|| start..(start + self.chunk).min(self.blocks))
    }

    /// Whether blocks need not be run any more.
    pub fn cancelled(&self) -> bool {
        self.failed.load(Relaxed) || super::threads::stopping()
    }

    /// Whether all blocks are taken.
    pub fn exhausted(&self) -> bool {
        self.next.load(Relaxed) >= self.blocks
    }

    /// Whether as many blocks wait for others as the device holds: on a GPU no other would begin either.
    pub fn full(&self) -> bool {
        self.waiting.load(Relaxed) >= self.plan.resident && !self.cancelled()
    }

    /// Notes that a block waits.
    pub fn park(&self) {
        self.waiting.fetch_add(1, Relaxed);
    }

    /// Notes that a block waits no more.
    pub fn unpark(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// Keeps what threads printed.
    pub fn print(&self, output: KernelOutput) {
        self.progress.lock().output.append(output);
    }

    /// Notes blocks that have been run, or need not be.
    pub fn finish(&self, blocks: u64, counts: InstructionCounts, failure: Option<KernelFailure>) {
        self.operations.fetch_add(counts.operations, Relaxed);
        self.longest.fetch_max(counts.longest, Relaxed);
        let mut progress = self.progress.lock();
        progress.finished += blocks;
        if let Some(failure) = failure {
            self.failed.store(true, Relaxed);
            progress.failure.get_or_insert(failure);
        }
        if progress.finished == self.blocks {
            self.done.notify_all();
        }
    }

    /// Waits until every block has been noted.
    pub fn wait(&self) -> LaunchOutcome {
        let mut progress = self.progress.lock();
        while progress.finished < self.blocks {
            self.done.wait(&mut progress);
        }
        LaunchOutcome {
            operations: self.operations.load(Relaxed),
            longest: self.longest.load(Relaxed),
            output: std::mem::take(&mut progress.output),
            failure: progress.failure.take(),
        }
    }

    /// The index, in three dimensions, of the block that begins after so many others.
    pub fn index(&self, number: u64) -> [u32; 3] {
        let block = self.order.at(number);
        let [x, y, _] = self.plan.grid.map(u64::from);
        [(block % x) as u32, (block / x % y) as u32, (block / x / y) as u32]
    }
}

/// Instructions that threads executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstructionCounts {
    /// How many operations there were in all.
    pub operations: u64,
    /// By the longest thread.
    pub longest: u64,
}

impl InstructionCounts {
    /// Adds a thread.
    pub fn add(&mut self, operations: u64) {
        self.operations += operations;
        self.longest = self.longest.max(operations);
    }

    /// Adds other threads.
    pub fn join(&mut self, other: InstructionCounts) {
        self.operations += other.operations;
        self.longest = self.longest.max(other.longest);
    }
}
