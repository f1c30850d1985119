//! Stacks that kernels run on, with guard pages, and the coroutines on them.

use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, Yielder};

use crate::error::Result;
use crate::pages::{self, PAGE};

/// Bytes of stack beyond what a kernel says it needs: runtime services run there too, and stacks begin at
/// different offsets.
const BASE: usize = 64 << 10;

/// Bytes below each stack that fault.
const GUARD: usize = 4 * PAGE;

/// Why a fiber is suspended: it waits, or it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It waits for what its thread's request says.
    Waiting,
    /// It can go on, and lets others run before.
    Turn,
    /// Its thread has returned; resumed, it runs the next that it is given.
    Done,
    /// Its thread has ended where it was; it is never resumed.
    Ended,
    /// Its kernel has failed; it is never resumed.
    GivenUp,
}

/// How a fiber ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The thread has returned.
    Done,
    /// By a fault of the machine.
    Fault {
        /// The number of the signal.
        signal: i32,
        /// The address it is about.
        address: usize,
    },
}

/// A fiber, which runs one thread on a stack of its own.
pub type Fiber = Coroutine<(), Pause, Exit, FiberStack>;

/// What a running fiber suspends itself with.
pub type Suspender = Yielder<(), Pause>;

/// Stacks begin at this many different offsets in a page, so that what threads that take turns keep there
/// does not compete for the same lines of the cache.
const PLACES: usize = 32;

/// Bytes from one offset to the next: lines of the cache, and enough for the frames of a small kernel.
const APART: usize = 128;

/// A stack and its guard.
#[derive(Debug)]
pub struct FiberStack {
    bottom: usize,
    length: usize,
    /// Bytes above the offset at which it begins.
    unused: usize,
}

impl FiberStack {
    fn new(usable: usize, number: usize) -> Result<FiberStack> {
        let length = usable + GUARD;
        let bottom = pages::reserve(0, length, PAGE)?;
        let stack = FiberStack {
            bottom,
            length,
            unused: number % PLACES * APART,
        };
        // A guard that is no mapping of its own is preferred: a process has room for 65,530 of those only.
        if pages::fill(bottom, length).is_err() || !pages::guard(bottom, GUARD) {
            pages::fill(bottom, length)?;
            pages::protect(bottom, GUARD, false, false)?;
        }
        Ok(stack)
    }
}

impl Drop for FiberStack {
    fn drop(&mut self) {
        pages::release(self.bottom, self.length);
    }
}

// SAFETY: the range is mapped for as long as the value lives, page-aligned, and its lowest pages
// cannot be touched.
unsafe impl Stack for FiberStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.bottom + self.length - self.unused)
            .expect("a mapping does not end at address zero")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.bottom).expect("the kernel maps nothing at address zero")
    }
}

/// Stacks of one size that are not in use.
#[derive(Debug, Default)]
pub struct Stacks {
    usable: usize,
    free: Vec<FiberStack>,
    made: usize,
}

impl Stacks {
    /// Sees to it that stacks handed out have room for `local` bytes of a kernel.
    pub fn fit(&mut self, local: usize) {
        let usable = (BASE + local).next_multiple_of(PAGE);
        if usable > self.usable || usable < self.usable / 4 {
            self.usable = usable;
            self.free.clear();
        }
    }

    /// Bytes of the stacks that are handed out.
    pub fn usable(&self) -> usize {
        self.usable
    }

    /// A stack.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION` if the host has no more addresses or mappings.
    pub fn take(&mut self) -> Result<FiberStack> {
        match self.free.pop() {
            Some(stack) => Ok(stack),
            None => {
                self.made += 1;
                FiberStack::new(self.usable.max(BASE), self.made)
            }
        }
    }

    /// Takes a fiber's stack back, whether it has ended or not.
    pub fn give(&mut self, mut fiber: Fiber) {
        if !fiber.done() {
            // SAFETY: fibers hold nothing that must be dropped when they suspend: generated code has
            // no destructors, and services keep none across a suspension.
            unsafe { fiber.force_reset() };
        }
        let stack = fiber.into_stack();
        if stack.length - GUARD == self.usable.max(BASE) {
            self.free.push(stack);
        }
    }
}
