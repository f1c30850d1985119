//! Swapping out: a quiescent task's memory goes to the host, its addresses stay.
//!
//! Quiescent means: the gate is closed, so no thread is in a native call, and the GPU has finished all it
//! was given. The next op of the task asks for room again and brings the bytes back to the same GPU.
//! If the GPU's work does not end, nothing is swapped.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mgb_core::gate::Closed;
use mgb_core::notice;
use mgb_core::swaps::{Spent, Watch};
use mgb_core::{gpu_idle, quiesce};
use mgb_probe::TaskId;
use mgb_probe::trace::SwapKind;

use crate::mapping;
use crate::offload;
use crate::state::{self, Evicting, Key, ProcessState};
use crate::{device, session};

/// Threads that bring in all that one op touches, and did not have all of it at once.
static GATHERING: AtomicU32 = AtomicU32::new(0);

/// While a thread has one, nothing of this process counts as idle: an op that touches several tasks would
/// lose one while it waits for the other, for ever. Only who waits for memory itself, or a person, has memory
/// leave then.
pub struct Gathering(());

impl Gathering {
    /// From here on.
    pub fn begin() -> Gathering {
        GATHERING.fetch_add(1, Ordering::SeqCst);
        Gathering(())
    }

    /// Whether a thread has one.
    pub fn is_under_way() -> bool {
        GATHERING.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        GATHERING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Swaps one task out. False: nothing could be freed.
pub fn out_task(key: Key) -> bool {
    let choose = |state: &ProcessState| Some(state.resolve(key)).into_iter().collect();
    out(choose, quiesce::QUIET_TIMEOUT) > 0
}

/// Swaps all tasks on the GPU out, as far as that is possible: mgbd sees what came of it.
pub fn out_gpu(gpu: u32) {
    out(|state| holding(state, gpu), quiesce::QUIET_TIMEOUT);
}

/// Swaps all tasks on the GPU out, if they are idle; the bytes that are free then.
pub fn out_idle(gpu: u32) -> u64 {
    let choose = |state: &ProcessState| {
        if Gathering::is_under_way() {
            Vec::new()
        } else {
            holding(state, gpu)
        }
    };
    out(choose, quiesce::IDLE_TIMEOUT)
}

/// Swaps all tasks on the GPU out once the work that is under way there is done; the bytes that are free
/// then.
pub fn out_suspended(gpu: u32) -> u64 {
    out(|state| holding(state, gpu), quiesce::SUSPEND_TIMEOUT)
}

/// The tasks that have room on the GPU.
fn holding(state: &ProcessState, gpu: u32) -> Vec<Key> {
    let there = state
        .tasks()
        .filter(|(_, task)| task.gpu == Some(gpu) && task.reserved > 0);
    there.map(|(key, _)| key).collect()
}

/// Swaps tasks out, of which some may not be idle for so long; the bytes of their reservations that are free
/// then.
fn out(choose: impl Fn(&ProcessState) -> Vec<Key>, patience: Duration) -> u64 {
    mapping::release_spares();
    let mut watch = Watch::begin(SwapKind::Evicted);
    let Some(closed) = close_quietly(&choose, patience) else {
        return 0;
    };
    watch.book(Spent::Rest);
    let chosen = choose(&state::lock());
    let moved: Vec<(Key, Option<(TaskId, u64)>)> = chosen
        .into_iter()
        .filter_map(|key| {
            // The first of them has waited for all.
            let watch = std::mem::replace(&mut watch, Watch::begin(SwapKind::Evicted));
            Some((key, out_one(key, watch)?))
        })
        .collect();
    let freed = || moved.iter().filter_map(|(_, freed)| *freed);
    // mgbd is notified before any thread continues and asks for the room again.
    if let Some(client) = session::client() {
        for (id, bytes) in freed() {
            client.swapped(id, bytes);
        }
    }
    for (key, _) in &moved {
        state::lock().end_move(*key);
    }
    drop(closed);
    freed().map(|(_, bytes)| bytes).sum()
}

/// Closes the gate at a moment at which the GPUs of these tasks have no work. `None`: there was no such
/// moment.
pub fn close_quietly(choose: &impl Fn(&ProcessState) -> Vec<Key>, patience: Duration) -> Option<Closed> {
    // Memory that only seemed to be idle is no news to anybody.
    let say = |why: &str| {
        if patience == quiesce::QUIET_TIMEOUT {
            notice::once("busy", format_args!("{why}"));
        }
    };
    quiesce::close(patience, |until| all_quiet(choose, until), say)
}

/// Waits until the GPUs that may use the tasks' memory have done what they were given.
fn all_quiet(choose: &impl Fn(&ProcessState) -> Vec<Key>, until: Instant) -> bool {
    let mut gpus = Vec::new();
    {
        let state = state::lock();
        let tasks = choose(&state).into_iter().filter_map(|key| state.task_at(key));
        for task in tasks.filter(|task| task.mapped > 0) {
            gpus.push(task.shared.placement());
            if task.shared.is_lent_at_all() {
                gpus.extend(device::with_context());
            }
        }
    }
    gpus.sort_unstable();
    gpus.dedup();
    gpus.into_iter()
        .all(|(gpu, ordinal)| settles(gpu, ordinal, until))
}

/// Whether everything that this process had given the GPU is done by then. The caller holds no lock of
/// lazyrt's.
pub fn settles(gpu: u32, ordinal: i32, until: Instant) -> bool {
    gpu_idle::wait(gpu, until, move || device::settle_beside(gpu, ordinal))
}

/// Swaps one out, which is marked as moving then; and its reservation that was given up.
fn out_one(key: Key, mut watch: Watch) -> Option<Option<(TaskId, u64)>> {
    let Evicting {
        id,
        gpu,
        ordinal,
        mut parts,
    } = state::lock().begin_evict(key)?;
    let mut left = 0;
    if !parts.is_empty() && device::select(gpu, ordinal).is_ok() {
        left = offload::save_all(&mut parts, gpu, &mut watch);
    }
    let mut state = state::lock();
    let freed = state.end_evict(key, parts);
    if let Some(task) = state.task(key) {
        task.swaps.extend(watch.end(gpu, left));
    }
    Some((freed > 0).then_some((id, freed)))
}
