//! Swapping out: a quiescent task's memory goes to the host, its addresses stay.
//!
//! Quiescent means: the gate is closed, so no thread is in a native call, and the GPU has finished all it
//! was given. The next op of the task asks for room again and brings the bytes back to the same GPU.

use mgb_probe::TaskId;

use crate::state::{self, Backing, Key, State};
use crate::task::Shared;
use crate::{back, device, driver, gate, mode, notice};

/// Swaps one task out. False: nothing could be freed.
pub fn out_task(key: Key) -> bool {
    out(|state| Some(state.resolve(key)).into_iter().collect())
}

/// Swaps all tasks on the GPU out, as far as that is possible: mgbd sees what came of it.
pub fn out_gpu(gpu: u32) {
    out(|state| {
        let there = state
            .tasks
            .iter()
            .filter(|(_, task)| task.gpu == Some(gpu) && task.reserved > 0);
        there.map(|(key, _)| *key).collect()
    });
}

fn out(choose: impl Fn(&State) -> Vec<Key>) -> bool {
    back::release_spares();
    let Some(closed) = gate::close() else { return false };
    let mut state = state::lock();
    let chosen = choose(&state);
    let mut freed = Vec::new();
    for key in chosen {
        freed.extend(out_one(&mut state, key));
    }
    drop(state);
    // mgbd hears of it before any thread goes on and asks for the room again.
    if let Some(client) = mode::client() {
        for &(id, bytes) in &freed {
            client.swapped(id, bytes);
        }
    }
    drop(closed);
    !freed.is_empty()
}

/// The task's reservation that was given up.
fn out_one(state: &mut State, key: Key) -> Option<(TaskId, u64)> {
    let State { extents, tasks, .. } = state;
    let task = tasks.get_mut(&key)?;
    let (id, gpu) = (task.id?, task.gpu?);
    let (_, ordinal) = task.shared.place();
    if task.mapped > 0 {
        let quiet = is_quiet(task.shared, gpu, ordinal);
        let driver = driver::get().ok().filter(|_| quiet)?;
        for &address in &task.extents {
            let Some(extent) = extents.get_mut(&address) else {
                continue;
            };
            if !matches!(extent.backing, Backing::Device(_)) {
                continue;
            }
            let Some(mut bytes) = room(extent.length) else {
                notice::once(
                    "host-memory",
                    format_args!(
                        "too little host memory to swap {} bytes of device memory out",
                        extent.length
                    ),
                );
                break;
            };
            if let Err(failure) = driver.to_host(&mut bytes, address) {
                notice::once("swap", format_args!("failed to swap out: {failure}"));
                break;
            }
            if let Some(client) = mode::client() {
                client.published().unmapping(gpu, extent.length);
            }
            let Backing::Device(memory) = std::mem::replace(&mut extent.backing, Backing::Host(bytes)) else {
                continue;
            };
            if let Err(failure) = driver.release(address, extent.length, memory) {
                notice::once("release", format_args!("failed to free device memory: {failure}"));
            }
            task.mapped -= extent.length;
            if task.unbacked.insert(address) {
                task.unbacked_bytes += extent.length;
            }
        }
    }
    let freed = task.reserved - task.held().min(task.reserved);
    task.reserved -= freed;
    task.publish();
    (freed > 0).then_some((id, freed))
}

/// Waits for the task's GPU, and for the others if they may use its memory.
fn is_quiet(shared: &Shared, gpu: u32, ordinal: i32) -> bool {
    let wait = |(gpu, ordinal)| device::settle(gpu, ordinal).is_ok_and(|code| code.is_success());
    (!shared.is_lent_at_all() || device::with_context().all(wait)) && wait((gpu, ordinal))
}

/// Host memory for swapped bytes; none if the host has too little.
fn room(length: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length as usize).ok()?;
    bytes.resize(length as usize, 0);
    Some(bytes)
}
