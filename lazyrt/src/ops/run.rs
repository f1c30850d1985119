//! Running one native call on the GPU of its tasks.

use std::sync::Once;

use mgb_core::gate::{self, Inside};
use mgb_core::notice;
use mgb_core::work;

use super::attempts::Attempts;
use crate::code::{Answer, Code, Own, fail};
use crate::handles::default::{self, LAST_DEFAULT};
use crate::handles::{capture, foreign};
use crate::launch_view::LaunchView;
use crate::native::{self, Stream};
use crate::state::{self, Key};
use crate::task_binding::{self, Asked};
use crate::{device, mapping, process_exit, session, thread};

/// Runs `call` on the GPU of a task that is ready. The caller is inside the gate.
#[inline]
pub fn on_ready(shared: &LaunchView, inside: Inside, call: impl FnOnce() -> Code) -> Answer {
    let (gpu, ordinal) = shared.placement();
    if !thread::with(|thread| thread.is_on(ordinal)) {
        device::select(gpu, ordinal)?;
    }
    let code = call();
    work::note(gpu);
    drop(inside);
    Ok(code)
}

/// Runs `call` once the task is ready.
pub fn on_task(key: Key, asked: Asked, call: impl FnOnce() -> Code) -> Answer {
    loop {
        let shared = task_binding::prepare(key, asked)?;
        let inside = gate::enter();
        // A swap may have come between.
        if shared.is_ready() {
            let answer = on_ready(shared, inside, call);
            process_exit::watch(&FIRST);
            return answer;
        }
    }
}

static FIRST: Once = Once::new();

/// Runs `call`, which touches objects of the task and is in `stream` (`None`: the call waits), in the order
/// that the program expects. The objects of another device of the program may be on another GPU than the
/// stream.
pub fn on_objects(key: Key, stream: Option<Stream>, call: impl FnOnce() -> Code) -> Answer {
    if !state::may_be_several() {
        return on_task(key, Asked::default(), || in_order(stream, call));
    }
    match ordered_by_itself(stream)? {
        Some(stream) => in_stream(key, stream, call),
        None => in_default_stream(key, call),
    }
}

/// The stream, if what is in it needs no wait for default streams: one of the program's own, or a thread's
/// default stream that captures, where a wait would end the capture.
pub fn ordered_by_itself(stream: Option<Stream>) -> Result<Option<Stream>, Own> {
    match stream {
        Some(stream) if stream as usize > LAST_DEFAULT => Ok(Some(stream)),
        Some(stream) if state::may_be_several() && capture::captures_by_default(stream)? => Ok(Some(stream)),
        _ => Ok(None),
    }
}

/// Runs `call`, on this thread's GPU, behind what the program's default stream was given on others, if it is
/// a call that waits (no stream); one in a stream has that from its stream.
pub fn in_order(stream: Option<Stream>, call: impl FnOnce() -> Code) -> Code {
    match stream.map_or_else(default::in_order, |_| Ok(())) {
        Ok(()) => call(),
        Err(Own(code)) => code,
    }
}

/// The program's default stream is that of the current device's GPU: what that one was given comes first, and
/// what it is given later comes after the call.
fn in_default_stream(key: Key, call: impl FnOnce() -> Code) -> Answer {
    let own = state::current();
    let is_others = {
        let state = state::lock();
        let task = state.task_at(state.resolve(key));
        task.is_some_and(|task| task.device != own)
    };
    if !is_others {
        return on_task(key, Asked::default(), call);
    }
    if let Some((gpu, ordinal)) = here()? {
        let code = device::settle_default(gpu, ordinal)?;
        if !code.is_success() {
            return Ok(code);
        }
    }
    let code = on_task(key, Asked::default(), call)?;
    let there = state::lock().task(key).map(|task| task.shared.placement());
    match there.filter(|_| code.is_success()) {
        Some((gpu, ordinal)) => device::settle_default(gpu, ordinal),
        None => Ok(code),
    }
}

/// The GPU of the current device, where its default streams are, and that GPU's ordinal; none while it has no
/// task.
pub fn here() -> Result<Option<(u32, i32)>, Own> {
    if let Some(lazy) = state::lazy_shared().filter(|lazy| lazy.is_bound()) {
        return Ok(Some(lazy.placement()));
    }
    let bound = state::lock().bound_gpu(state::current());
    bound.map(|gpu| Ok((gpu, device::ordinal(gpu)?))).transpose()
}

/// As [`on_objects`], for a call that touches memory beside the objects which may be for the current device
/// alone: that of a pool. It is run there, and lent the objects.
pub fn beside_memory(key: Key, stream: Option<Stream>, call: impl FnOnce() -> Code) -> Answer {
    let several = state::may_be_several();
    match (stream, if several { here()? } else { None }) {
        (Some(_), _) if ordered_by_itself(stream)?.is_some() => on_objects(key, stream, call),
        (_, Some(here)) => {
            let there = task_binding::prepare(key, Asked::default())?.placement();
            if here == there {
                return on_task(key, Asked::default(), call);
            }
            // What the objects' own device was given before comes before.
            let code = device::settle_default(there.0, there.1)?;
            if code.is_success() {
                lent(key, here, call)
            } else {
                Ok(code)
            }
        }
        _ => on_objects(key, stream, call),
    }
}

/// Where a stream has its work, and that GPU's ordinal. A thread's default stream is where the current device
/// is.
pub fn gpu_of(stream: Stream) -> Result<Option<(u32, i32)>, Own> {
    if stream as usize <= LAST_DEFAULT {
        let own = state::lazy_shared().filter(|own| own.is_bound());
        return Ok(own.map(LaunchView::placement));
    }
    if crate::handles::is_own(stream) {
        return crate::handles::stream::home_of(stream);
    }
    if let Some(gpu) = foreign::gpu_of(stream) {
        return Ok(Some((gpu, device::ordinal(gpu)?)));
    }
    if capture::is_capturing(stream) {
        // Asking would end the capture: the call goes where the objects are.
        return Ok(None);
    }
    let mut at = -1;
    // SAFETY: writes one int; a bad stream is an error here as in the call itself.
    let known = unsafe { native::cudaStreamGetDevice(stream, &mut at) }.is_success();
    if !known {
        // SAFETY: no pointers. The call reports the stream by itself.
        unsafe { native::cudaGetLastError() };
    }
    Ok(device::at(at).filter(|_| known).map(|gpu| (gpu, at)))
}

/// Runs the call on the GPU of the stream, which is lent the objects if they are on another.
fn in_stream(key: Key, stream: Stream, call: impl FnOnce() -> Code) -> Answer {
    match gpu_of(stream)? {
        Some(at) => lent(key, at, call),
        None => on_task(key, Asked::default(), call),
    }
}

/// Runs the call on a GPU, which is lent the objects if they are on another.
fn lent(key: Key, (gpu, at): (u32, i32), call: impl FnOnce() -> Code) -> Answer {
    let mut attempts = Attempts::default();
    loop {
        let shared = task_binding::prepare(key, Asked::default())?;
        if shared.placement().0 == gpu {
            return on_task(key, Asked::default(), call);
        }
        if !shared.is_lent(gpu) {
            lend(key, (gpu, at))?;
        }
        let inside = gate::enter();
        if shared.is_ready() && shared.is_lent(gpu) {
            device::select(gpu, at)?;
            let code = call();
            work::note(gpu);
            drop(inside);
            return Ok(code);
        }
        drop(inside);
        attempts.failed(&[])?;
    }
}

/// Runs `call`, which touches objects of several tasks and is in `stream`, on the stream's GPU. Objects on
/// other GPUs are lent to it.
pub fn on_several(keys: &[Key], stream: Stream, call: impl FnOnce() -> Code) -> Answer {
    let at = match gpu_of(stream)? {
        Some(at) => at,
        None => match keys.first() {
            Some(&first) => task_binding::prepare(first, Asked::default())?.placement(),
            None => return fail(Code::INVALID_VALUE),
        },
    };
    let asked = Asked {
        gpu: Some(at.0),
        ..Asked::default()
    };
    let is_there = |shared: &LaunchView| shared.placement().0 == at.0 || shared.is_lent(at.0);
    let mut attempts = Attempts::default();
    loop {
        let mut all = Vec::new();
        for &key in keys {
            let shared = task_binding::prepare(key, asked)?;
            if !is_there(shared) {
                lend(key, at)?;
            }
            all.push(shared);
        }
        let inside = gate::enter();
        if all.iter().all(|shared| shared.is_ready() && is_there(shared)) {
            device::select(at.0, at.1)?;
            let code = call();
            work::note(at.0);
            drop(inside);
            return Ok(code);
        }
        drop(inside);
        attempts.failed(keys)?;
    }
}

/// Lets a stream's GPU use the task's memory.
pub fn lend(key: Key, (gpu, ordinal): (u32, i32)) -> Result<(), Own> {
    device::select(gpu, ordinal)?;
    mapping::lend(&mut state::lock_task_still(key), key, gpu, ordinal).or_else(|failure| {
        notice::once(
            "lend",
            format_args!("a stream cannot reach an object of another device of this program: {failure}"),
        );
        fail(Code::NOT_SUPPORTED)
    })
}

/// As [`on_task`], for a copy to the host that returns when it is done. While the process has no streams of
/// its own, everything before it is done then, too.
pub fn on_task_until_done(key: Key, call: impl FnOnce() -> Code) -> Answer {
    loop {
        let shared = task_binding::prepare(key, Asked::default())?;
        let inside = gate::enter();
        if !shared.is_ready() {
            continue;
        }
        let (gpu, ordinal) = shared.placement();
        device::select(gpu, ordinal)?;
        let launches = session::launches_in_flight(gpu);
        let wait = work::wait(gpu);
        let code = in_order(None, call);
        if code.is_success() && !state::is_anchored() && !work::any_stream() {
            session::launches_finished(gpu, launches);
            wait.over();
        } else {
            work::note(gpu);
        }
        drop(inside);
        return Ok(code);
    }
}
