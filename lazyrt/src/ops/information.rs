//! What a task may still take. Nothing is bound for the question, and nothing is reserved: a program that only asks
//! would keep others from running.

use std::time::{Duration, Instant};

use mgb_probe::need::GRANULE;
use mgb_probe::view::GpuView;
use mgb_probe::{Client, TaskId};

use crate::code::{Answer, Code, Own};
use crate::state::{self, ProcessState};
use crate::{contexts, device, fault, foreign_cuda, native, session, thread, visible};

type GetInfo = unsafe extern "C" fn(*mut usize, *mut usize) -> Code;

/// `cudaMemGetInfo`: what the program's device has left. All objects of the device count as taken, backed or not.
///
/// Where the lazy task is bound, or the device is tied to a GPU, that GPU is meant. Elsewhere the next task may go
/// to any GPU, so it is the one that would have most left for the device: what the device has on others counts as
/// taken there, too, as on the one GPU that the program sees.
///
/// An allocation within the answer is never refused. If other processes took the room first, its first use waits
/// until they end or are swapped out. Threads of one process share its device, and compete as they do natively.
///
/// # Safety
/// `free` and `total` are null or writable.
pub unsafe fn mem_get_info(_native: GetInfo, free: *mut usize, total: *mut usize) -> Answer {
    thread::with(|thread| thread.take_hint());
    fault::check()?;
    let (gpu, left) = most_left()?;
    let bytes = device::total_bytes(gpu)?;
    for (to, value) in [(free, left), (total, bytes)] {
        if !to.is_null() {
            // SAFETY: it is not null, so it is writable: contract of this function.
            unsafe { to.write(value as usize) };
        }
    }
    Ok(Code::SUCCESS)
}

/// What the current device has of the node.
struct DeviceUsage {
    /// Bytes of all its objects, backed or not.
    committed: u64,
    /// The only GPU that is meant, if there is one.
    gpu: Option<u32>,
    /// GPUs of other devices, one bit each.
    others: u64,
}

impl DeviceUsage {
    fn now(state: &ProcessState) -> DeviceUsage {
        let device = state::current();
        let has_home = foreign_cuda::is_open() || state::may_be_several();
        let home = || has_home.then(|| state.home(device)).flatten();
        DeviceUsage {
            committed: state.committed_of(device),
            gpu: visible::gpu()
                .or(state.anchor(device))
                .or(state.lazy_gpu(device))
                .or_else(home),
            others: state.gpus_of_others(device),
        }
    }
}

/// The GPU that has most left for the current device, and how much that is.
fn most_left() -> Result<(u32, u64), Own> {
    let held = DeviceUsage::now(&state::lock());
    let visible = session::client().map_or(u64::MAX, Client::visible);
    // As requests are: off the other devices' GPUs, if there are enough.
    let free = match visible & !held.others {
        0 => visible,
        free => free,
    };
    let is_meant = |gpu: u32| held.gpu.map_or(free & (1 << gpu) != 0, |meant| meant == gpu);
    let mut most: Option<(u32, u64)> = None;
    for gpu in (0..session::gpus().len() as u32).filter(|&gpu| is_meant(gpu)) {
        let left = room(gpu)?;
        // The first of equals.
        if most.is_none_or(|(_, before)| left > before) {
            most = Some((gpu, left));
        }
    }
    let (gpu, room) = most.ok_or(Own(Code::NO_DEVICE))?;
    Ok((gpu, room.saturating_sub(held.committed) / GRANULE * GRANULE))
}

/// Bytes that the process could have on a GPU, with what it has there.
fn room(gpu: u32) -> Result<u64, Own> {
    let (resident, spares) = {
        let state = state::lock();
        let spares = state.spares.iter().filter(|spare| spare.device == gpu);
        (
            state.resident_on(gpu),
            spares.map(|spare| spare.range.bytes).sum::<u64>(),
        )
    };
    let view = view_of(gpu);
    if view
        .as_ref()
        .is_some_and(|(view, own, _)| *own == 0 && (view.lost || view.drained))
    {
        return Ok(0);
    }
    let in_ledger = view.as_ref().map_or(u64::MAX, |(view, own, left)| {
        let charged = view.reserved_bytes + view.contexts_bytes + view.reclaiming_bytes;
        // Room that is kept for others keeps newcomers out; this process's own is part of it where it is already.
        let is_new = *own == 0 && !contexts::is_on(gpu);
        let kept = if is_new { view.headroom_bytes } else { 0 };
        let room = view.gpu.usable_bytes.saturating_sub(charged + kept);
        room.min(*left).saturating_add(*own)
    });
    let driver_free = if contexts::is_on(gpu) {
        // Another thread may be in the middle of a capture.
        let _relaxed = device::RelaxedCapture::begin();
        device::select(gpu, device::ordinal(gpu)?)?;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: writes two words.
        let code = unsafe { native::cudaMemGetInfo(&mut free, &mut total) };
        if !code.is_success() {
            return Err(Own(code));
        }
        Some(free as u64)
    } else {
        view.and_then(|(view, ..)| view.driver_free_bytes)
    };
    // Spares make room where the rest is not enough.
    let in_driver = driver_free.map_or(u64::MAX, |free| {
        (free + spares)
            .saturating_sub(device::UNREACHABLE)
            .saturating_add(resident)
    });
    let context = if contexts::is_on(gpu) {
        0
    } else {
        session::gpu(gpu).map_or(0, |gpu| gpu.context_bytes)
    };
    Ok(in_driver.min(in_ledger).saturating_sub(context))
}

/// How long the node view may take to show what this process holds.
const VIEW_TIMEOUT: Duration = Duration::from_millis(500);

/// The GPU in a view that includes what this process holds there by now: mgbd writes it a moment after it has
/// answered. With it the bytes that the view shows as this process's, and those that its user may have more.
/// `None`: there is no view.
fn view_of(gpu: u32) -> Option<(GpuView, u64, u64)> {
    let client = session::client()?;
    let (held, resting) = state::lock().reserved_on(gpu);
    let start = Instant::now();
    loop {
        let view = client.status().ok()?;
        let own = view
            .tasks
            .iter()
            .filter(|task| task.pid == client.pid() && task.gpu == gpu);
        let shown: Vec<(u64, u64)> = own.map(|task| (task.task, task.reserved_bytes)).collect();
        if is_current(&shown, held, &resting) || start.elapsed() > VIEW_TIMEOUT {
            let left = view.quotas.left_bytes(rustix::process::geteuid().as_raw());
            let gpu = view.gpus.into_iter().find(|view| view.gpu.index == gpu)?;
            let own = shown.iter().map(|(_, bytes)| bytes).sum();
            return Some((gpu, own, left.unwrap_or(u64::MAX)));
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
