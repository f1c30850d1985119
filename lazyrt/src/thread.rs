//! The state that lazyrt keeps for each thread of the program.
//!
//! Plain cells without a destructor: reading them costs a few nanoseconds, and they can be read until the
//! very end of the thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::code::Code;
use crate::launch_view::{Device, LaunchView};

/// The task of the thread's next GPU operation: a hint of the pass, given by `mgb_task_use`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteHint {
    /// Address of the site, 0 for none.
    pub site: usize,
    /// Number of the site in its module's report.
    pub id: u32,
    /// Handle of the task. Where that has not begun: 0 if the thread stands for the activation, else the
    /// activation's number, marked. One word for both, since every launch writes it.
    pub handle: u64,
}

/// Marks the number of an activation in place of a handle. Handles count from 1.
const ACTIVATION: u64 = 1 << 62;

/// One activation of the function that a site is in: what it allocates before its task begins is the task's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Activation {
    /// Address of the site.
    pub site: usize,
    number: u64,
    thread: u64,
}

impl Activation {
    /// The activation with this number; with 0, the one that the calling thread stands for.
    pub fn new(site: usize, number: u64) -> Activation {
        let thread = if number == 0 {
            with(|thread| thread.number())
        } else {
            0
        };
        Activation { site, number, thread }
    }

    /// Whether it is known itself. Otherwise several that are active at once on a thread look the same.
    pub fn is_known(&self) -> bool {
        self.number != 0
    }
}

impl SiteHint {
    /// For an operation of this activation of a task that has not begun.
    pub fn before_begin(site: usize, id: u32, activation: u64) -> SiteHint {
        let handle = match activation {
            0 => 0,
            number => number | ACTIVATION,
        };
        SiteHint { site, id, handle }
    }

    /// The handle of the task, if it has begun.
    pub fn task(&self) -> Option<u64> {
        let has_begun = self.handle != 0 && self.handle & ACTIVATION == 0;
        has_begun.then_some(self.handle)
    }

    /// The activation that the operation is in, before its task has begun; none without a site.
    pub fn activation(&self) -> Option<Activation> {
        let is_before = self.site != 0 && self.task().is_none();
        is_before.then(|| Activation::new(self.site, self.handle & !ACTIVATION))
    }
}

/// The real device of a thread that has not chosen one.
const NO_DEVICE: i32 = -1;

/// What lazyrt knows of one thread of the program.
pub struct Thread {
    next: Cell<SiteHint>,
    is_hinted: Cell<bool>,
    program_device: Cell<i32>,
    real_device: Cell<i32>,
    gpu: Cell<Option<u32>>,
    error: Cell<Code>,
    number: Cell<u64>,
    cached: Cell<Option<&'static LaunchView>>,
    joined: Cell<u64>,
    gathers: Cell<bool>,
    per_thread: Cell<bool>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            next: Cell::new(SiteHint { site: 0, id: 0, handle: 0 }),
            is_hinted: Cell::new(false),
            program_device: Cell::new(0),
            real_device: Cell::new(NO_DEVICE),
            gpu: Cell::new(None),
            error: Cell::new(Code::SUCCESS),
            number: Cell::new(0),
            cached: Cell::new(None),
            joined: Cell::new(0),
            gathers: Cell::new(false),
            per_thread: Cell::new(false),
        }
    };
}

/// Runs `f` with the calling thread's cells.
pub fn with<T>(f: impl FnOnce(&Thread) -> T) -> T {
    THREAD.with(f)
}

/// The device that the program has chosen on this thread.
pub fn current_device() -> Device {
    with(|thread| thread.device())
}

impl Thread {
    /// Notes the task of the next operation.
    pub fn hint(&self, next: SiteHint) {
        self.next.set(next);
        self.is_hinted.set(true);
    }

    /// Takes the hint, which holds for one operation only.
    pub fn take_hint(&self) -> Option<SiteHint> {
        self.is_hinted.replace(false).then(|| self.next.get())
    }

    /// The device the program believes to be current.
    pub fn program_device(&self) -> i32 {
        self.program_device.get()
    }

    /// The device the program believes to be current, as an index of tables.
    pub fn device(&self) -> Device {
        (self.program_device.get() as usize).min(mgb_probe::wire::MAX_GPUS - 1)
    }

    /// The program chose a device.
    pub fn set_program_device(&self, device: i32) {
        self.program_device.set(device);
    }

    /// Whether `ordinal` is the runtime's current device of this thread.
    pub fn is_on(&self, ordinal: i32) -> bool {
        self.real_device.get() == ordinal
    }

    /// The runtime's current device of this thread is that GPU, `ordinal` in this process, now.
    pub fn set_on(&self, gpu: u32, ordinal: i32) {
        self.real_device.set(ordinal);
        self.gpu.set(Some(gpu));
    }

    /// Nobody knows what the runtime's current device of this thread is.
    pub fn set_anywhere(&self) {
        self.real_device.set(NO_DEVICE);
        self.gpu.set(None);
    }

    /// The GPU of the runtime's current device, if lazyrt chose one.
    pub fn gpu(&self) -> Option<u32> {
        self.gpu.get()
    }

    /// Keeps an error for `cudaGetLastError`.
    pub fn set_error(&self, code: Code) {
        self.error.set(code);
    }

    /// The kept error.
    pub fn error(&self) -> Code {
        self.error.get()
    }

    /// The task of the last handle that this thread used, if it is still that one's.
    pub fn cached(&self, handle: u64) -> Option<&'static LaunchView> {
        self.cached.get().filter(|shared| shared.is_of(handle))
    }

    /// Keeps the task of a handle.
    pub fn cache(&self, shared: &'static LaunchView) {
        self.cached.set(Some(shared));
    }

    /// Whether this is the handle, not 0, of a static task that became part of the lazy task, the last such
    /// that this thread used.
    pub fn has_joined(&self, handle: u64) -> bool {
        self.joined.get() == handle
    }

    /// The handle means the lazy task.
    pub fn note_joined(&self, handle: u64) {
        self.joined.set(handle);
    }

    /// Whether the thread may have allocated something for a site that has not begun.
    pub fn gathers(&self) -> bool {
        self.gathers.get()
    }

    /// The thread has allocated something for a site that has not begun.
    pub fn note_gathering(&self) {
        self.gathers.set(true);
    }

    /// Whether the call that the thread is in takes the default stream for the thread's own.
    pub fn is_per_thread(&self) -> bool {
        self.per_thread.get()
    }

    /// Such a call begins or ends.
    pub fn set_per_thread(&self, inside: bool) {
        self.per_thread.set(inside);
    }

    /// A number that no other thread of the process has had.
    pub fn number(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if self.number.get() == 0 {
            self.number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        self.number.get()
    }
}
