//! The bytes that all processes of a user share about the devices.
//!
//! A process killed at any instruction leaves nothing that misleads: it writes only its own slot
//! and, under the lock, the clocks; sums are computed at each query; a slot counts only while its
//! owner lives (see `lease`). All fields are atomics because other processes write them meanwhile.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::config::spec::MAX_DEVICES;

/// Says that the file is a state file of this layout: "sgpu" and the layout's version.
pub const MAGIC: u64 = u64::from_be_bytes(*b"sgpu\0\0\0\x02");

/// Processes that can hold device memory at once.
pub const SLOTS: usize = 1024;

/// Kernels of a device whose modelled time is kept.
pub const SPANS: usize = 256;

/// The whole file.
#[repr(C)]
pub struct Layout {
    /// [`MAGIC`], written last when the file is made.
    pub magic: AtomicU64,
    /// Fingerprint of the device configuration and of this boot of the machine.
    pub fingerprint: AtomicU64,
    /// Slots from here on were never used.
    pub slots_used: AtomicU32,
    /// Fills up the line.
    pub reserved: [AtomicU32; 11],
    /// One per process.
    pub slots: [ProcessSlot; SLOTS],
    /// One per device.
    pub clocks: [Clock; MAX_DEVICES],
}

/// What one process holds.
#[repr(C)]
pub struct ProcessSlot {
    /// The owner, as it sees itself; 0: the slot is free. For NVML's lists only: whether the owner
    /// lives is known by its lease.
    pub pid: AtomicU32,
    /// Fills up the word.
    pub reserved: AtomicU32,
    /// Bit per device on which it has a context.
    pub contexts: AtomicU64,
    /// Device memory it holds, contexts included.
    pub bytes: [AtomicU64; MAX_DEVICES],
}

/// How far a device's engines are booked, in nanoseconds of `CLOCK_MONOTONIC`.
#[repr(C)]
pub struct Clock {
    /// Until when the copy engines are busy: to the device, from the device.
    pub copies: [AtomicU64; 2],
    /// Kernels of late, in no order; `end` 0: unused.
    pub kernels: [KernelSpan; SPANS],
}

/// When a kernel runs, in modelled time, and how much of the device it takes.
#[repr(C)]
pub struct KernelSpan {
    /// The start of the span.
    pub start: AtomicU64,
    /// Its end; cleared before the others change, and set last.
    pub end: AtomicU64,
    /// Warps it occupies.
    pub warps: AtomicU64,
    /// The slot of its process.
    pub slot: AtomicU64,
    /// 1 where its process is no client of MPS.
    pub alone: AtomicU64,
}
