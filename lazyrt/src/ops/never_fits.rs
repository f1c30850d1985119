//! What no GPU can hold is refused as it is allocated, as CUDA refuses it.

use std::sync::atomic::{AtomicBool, Ordering};

use mgb_core::arena::SMALL;
use mgb_probe::need::{GRANULE, LAZY};
use mgb_probe::{BeginRequest, Need};

use crate::state::{Key, ProcessState};
use crate::{device, session};

/// A task with so many objects may be one that allocates until nothing is left, to use all of it at once.
const MANY_OBJECTS: u64 = 2;

/// What could not be held on any GPU that it may still go to.
pub struct NeverFits {
    /// Who wants too much: the task, or all tasks of the program's device together.
    pub whose: &'static str,
    /// Bytes that are wanted.
    pub wanted: u64,
    /// Bytes that the largest of the GPUs has.
    pub largest: u64,
    /// The GPU to which the task is bound.
    gpu: Option<u32>,
}

/// Whether the task would be that with `bytes` more. A static task of several objects counts with what its
/// launches need beside it. For a lazy task that is all tasks of its device together: each by itself could
/// have a GPU in turn, but a launch may need two of them at once.
pub fn never_fits(state: &ProcessState, key: Key, bytes: u64) -> Option<NeverFits> {
    let task = state.task_at(key)?;
    let bound = task.id.and(task.gpu);
    // A program that has something already may go on until nothing is left.
    let kept = if state.live_of(task.device) > 0 {
        device::UNREACHABLE
    } else {
        0
    };
    let largest_of = |is_meant: &dyn Fn(u32) -> bool| {
        let gpus = session::gpus().iter().filter(|gpu| is_meant(gpu.index));
        gpus.map(|gpu| device::capacity(gpu).saturating_sub(kept)).max()
    };
    let own_largest = largest_of(&|gpu| bound.is_none_or(|bound| bound == gpu))?;
    let more = if bytes < SMALL && task.pool.has_room(bytes) {
        0
    } else {
        bytes.saturating_add(GRANULE - 1) / GRANULE * GRANULE
    };
    let committed = task
        .unevictable()
        .max(task.live.saturating_add(bytes))
        .max(task.unevictable().saturating_add(more));
    if committed > own_largest {
        return Some(NeverFits {
            whose: "its task needs",
            wanted: committed,
            largest: own_largest,
            gpu: bound,
        });
    }
    // Two large objects of two tasks may never meet in a launch: they take turns then.
    let beside = if task.objects >= MANY_OBJECTS {
        state.beside(key)
    } else {
        0
    };
    let together = committed.saturating_add(beside);
    if together > own_largest {
        return Some(NeverFits {
            whose: "a launch may need",
            wanted: together,
            largest: own_largest,
            gpu: bound,
        });
    }
    if !state.is_lazy(key) {
        // It leaves the GPU while others run.
        return None;
    }
    // Its objects may be used with any of the program's, which sees one device that holds them all.
    let (wanted, largest) = (
        state.live_of(task.device).saturating_add(bytes),
        largest_of(&|_| true)?,
    );
    (wanted > largest).then_some(NeverFits {
        whose: "the program has",
        wanted,
        largest,
        gpu: None,
    })
}

/// In a job of Slurm, has mgbd refuse it as well, once: there it stands in the job's record, so that its next
/// run comes to a node with a larger GPU.
pub fn have_refused(never: &NeverFits) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if mgb_probe::job().and_then(mgb_probe::slurm_job).is_none() || TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    let need = Need {
        peak_bytes: never.wanted,
        flags: LAZY,
        ..Need::default()
    };
    let request = BeginRequest {
        need,
        gpu: never.gpu,
        ..BeginRequest::default()
    };
    // No GPU has so much, unless mgbd does not look at memory.
    if let Some(Ok(grant)) = session::client().map(|client| client.begin(&request)) {
        session::end(grant.task, 0);
    }
}
