//! Which GPUs may have work of this process under way. The words that record it lie in the channel, where
//! mgbd reads them if the process is killed.
//!
//! Recorded at every launch, right behind the write that rings the GPU's doorbell, for which an atomic
//! read-modify-write would wait. So nothing is counted here: a thread that submits work stores one word.
//! A thread that waits for all work first stores a mark of its own there, and afterwards sees by the mark
//! whether more work was submitted meanwhile.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use mgb_probe::trace::GpuTimeTrace;
use mgb_probe::wire::{GpuWords, MAX_GPUS};

use crate::urgent;

/// [`GpuWords::given`]: nothing is under way.
const NOTHING: u64 = 0;
/// [`GpuWords::given`]: there may be work; other values are marks of waiting threads.
const SOMETHING: u64 = 1;
static NEXT_MARK: AtomicU64 = AtomicU64::new(2);

/// The words of a process that has no channel.
static OWN: [GpuWords; MAX_GPUS] = [const { GpuWords::new() }; MAX_GPUS];
/// The first of the GPUs' words.
static WORDS: AtomicPtr<GpuWords> = AtomicPtr::new((&raw const OWN).cast_mut().cast());

/// Whether something was given since [`take_new`].
#[repr(align(64))]
struct New(AtomicBool);

static NEW: [New; MAX_GPUS] = [const { New(AtomicBool::new(false)) }; MAX_GPUS];

/// Whether work may be in streams of the program's own.
static STREAMS: AtomicBool = AtomicBool::new(false);

/// Streams of the program's own may have work from here on: a thread's default one, which no other thread
/// uses.
#[inline]
pub fn note_stream() {
    if !STREAMS.load(Ordering::Relaxed) {
        STREAMS.store(true, Ordering::Release);
    }
}

/// Whether streams of the program's own may have work.
pub fn any_stream() -> bool {
    STREAMS.load(Ordering::Acquire)
}

/// Sets the words that are used from here on. Called before the process's first operation.
pub fn publish(words: &'static [GpuWords; MAX_GPUS]) {
    WORDS.store(words.as_ptr().cast_mut(), Ordering::Release);
}

#[inline]
fn gpu(gpu: u32) -> &'static GpuWords {
    // SAFETY: it points to MAX_GPUS words that stay.
    unsafe { &*WORDS.load(Ordering::Acquire).add(gpu as usize % MAX_GPUS) }
}

#[inline]
fn new(gpu: u32) -> &'static AtomicBool {
    &NEW[gpu as usize % MAX_GPUS].0
}

/// Work was handed to the GPU: called after the call that did so.
#[inline]
pub fn note(number: u32) {
    gpu(number).given.store(SOMETHING, Ordering::Release);
    new(number).store(true, Ordering::Release);
    urgent::begins(number);
}

/// A kernel of so many warps was launched on the GPU.
#[inline]
pub fn note_warps(number: u32, warps: u64) {
    let largest = &gpu(number).warps;
    if warps > largest.load(Ordering::Relaxed) {
        largest.fetch_max(warps, Ordering::Relaxed);
    }
}

/// Work may be under way on the GPU at any time from here on: some call went to the runtime by a jump.
pub fn note_endless(number: u32) {
    gpu(number).endless.store(1, Ordering::Release);
}

/// Whether work may be under way.
pub fn is_busy(number: u32) -> bool {
    gpu(number).is_busy()
}

/// Whose the time of the process's GPUs was, as mgbd has told.
pub fn gpu_times() -> Vec<GpuTimeTrace> {
    let times = (0..MAX_GPUS as u32).map(|number| (number, gpu(number).time()));
    times
        .filter_map(|(number, time)| GpuTimeTrace::of(number, time))
        .collect()
}

/// Whether work was given since this was asked last: work whose call has returned.
pub fn take_new(number: u32) -> bool {
    new(number).swap(false, Ordering::AcqRel) || gpu(number).endless.load(Ordering::Acquire) != 0
}

/// Everything that was given is done, and the process ends: of calls that went to the runtime by a jump too.
pub fn ended(number: u32) {
    gpu(number).endless.store(0, Ordering::Release);
    gpu(number).given.store(NOTHING, Ordering::Release);
}

/// Marks what was given to the GPU so far. `None`: nothing is under way, a thread waits for it, or nobody can
/// know what is given.
pub fn mark(number: u32) -> Option<u64> {
    let words = gpu(number);
    let mark = NEXT_MARK.fetch_add(1, Ordering::Relaxed);
    let marked = words
        .given
        .compare_exchange(SOMETHING, mark, Ordering::AcqRel, Ordering::Relaxed);
    (marked.is_ok() && words.endless.load(Ordering::Acquire) == 0).then_some(mark)
}

/// Whether nothing was given to the GPU since the mark, and no thread has come to wait for it.
pub fn is_unchanged(number: u32, mark: u64) -> bool {
    gpu(number).given.load(Ordering::Acquire) == mark
}

/// A wait for all work of a GPU.
pub struct Wait {
    number: u32,
    mark: u64,
}

/// A wait for all work of the GPU begins.
pub fn wait(number: u32) -> Wait {
    let given = &gpu(number).given;
    let mark = NEXT_MARK.fetch_add(1, Ordering::Relaxed);
    let before = given.load(Ordering::Acquire);
    let marked = before != NOTHING
        && given
            .compare_exchange(before, mark, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
    Wait {
        number,
        mark: if marked { mark } else { NOTHING },
    }
}

impl Wait {
    /// Everything that had been given is done.
    pub fn over(self) {
        if self.mark != NOTHING {
            let given = &gpu(self.number).given;
            if given
                .compare_exchange(self.mark, NOTHING, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                urgent::over(self.number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_idle_only_when_a_wait_has_seen_the_last_work() {
        let gpu = MAX_GPUS as u32 - 1;
        assert!(!is_busy(gpu) && !take_new(gpu));
        wait(gpu).over();
        note(gpu);
        assert!(is_busy(gpu) && take_new(gpu) && !take_new(gpu));
        // More work comes while one waits.
        let first = wait(gpu);
        note(gpu);
        first.over();
        assert!(is_busy(gpu));
        // Of two waits, the one that began last sees the new work.
        let first = wait(gpu);
        let second = wait(gpu);
        first.over();
        assert!(is_busy(gpu));
        second.over();
        assert!(!is_busy(gpu));
        // A wait that failed does not show that the work ended.
        note(gpu);
        let _ = wait(gpu);
        assert!(is_busy(gpu));
        wait(gpu).over();
        // A mark stands until something is given or waited for.
        note(gpu);
        let marked = mark(gpu).expect("there is work, and nobody waits");
        assert!(is_busy(gpu) && is_unchanged(gpu, marked) && mark(gpu).is_none());
        note(gpu);
        assert!(!is_unchanged(gpu, marked));
        let marked = mark(gpu).expect("there is more");
        wait(gpu).over();
        assert!(!is_busy(gpu) && !is_unchanged(gpu, marked) && mark(gpu).is_none());
        note_endless(gpu);
        assert!(is_busy(gpu) && take_new(gpu) && take_new(gpu));
    }
}
