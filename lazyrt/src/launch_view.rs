//! The part of a task that a launch reads, without any lock.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A device as the program numbers them.
pub type Device = usize;

/// The part of a task that a launch reads without any lock. Never freed, only reused for another task.
#[derive(Debug)]
pub struct LaunchView {
    handle: AtomicU64,
    ready: AtomicBool,
    empty: AtomicBool,
    gpu: AtomicU32,
    ordinal: AtomicI32,
    lent: AtomicU64,
    device: AtomicUsize,
    resting: AtomicBool,
}

impl LaunchView {
    /// For a new task.
    pub fn leak() -> &'static LaunchView {
        Box::leak(Box::new(LaunchView {
            handle: AtomicU64::new(0),
            ready: AtomicBool::new(false),
            empty: AtomicBool::new(true),
            gpu: AtomicU32::new(0),
            ordinal: AtomicI32::new(0),
            lent: AtomicU64::new(0),
            device: AtomicUsize::new(0),
            resting: AtomicBool::new(false),
        }))
    }

    /// Whether it belongs to the task of this handle.
    pub fn is_of(&self, handle: u64) -> bool {
        self.handle.load(Ordering::Acquire) == handle
    }

    /// Whether the task is bound and all its objects are backed. Only stable inside the gate.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Whether the task is bound.
    pub fn is_bound(&self) -> bool {
        self.handle.load(Ordering::Acquire) != 0
    }

    /// Whether the task has no objects.
    pub fn is_empty(&self) -> bool {
        self.empty.load(Ordering::Acquire)
    }

    /// The GPU (index into the hello) and its ordinal in this process. Only of a task that was ready.
    pub fn placement(&self) -> (u32, i32) {
        (
            self.gpu.load(Ordering::Relaxed),
            self.ordinal.load(Ordering::Relaxed),
        )
    }

    /// Whether another GPU may use all its memory. Only of a task that is ready.
    pub fn is_lent(&self, gpu: u32) -> bool {
        self.lent.load(Ordering::Acquire) & (1 << gpu) != 0
    }

    /// Whether any other GPU may use its memory.
    pub fn is_lent_at_all(&self) -> bool {
        self.lent.load(Ordering::Acquire) != 0
    }

    /// Another GPU may use all its memory.
    pub fn note_lent(&self, gpu: u32) {
        self.lent.fetch_or(1 << gpu, Ordering::Release);
    }

    /// The program's device that was current when the task was made.
    pub fn device(&self) -> Device {
        self.device.load(Ordering::Relaxed)
    }

    /// Whether the task is over and only keeps its grant, which mgbd may have revoked without a
    /// message.
    pub fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }

    /// The task is over and keeps its grant, or begins again.
    pub fn set_resting(&self, rests: bool) {
        self.resting.store(rests, Ordering::Relaxed);
    }

    /// Reuses it for a new task of that device, which is on no GPU.
    pub fn renew(&self, device: Device) {
        self.handle.store(0, Ordering::Release);
        self.lent.store(0, Ordering::Release);
        self.set(false, true);
        self.set_resting(false);
        self.device.store(device, Ordering::Relaxed);
    }

    /// Whether the task is ready, and whether it has no objects.
    pub fn set(&self, ready: bool, empty: bool) {
        self.empty.store(empty, Ordering::Release);
        self.ready.store(ready, Ordering::Release);
    }

    /// The task was granted that GPU.
    pub fn bind(&self, handle: u64, gpu: u32, ordinal: i32) {
        self.gpu.store(gpu, Ordering::Relaxed);
        self.ordinal.store(ordinal, Ordering::Relaxed);
        self.handle.store(handle, Ordering::Release);
    }

    /// No other GPU may use its memory any more.
    pub fn forget_lent(&self) {
        self.lent.store(0, Ordering::Release);
    }
}
