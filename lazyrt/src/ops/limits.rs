//! What a task may still take, and limits of contexts.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use mgb_probe::TaskId;
use mgb_probe::need::GRANULE;

use super::run;
use crate::bind::Asked;
use crate::code::{Answer, Code, fail};
use crate::{device, native, session, state, thread};

/// What the driver counts as free and never allocates: on an H200 the last 3.1 MiB.
const UNREACHABLE: u64 = 2 * GRANULE;

type GetInfo = unsafe extern "C" fn(*mut usize, *mut usize) -> Code;

/// `cudaMemGetInfo`: binds, and answers what the task may still get there. All its objects count as taken,
/// backed or not.
///
/// The answer is not reserved: a program that only asks would keep the rest of the node from running. An
/// allocation within the answer is never refused all the same. If other processes took the room first,
/// its first use waits until they end or are swapped out. Threads of one process share its task, and
/// compete as they do natively.
///
/// # Safety
/// The arguments meet the contract of `cudaMemGetInfo`.
pub unsafe fn mem_get_info(_native: GetInfo, free: *mut usize, total: *mut usize) -> Answer {
    let hint = thread::with(|thread| thread.take_hint());
    let (key, gpu) = {
        let mut state = state::lock();
        (state.task_of_hint(hint), state.bound_gpu(state::current()))
    };
    let (mut driver_free, mut driver_total) = (0usize, 0usize);
    let answer = run::on_task(
        key,
        Asked {
            gpu,
            ..Asked::default()
        },
        || {
            // SAFETY: writes two words.
            unsafe { native::cudaMemGetInfo(&mut driver_free, &mut driver_total) }
        },
    )?;
    if !answer.is_success() {
        return Ok(answer);
    }
    let (gpu, unused, spares) = {
        let mut state = state::lock();
        let spares = |gpu| state.spares.bytes_on(gpu);
        let spares = state.bound_gpu(state::current()).map_or(0, spares);
        let Some(task) = state.task(key) else {
            return fail(Code::UNKNOWN);
        };
        (
            task.gpu,
            task.reserved - task.committed().min(task.reserved),
            spares,
        )
    };
    let room = gpu
        .and_then(room_in_ledger)
        .map_or(u64::MAX, |room| room.saturating_add(unused));
    // Spares make room where the rest is not enough.
    let in_driver = (driver_free as u64 + spares).saturating_sub(UNREACHABLE);
    let granted = in_driver.min(room) / GRANULE * GRANULE;
    for (to, value) in [(free, granted as usize), (total, driver_total)] {
        if !to.cast::<c_void>().is_null() {
            // SAFETY: it is not null, so it is writable: contract of this function.
            unsafe { to.write(value) };
        }
    }
    Ok(Code::SUCCESS)
}

/// How long the node view may take to show what this process holds.
const VIEW_PATIENCE: Duration = Duration::from_millis(500);

/// Bytes of the GPU that no process is charged for, and that the process's user may have, from a view that
/// includes what this process holds by now: mgbd writes it a moment after it has answered.
fn room_in_ledger(gpu: u32) -> Option<u64> {
    let client = session::client()?;
    let (held, resting) = state::lock().reserved_on(gpu);
    let start = Instant::now();
    loop {
        let view = client.status().ok()?;
        let own = view
            .tasks
            .iter()
            .filter(|task| task.pid == std::process::id() && task.gpu == gpu);
        let shown: Vec<(u64, u64)> = own.map(|task| (task.task, task.reserved_bytes)).collect();
        if is_current(&shown, held, &resting) || start.elapsed() > VIEW_PATIENCE {
            let gpu = view.gpus.iter().find(|view| view.gpu.index == gpu)?;
            let charged = gpu.reserved_bytes + gpu.contexts_bytes + gpu.reclaiming_bytes;
            let left = view.quotas.left_bytes(rustix::process::geteuid().as_raw());
            let room = gpu.gpu.usable_bytes.saturating_sub(charged);
            return Some(room.min(left.unwrap_or(u64::MAX)));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a view that shows these tasks of this process, by their numbers, includes all that it has
/// reserved. A task that only keeps its grant may be absent: mgbd may have revoked the grant, which this
/// process sees when the task begins again.
fn is_current(shown: &[(u64, u64)], held: u64, resting: &[(TaskId, u64)]) -> bool {
    let rests = |number: u64| resting.iter().find(|(id, _)| id.raw() == number);
    let mut sum = 0;
    for &(number, bytes) in shown {
        match rests(number) {
            Some(&(_, kept)) if kept == bytes => {}
            Some(_) => return false,
            None => sum += bytes,
        }
    }
    sum == held
}

/// `cudaDeviceSetLimit`: kept for contexts to come, and set in those that are there.
///
/// # Safety
/// The arguments meet the contract of `cudaDeviceSetLimit`.
pub unsafe fn set_limit(
    _native: unsafe extern "C" fn(u32, usize) -> Code,
    limit: u32,
    value: usize,
) -> Answer {
    thread::with(|thread| thread.take_hint());
    device::keep_limit(limit, value);
    let mut answer = Code::SUCCESS;
    for (gpu, ordinal) in device::with_context() {
        device::select(gpu, ordinal)?;
        // SAFETY: no pointers.
        let code = unsafe { native::cudaDeviceSetLimit(limit, value) };
        if !code.is_success() {
            answer = code;
        }
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_may_lack_what_rests_and_nothing_else() {
        let rests = [(TaskId::from_raw(7).unwrap(), 100)];
        let shows = |shown: &[(u64, u64)]| is_current(shown, 30, &rests);
        assert!(shows(&[(5, 10), (6, 20), (7, 100)]));
        assert!(shows(&[(5, 10), (6, 20)]), "its grant was taken back");
        assert!(
            !shows(&[(5, 10), (7, 100)]) && !shows(&[]),
            "what runs is not shown yet"
        );
        assert!(
            !shows(&[(5, 10), (6, 20), (7, 90)]),
            "what rests is not shown as it is"
        );
    }
}
