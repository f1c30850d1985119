//! Running one native call on the GPU of its tasks.

use std::sync::Once;

use mgb_core::gate::{self, Inside};
use mgb_core::work;

use crate::bind::{self, Asked};
use crate::code::{Answer, Code, Own, fail};
use crate::handles::default::{self, LAST_DEFAULT};
use crate::handles::{capture, foreign};
use crate::launch_view::Shared;
use crate::native::{self, Stream};
use crate::state::{self, Key};
use crate::swap::Gathering;
use crate::{backing, device, ending, notice, session, thread, unite};

/// Runs `call` on the GPU of a task that is ready. The caller is inside the gate.
#[inline]
pub fn on_ready(shared: &Shared, inside: Inside, call: impl FnOnce() -> Code) -> Answer {
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
        let shared = bind::prepare(key, asked)?;
        let inside = gate::enter();
        // A swap may have come between.
        if shared.is_ready() {
            let answer = on_ready(shared, inside, call);
            ending::watch(&FIRST);
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
fn ordered_by_itself(stream: Option<Stream>) -> Result<Option<Stream>, Own> {
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
fn here() -> Result<Option<(u32, i32)>, Own> {
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
            let there = bind::prepare(key, Asked::default())?.placement();
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
fn gpu_of(stream: Stream) -> Result<Option<(u32, i32)>, Own> {
    if stream as usize <= LAST_DEFAULT {
        let own = state::lazy_shared().filter(|own| own.is_bound());
        return Ok(own.map(Shared::placement));
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
        let shared = bind::prepare(key, Asked::default())?;
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
            Some(&first) => bind::prepare(first, Asked::default())?.placement(),
            None => return fail(Code::INVALID_VALUE),
        },
    };
    let asked = Asked {
        gpu: Some(at.0),
        ..Asked::default()
    };
    let is_there = |shared: &Shared| shared.placement().0 == at.0 || shared.is_lent(at.0);
    let mut attempts = Attempts::default();
    loop {
        let mut all = Vec::new();
        for &key in keys {
            let shared = bind::prepare(key, asked)?;
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
    backing::lend(&mut state::lock_task_still(key), key, gpu, ordinal).or_else(|failure| {
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
        let shared = bind::prepare(key, Asked::default())?;
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

/// How often all that one call touches may be brought in, one after the other, and not be there at once, before
/// the call fails.
const MOST_ATTEMPTS: u32 = 32;
/// After so many, what is on one GPU becomes one task.
const UNITE_AFTER: u32 = 3;

/// Attempts to have all tasks that one call touches on the GPU at once. While there are any, idle memory of this
/// process is left where it is.
#[derive(Default)]
pub struct Attempts {
    made: u32,
    gathering: Option<Gathering>,
}

impl Attempts {
    /// One more has failed. The caller is outside the gate, and holds no lock. `keys`: tasks that the call needs
    /// on one GPU. Fails with out of memory, which it is: natively what the call touches would not be there
    /// at all.
    pub fn failed(&mut self, keys: &[Key]) -> Result<(), Own> {
        self.gathering.get_or_insert_with(Gathering::begin);
        self.made += 1;
        if self.made == UNITE_AFTER && keys.len() > 1 {
            for &key in keys {
                unite::into_lazy(key);
            }
        }
        if self.made < MOST_ATTEMPTS {
            return Ok(());
        }
        notice::once(
            "together",
            format_args!(
                "an operation needs memory of several tasks of this program at once, and other programs leave no \
                 room for all of it; run fewer at once"
            ),
        );
        fail(Code::MEMORY_ALLOCATION)
    }
}

/// The ordinals of the GPUs on which two objects of one call are.
pub struct Ordinals {
    /// That of the first object.
    pub first: i32,
    /// That of the second object.
    pub second: i32,
}

impl Ordinals {
    /// Whether both are on one GPU.
    pub fn are_one(&self) -> bool {
        self.first == self.second
    }
}

/// As [`on_two`], for a copy from the second task's memory to the first's, in the order of the stream, which
/// is that of its own device wherever the memory is. Where GPUs differ and the copy is in no stream of the
/// program's own, what each was given before comes before it, and what each is given later comes after it:
/// the program sees one default stream.
pub fn across(
    first: Key,
    second: Key,
    stream: Option<Stream>,
    call: impl FnOnce(Ordinals) -> Code,
) -> Answer {
    let stream = ordered_by_itself(stream)?;
    let mut call = Some(call);
    let mut call = |ordinals| call.take().map_or(Code::UNKNOWN, |call| call(ordinals));
    // The GPU of the stream, where the copy is left to it: that is not the one on which both are, or keeps
    // the copy for a graph, which finds memory by the addresses alone.
    let mut elsewhere = None;
    let several = state::may_be_several();
    // Found out here, since no lock may be taken inside the gate. A device that has no task yet has no
    // work to wait for either.
    let here = match stream {
        Some(_) => None,
        None => here()?.map(|(_, ordinal)| ordinal),
    };
    let is_left = |ordinals: &Ordinals, at, stream| {
        if ordinals.are_one() {
            several && at != ordinals.first
        } else {
            // A default stream is here only if it captures, on the GPU of the current device.
            stream as usize <= LAST_DEFAULT || capture::is_capturing(stream)
        }
    };
    let answer = on_two(first, second, |ordinals| {
        if let Some(stream) = stream {
            return match gpu_of(stream) {
                Ok(Some((_, at))) if is_left(&ordinals, at, stream) => {
                    elsewhere = Some((stream, at));
                    Code::SUCCESS
                }
                Ok(Some((gpu, at))) if !ordinals.are_one() => match device::select(gpu, at) {
                    Ok(()) => call(ordinals),
                    Err(Own(code)) => code,
                },
                Ok(_) => call(ordinals),
                Err(Own(code)) => code,
            };
        }
        if ordinals.are_one() && (!several || here.is_none_or(|here| here == ordinals.first)) {
            call(ordinals)
        } else {
            between_waits(ordinals, here, &mut call)
        }
    })?;
    match elsewhere {
        Some((stream, at)) => on_several(&[first, second], stream, || {
            call(Ordinals {
                first: at,
                second: at,
            })
        }),
        None => Ok(answer),
    }
}

/// Runs `call` between waits for the default streams of these GPUs, and of that of the program's current
/// device.
fn between_waits(ordinals: Ordinals, here: Option<i32>, call: impl FnOnce(Ordinals) -> Code) -> Code {
    let (first, second) = (ordinals.first, ordinals.second);
    let wait_for = |ordinal| match device::at(ordinal).map(|gpu| device::settle_default(gpu, ordinal)) {
        Some(Ok(code) | Err(Own(code))) => code,
        None => Code::UNKNOWN,
    };
    let mut before = wait_for(second);
    if let Some(here) = here.filter(|here| ![first, second].contains(here))
        && before.is_success()
    {
        before = wait_for(here);
    }
    let selected = || device::at(first).map(|gpu| device::select(gpu, first));
    if let Err(code) = may_go_on(before, selected) {
        return code;
    }
    let code = call(ordinals);
    if code.is_success() { wait_for(first) } else { code }
}

/// Whether a copy can be made: what it waits for was done, and its GPU could be made current. Else what it
/// answers.
fn may_go_on(before: Code, selected: impl FnOnce() -> Option<Result<(), Own>>) -> Result<(), Code> {
    if !before.is_success() {
        return Err(before);
    }
    match selected() {
        Some(Ok(())) => Ok(()),
        Some(Err(Own(code))) => Err(code),
        None => Err(Code::UNKNOWN),
    }
}

/// Runs `call` once both tasks are ready, on the GPU of the first.
pub fn on_two(first: Key, second: Key, call: impl FnOnce(Ordinals) -> Code) -> Answer {
    let mut attempts = Attempts::default();
    loop {
        let one = bind::prepare(first, Asked::default())?;
        let gpu = Some(one.placement().0);
        let other = bind::prepare(
            second,
            Asked {
                gpu,
                ..Asked::default()
            },
        )?;
        let inside = gate::enter();
        if one.is_ready() && other.is_ready() {
            let ordinals = Ordinals {
                first: one.placement().1,
                second: other.placement().1,
            };
            let gpu = other.placement().0;
            return on_ready(one, inside, || {
                let code = call(ordinals);
                work::note(gpu);
                code
            });
        }
        drop(inside);
        attempts.failed(&[first, second])?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_whose_gpu_cannot_be_current_fails() {
        let lost = || Some(fail(Code::DEVICES_UNAVAILABLE));
        assert_eq!(may_go_on(Code::SUCCESS, lost), Err(Code::DEVICES_UNAVAILABLE));
        assert_eq!(may_go_on(Code::SUCCESS, || None), Err(Code::UNKNOWN));
        assert_eq!(may_go_on(Code::NO_DEVICE, || Some(Ok(()))), Err(Code::NO_DEVICE));
        assert_eq!(may_go_on(Code::SUCCESS, || Some(Ok(()))), Ok(()));
    }
}
