//! What a client says about itself while it runs: launches in flight, bytes
//! resident, contexts made.
//!
//! `mgbd` adds up what each process may still map (reserved minus resident) to
//! tell whether a new grant is physically covered. So `resident` must never be
//! above the truth: call [`Published::mapped`] after memory was mapped, and
//! [`Published::unmapping`] before it is unmapped.

use std::sync::atomic::Ordering;

use crate::wire::{GpuWords, JoinedMps, MAX_GPUS, PublishedWords};

/// The client's side of the words it publishes. GPUs are indices into
/// [`crate::Hello::gpus`]; others are ignored.
#[repr(transparent)]
pub struct Published(PublishedWords);

impl Published {
    pub(crate) fn new(words: &PublishedWords) -> &Published {
        // SAFETY: `Published` is `repr(transparent)` over `PublishedWords`; the reference's lifetime is that
        // of `words`.
        unsafe { &*std::ptr::from_ref(words).cast::<Published>() }
    }

    /// The words of each GPU, for a runtime that notes in `given` and `endless` when
    /// work may be under way.
    pub fn gpus(&self) -> &[GpuWords; MAX_GPUS] {
        &self.0.gpus
    }

    /// A kernel or copy is about to be handed to the GPU. Of two threads that say so at the same moment one
    /// may go uncounted, and what is counted as finished at that moment may stay: the next time that
    /// everything is known to be finished puts it right. An exact count would cost each launch an atomic
    /// read-modify-write.
    #[inline]
    pub fn launch_started(&self, gpu: u32) {
        if let Some(GpuWords { launches, .. }) = self.0.gpus.get(gpu as usize) {
            let now = launches.load(Ordering::Relaxed);
            launches.store(now.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// One that was handed to the GPU has finished.
    pub fn launch_finished(&self, gpu: u32) {
        self.launches_finished(gpu, 1);
    }

    /// `count` of them have finished.
    pub fn launches_finished(&self, gpu: u32, count: u32) {
        if let Some(GpuWords { launches, .. }) = self.0.gpus.get(gpu as usize) {
            let _ = launches.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                Some(now.saturating_sub(count))
            });
        }
    }

    /// Launches in flight.
    pub fn launches_in_flight(&self, gpu: u32) -> u32 {
        self.0
            .gpus
            .get(gpu as usize)
            .map_or(0, |words| words.launches.load(Ordering::Relaxed))
    }

    /// `bytes` more are mapped. Call it after mapping them.
    pub fn mapped(&self, gpu: u32, bytes: u64) {
        if let Some(GpuWords { resident, .. }) = self.0.gpus.get(gpu as usize) {
            resident.fetch_add(bytes, Ordering::Release);
            self.0.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// `bytes` are about to be unmapped. Call it before unmapping them.
    pub fn unmapping(&self, gpu: u32, bytes: u64) {
        if let Some(GpuWords { resident, .. }) = self.0.gpus.get(gpu as usize) {
            let _ = resident.fetch_update(Ordering::Release, Ordering::Relaxed, |now| {
                Some(now.saturating_sub(bytes))
            });
            self.0.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Bytes mapped now.
    pub fn resident_bytes(&self, gpu: u32) -> u64 {
        self.0
            .gpus
            .get(gpu as usize)
            .map_or(0, |words| words.resident.load(Ordering::Relaxed))
    }

    /// The process has joined MPS so, or will as its driver is initialised.
    pub fn joins_mps(&self, joined: JoinedMps) {
        self.0.join_mps(joined);
    }

    /// The process has a context on `gpu` now. Call it once the context is made.
    pub fn context_made(&self, gpu: u32) {
        if (gpu as usize) < MAX_GPUS {
            self.0.contexts.fetch_or(1 << gpu, Ordering::Release);
            self.0.changes.fetch_add(1, Ordering::Release);
        }
    }
}
