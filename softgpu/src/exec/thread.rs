//! One thread of a block: what generated code sees, and what the runtime keeps behind it.

use std::ffi::c_void;
use std::sync::Arc;

use super::fiber::{Pause, Suspender};
use super::grid::KernelFailure;
use super::output::KernelOutput;
use super::warp::WarpRequest;
use crate::image::{self, KernelEntry};
use crate::texture::objects::Objects;

/// A thread. Generated code gets a pointer to `public`, and hands it back in its calls.
#[repr(C)]
pub struct BlockThread {
    /// What generated code sees.
    pub public: image::Thread,
    /// Its number in the block.
    pub index: u32,
    /// What it waits for.
    pub request: WaitRequest,
    /// Set while it runs.
    pub suspender: *const Suspender,
    /// Set while it runs: the end of the part of its stack that is its own; what calls it lies above.
    pub stack_end: *const u8,
    /// What a fiber that is used again runs next.
    pub entry: Option<KernelEntry>,
    /// With these arguments.
    pub arguments: *const *const c_void,
    /// The memory that the threads of the block share.
    pub block: *mut BlockShared,
}

/// What a suspended thread waits for.
#[derive(Clone, Copy, Debug)]
pub enum WaitRequest {
    /// The thread waits for nothing.
    None,
    /// Barrier `id`, of `threads` threads (0: all), with a predicate to reduce.
    Barrier {
        /// The number of the barrier.
        id: u32,
        /// How many threads.
        threads: u32,
        /// How to reduce.
        reduce: Option<Reduce>,
        /// What to reduce.
        predicate: bool,
    },
    /// Nothing either: it has come to barrier `id`, of `threads` threads, and goes on.
    Arrive {
        /// The number of the barrier.
        id: u32,
        /// How many threads.
        threads: u32,
    },
    /// Something of its warp.
    Warp(WarpRequest),
    /// Nothing: it lets others run.
    Turn,
}

/// What a barrier makes of its threads' predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// How many are true.
    Count,
    /// Whether all are.
    And,
    /// Whether any is.
    Or,
}

/// How threads wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// The threads cannot wait.
    Never,
    /// Where they are, on a stack of their own.
    OnStacks,
    /// By returning, as coroutines: a service only notes what is asked.
    InFrames,
}

/// What the threads of a block share in the runtime.
pub struct BlockShared {
    /// How its threads wait.
    pub waiting: WaitMode,
    /// The kernel's name, for messages.
    pub kernel: Arc<str>,
    /// The textures and surfaces that they can use.
    pub objects: Arc<Objects>,
    /// What they printed.
    pub output: KernelOutput,
    /// Why the kernel fails, once it does.
    pub failure: Option<KernelFailure>,
}

impl Default for BlockShared {
    fn default() -> BlockShared {
        BlockShared {
            waiting: WaitMode::Never,
            kernel: Arc::from(""),
            objects: Arc::default(),
            output: KernelOutput::default(),
            failure: None,
        }
    }
}

impl BlockThread {
    /// A thread of a block, before its place in it is known.
    pub fn new(public: image::Thread, block: *mut BlockShared) -> BlockThread {
        let suspender = std::ptr::null();
        BlockThread {
            public,
            index: 0,
            request: WaitRequest::None,
            suspender,
            stack_end: std::ptr::null(),
            entry: None,
            arguments: std::ptr::null(),
            block,
        }
    }

    /// Gives the thread its place in the block.
    pub fn place(&mut self, index: u32) {
        let [x, y, _] = self.public.ntid;
        self.index = index;
        self.public.tid = [index % x, index / x % y, index / x / y];
        self.public.lane = index % 32;
        self.public.warp = index / 32;
        self.public.ops = 0;
        self.public.polls = 0;
        self.request = WaitRequest::None;
    }

    /// Puts the thread at the start of a block, in the same place of it.
    pub fn again(&mut self, block: [u32; 3]) {
        self.public.ctaid = block;
        self.public.ops = 0;
        self.public.polls = 0;
        self.request = WaitRequest::None;
    }

    /// Waits for `request`; returns the operation's answer. A coroutine gets that later.
    #[inline(always)]
    pub fn wait(&mut self, request: WaitRequest) -> u32 {
        self.request = request;
        if self.in_frame() {
            return 0;
        }
        // SAFETY: services are called only while the thread runs, which set it.
        unsafe { (*self.suspender).suspend(Pause::Waiting) };
        self.public.answer
    }

    fn in_frame(&self) -> bool {
        // SAFETY: the block outlives its threads, and only one of them runs at a time.
        unsafe { (*self.block).waiting == WaitMode::InFrames }
    }

    /// Lets others run.
    pub fn turn(&mut self) {
        self.request = WaitRequest::Turn;
        if self.in_frame() {
            return;
        }
        // SAFETY: the suspender is that of the fiber that runs now, as in `wait`.
        unsafe { (*self.suspender).suspend(Pause::Turn) };
    }

    /// Ends the thread.
    pub fn end(&mut self) -> ! {
        loop {
            // SAFETY: the suspender is that of the fiber that runs now, as in `wait`. A fiber that has ended
            // so is never resumed.
            unsafe { (*self.suspender).suspend(Pause::Ended) };
        }
    }

    /// Ends the kernel.
    pub fn fail(&mut self, failure: KernelFailure) -> ! {
        // SAFETY: the block outlives its threads, and only one of them runs at a time.
        unsafe { (*self.block).failure.get_or_insert(failure) };
        loop {
            // SAFETY: the suspender is that of the fiber that runs now, as in `wait`. A fiber given up is
            // never resumed.
            unsafe { (*self.suspender).suspend(Pause::GivenUp) };
        }
    }

    /// Where it stands, for messages.
    pub fn position(&self) -> String {
        let [bx, by, bz] = self.public.ctaid;
        let [tx, ty, tz] = self.public.tid;
        format!("block ({bx},{by},{bz}), thread ({tx},{ty},{tz})")
    }
}

/// The runtime's side of a thread.
///
/// # Safety
/// `thread` is what the runtime handed to generated code, on the fiber that runs it now.
pub unsafe fn own<'a>(thread: *mut image::Thread) -> &'a mut BlockThread {
    // SAFETY: `public` is the first field of a `BlockThread`, in C's layout.
    unsafe { &mut *thread.cast::<BlockThread>() }
}
