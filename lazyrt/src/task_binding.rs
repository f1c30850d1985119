//! Binding: from an op that needs a GPU to a task that has one, with memory behind all its objects.

use std::time::{Duration, Instant};

use mgb_abi::device::{DEFAULT_MALLOC_HEAP_SIZE, LIMIT_MALLOC_HEAP_SIZE};
use mgb_core::backoff::Backoff;
use mgb_core::memory::Growth;
use mgb_core::notice;
use mgb_core::swaps::Watch;
use mgb_probe::need::{LAZY, Need};
use mgb_probe::trace::SwapKind;
use mgb_probe::{BeginRequest, Refusal, TaskId};
use parking_lot::MutexGuard;

use crate::code::{Code, Own, fail};
use crate::launch_view::LaunchView;
use crate::mapping;
use crate::restore::Failed;
use crate::state::{self, CHANGED, Key, ProcessState};
use crate::task::Task;
use crate::{contexts, device, fault, foreign_cuda, session, swap, thread, visible};

/// How long to wait for memory that mgbd granted and the driver does not have: a process outside MGB may
/// hold it.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long such a wait lasts before a message is printed.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(2);

/// What the op is, for the need of a lazy task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Blocks of the launch, 0 if it is none.
    pub blocks: u64,
    /// Threads per block.
    pub threads: u32,
    /// Dynamic shared memory per block.
    pub shared: u32,
    /// Where the process already is, if the op ties it to that GPU.
    pub gpu: Option<u32>,
}

/// Binds the task if it is not bound, puts memory behind all its objects, replays what was recorded.
/// Blocks until there is room. The caller is outside the gate and holds no lock. Afterwards the task's GPU
/// is current on this thread.
pub fn prepare(key: Key, op: Asked) -> Result<&'static LaunchView, Own> {
    let _stays = mgb_probe::cancel::hold();
    let mut waiting_since = None;
    let mut relaxed = None;
    // For the trace: since when the task's memory, if any of it was swapped out, could have come back.
    let mut asked = None;
    let mut state = state::lock();
    loop {
        let key = state.resolve(key);
        let Some(task) = state.task_at(key) else {
            return fail(Code::INVALID_VALUE);
        };
        if task.refused {
            return fail(Code::MEMORY_ALLOCATION);
        }
        if task.is_held() {
            CHANGED.wait(&mut state);
            continue;
        }
        if task.is_unbound() {
            let (device, lazy) = (task.device, task.lazy);
            let choosing = || state.others_are_choosing(device) || state.is_choosing();
            if lazy && task.gpu.is_none() && choosing() {
                CHANGED.wait(&mut state);
                continue;
            }
            let request = request(&state, key, op);
            state = begin(state, key, &request)?;
            continue;
        }
        let (Some(id), Some(gpu)) = (task.id, task.gpu) else {
            return fail(Code::UNKNOWN);
        };
        let (_, ordinal) = task.shared.placement();
        if !task.is_ready() {
            relaxed.get_or_insert_with(device::RelaxedCapture::begin);
        }
        if !thread::with(|thread| thread.is_on(ordinal)) {
            // Making a context takes long: no thread must wait for it at the state's lock.
            drop(state);
            device::select(gpu, ordinal)?;
            state = state::lock();
            continue;
        }
        if task.committed() > task.reserved {
            let grown;
            let start = Instant::now();
            asked.get_or_insert_with(|| Watch::begin(SwapKind::Restored));
            (state, grown) = ask(state, key, |client| grow(client, key, id));
            if let Some(task) = state.task(key) {
                task.seen.waited += start.elapsed();
            }
            let task = state.task(key).filter(|task| !task.is_unbound());
            match (task, grown) {
                // Another thread ended the task meanwhile, and the reservation with it: it begins anew.
                (None, Err(Refusal::Protocol(_)) | Ok(_)) => {}
                // Not the total of mgbd's answer: others may have given room back since.
                (Some(task), Ok(Room { more, elsewhere })) => {
                    task.reserved += more;
                    if let Some((gpu, ordinal)) = elsewhere {
                        task.move_to(gpu, ordinal);
                        task.outside.set_capacity(device::capacity_of(gpu));
                    }
                }
                (_, Err(refusal)) => return refused(state, key, &refusal),
            }
            continue;
        }
        let backed;
        (state, backed) = mapping::all(state, key, gpu, ordinal, asked.take());
        match backed {
            Ok(()) => {}
            Err(Failed::Memory(failure)) if failure.is_out_of_memory() => {
                drop(state);
                asked = Some(Watch::begin(SwapKind::Restored));
                mapping::release_spares();
                state = state::lock();
                state = wait_for_memory(state, key, &mut waiting_since)?;
                continue;
            }
            Err(Failed::Memory(failure)) => {
                notice::once(
                    "back",
                    format_args!("failed to put memory behind an object: {failure}"),
                );
                return fail(Code::UNKNOWN);
            }
            Err(Failed::Copy(code)) => {
                notice::once(
                    "swap-in",
                    format_args!("failed to copy swapped bytes back ({code}); they are kept in host memory"),
                );
                return fail(code);
            }
        }
        let replayed;
        (state, replayed) = mapping::replay(state, key);
        replayed?;
        let Some(task) = state.task_at(key) else {
            return fail(Code::UNKNOWN);
        };
        if !task.unbacked.is_empty() {
            // Allocated by another thread meanwhile: there may be no room for it yet.
            continue;
        }
        task.publish();
        return Ok(task.shared);
    }
}

/// Binds the task if it is not bound, and does nothing on its GPU; the GPU. Blocks until there is room.
pub fn bind_only(key: Key) -> Result<u32, Own> {
    let mut state = state::lock();
    loop {
        let key = state.resolve(key);
        let Some(task) = state.task_at(key) else {
            return fail(Code::INVALID_VALUE);
        };
        if task.is_held() {
            CHANGED.wait(&mut state);
        } else if let (Some(_), Some(gpu)) = (task.id, task.gpu) {
            return Ok(gpu);
        } else {
            let request = request(&state, key, Asked::default());
            state = begin(state, key, &request)?;
        }
    }
}

/// Gives this thread a current GPU with a context: one that the process is on already, if there is one.
pub fn be_somewhere() -> Result<(), Own> {
    if thread::with(|thread| thread.gpu()).is_some() && contexts::any() {
        return Ok(());
    }
    if let Some((gpu, ordinal)) = device::with_context().next() {
        return device::select(gpu, ordinal);
    }
    lazy().map(|_| ())
}

/// Binds the lazy task, where the process is if it is anywhere.
#[cold]
pub fn lazy() -> Result<&'static LaunchView, Own> {
    let (key, gpu): (Key, _) = {
        let mut state = state::lock();
        (state.lazy_task(), state.bound_gpu(state::current()))
    };
    prepare(
        key,
        Asked {
            gpu,
            ..Asked::default()
        },
    )
}

/// What a task was granted beside what it has.
struct Room {
    /// The bytes that were granted.
    more: u64,
    /// The other GPU where they are, and its ordinal.
    elsewhere: Option<(u32, i32)>,
}

/// Asks mgbd for what the task lacks until it is granted, and makes room for others when mgbd requests
/// it. This thread does all of it, with the task marked busy, since mgbd
/// expects the next request from the thread that it answered.
fn grow(client: &mgb_probe::Client, key: Key, id: TaskId) -> Result<Room, Refusal> {
    let mut growth = Growth::default();
    loop {
        let (more, home, fits) = {
            let state = state::lock();
            let key = state.resolve(key);
            let task = state.task_at(key);
            let lacks = |task: &Task| task.committed().saturating_sub(task.reserved);
            let fits = |task: &Task| task.committed() <= task.gpu.map_or(0, device::capacity_of);
            (
                task.map_or(0, lacks),
                state.may_come_back_elsewhere(key),
                task.is_some_and(fits),
            )
        };
        let answer = match home {
            Some(_) => client.grow_anywhere(id, more),
            None => client.grow(id, more),
        };
        let Some(gpu) = growth.after(answer, fits, || swap::out_task(key))? else {
            continue;
        };
        let elsewhere = match home {
            Some(home) if home != gpu => Some((gpu, device::ordinal(gpu).map_err(|_| Refusal::NoGpu)?)),
            _ => None,
        };
        return Ok(Room { more, elsewhere });
    }
}

fn request(state: &ProcessState, key: Key, asked: Asked) -> BeginRequest<'static> {
    let heap = device::limit(LIMIT_MALLOC_HEAP_SIZE)
        .map_or(0, |bytes| (bytes as u64).saturating_sub(DEFAULT_MALLOC_HEAP_SIZE));
    let Some(task) = state.task_at(key) else {
        return BeginRequest::default();
    };
    let taken = state.gpus_of_others(task.device);
    let variables = task.lazy.then(|| state.variables_gpu(task.device)).flatten();
    let has_home = foreign_cuda::is_open() || state::may_be_several();
    let home = has_home.then(|| state.home(task.device)).flatten();
    let is_free = |gpu: &u32| taken & 1u64.checked_shl(*gpu).unwrap_or(0) == 0;
    BeginRequest {
        need: Need {
            peak_bytes: task.live,
            mapped_bytes: task.committed(),
            grid_blocks: asked.blocks,
            block_threads: asked.threads,
            shared_bytes: asked.shared,
            heap_bytes: heap,
            flags: LAZY,
            ..Need::default()
        },
        site: None,
        name: None,
        // What has run somewhere stays there: its bytes may mean something on that GPU only.
        gpu: visible::gpu()
            .or(state.anchor(task.device))
            .or(variables)
            .or(task.gpu)
            .or(home)
            .or(asked.gpu.filter(is_free)),
        avoid: taken,
        whole_process: false,
    }
}

type Locked = MutexGuard<'static, ProcessState>;

/// Asks mgbd without the lock, as the one thread that does so for this task.
fn ask<T>(
    mut state: Locked,
    key: Key,
    question: impl FnOnce(&mgb_probe::Client) -> Result<T, Refusal>,
) -> (Locked, Result<T, Refusal>) {
    if let Some(task) = state.task(key) {
        task.busy = true;
    }
    drop(state);
    let answer = session::client().map_or(Err(Refusal::Disconnected), question);
    let mut state = state::lock();
    if let Some(task) = state.task(key) {
        task.busy = false;
    }
    CHANGED.notify_all();
    (state, answer)
}

fn begin(state: Locked, key: Key, request: &BeginRequest<'_>) -> Result<Locked, Own> {
    // No GPU works in this process any more: none is to be waited for, or kept from others.
    if fault::of_process().is_some() {
        fault::check()?;
    }
    let (mut state, answer) = ask(state, key, |client| {
        let grant = client.begin(request)?;
        visible::restrict_to(grant.gpu);
        // May start the driver, and wait for a turn at it.
        Ok((grant, device::ordinal(grant.gpu)))
    });
    let (grant, ordinal) = match answer {
        Ok(granted) => granted,
        Err(refusal) => return refused(state, key, &refusal),
    };
    if let Some(task) = state.task(key) {
        task.seen.waited += grant.waited;
    }
    let ordinal = match ordinal {
        Ok(ordinal) => ordinal,
        Err(error) => {
            drop(state);
            session::end(grant.task, 0);
            return Err(error);
        }
    };
    if let Some(task) = state.task(key) {
        task.need = request.need;
        task.bind(grant.task, grant.gpu, ordinal, grant.reserved_bytes);
        task.outside.set_capacity(device::capacity_of(grant.gpu));
    }
    state.name(grant.task.raw(), key);
    // Behind a reset, with a context that works.
    fault::began_anew();
    Ok(state)
}

/// A lazy task that is refused may ask again: the program may free something and go on, as it would where
/// CUDA has no memory left.
fn refused<T>(mut state: Locked, key: Key, refusal: &Refusal) -> Result<T, Own> {
    let what = match state.task(key).and_then(|task| task.site.as_ref()) {
        Some(site) if !site.function.is_empty() => {
            format!("task {} ({} in {})", site.id, site.function, site.module)
        }
        Some(site) => format!("task {}", site.id),
        None => "the program's lazy task".to_owned(),
    };
    drop(state);
    // The end of mgbd is reported although an earlier task was refused for another reason.
    let kind = match refusal {
        Refusal::Disconnected => "mgbd-ended",
        _ => "refused",
    };
    notice::failure(
        kind,
        refusal.failure(),
        format_args!("failed to place {what}: {refusal}"),
    );
    fail(Code::MEMORY_ALLOCATION)
}

/// The driver has less than mgbd believes: a process that mgbd does not know holds it. Waits a little, without the
/// lock. Bytes in the host must come back, however long that takes; a task without any fails after a while, as it
/// would have natively.
fn wait_for_memory(mut state: Locked, key: Key, wait: &mut Option<Backoff>) -> Result<Locked, Own> {
    let wait = wait.get_or_insert_with(Backoff::begin);
    let must_wait = state.has_bytes_in_host(key);
    if wait.elapsed() > MEMORY_TIMEOUT && !must_wait {
        notice::once(
            "memory-gone",
            format_args!(
                "the GPU has no memory left although it was granted: a process outside MGB holds it (see nvidia-smi)"
            ),
        );
        return fail(Code::MEMORY_ALLOCATION);
    }
    if wait.elapsed() > NOTICE_TIMEOUT {
        notice::once(
            "memory-late",
            format_args!(
                "waits for device memory that was granted and that a process outside MGB holds (see nvidia-smi)"
            ),
        );
    }
    if let Some(task) = state.task(key) {
        task.busy = true;
    }
    drop(state);
    wait.sleep();
    let mut state = state::lock();
    if let Some(task) = state.task(key) {
        task.busy = false;
    }
    CHANGED.notify_all();
    Ok(state)
}
