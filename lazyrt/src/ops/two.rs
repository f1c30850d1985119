//! Calls that touch two objects, which may be on two GPUs.

use mgb_core::{gate, work};

use super::attempts::Attempts;
use super::run::{gpu_of, here, on_ready, on_several, ordered_by_itself};
use crate::code::{Answer, Code, Own};
use crate::device;
use crate::handles::capture;
use crate::handles::default::LAST_DEFAULT;
use crate::native::Stream;
use crate::state::{self, Key};
use crate::task_binding::{self, Asked};

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
        let one = task_binding::prepare(first, Asked::default())?;
        let gpu = Some(one.placement().0);
        let other = task_binding::prepare(
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
    use crate::code::fail;

    #[test]
    fn a_copy_whose_gpu_cannot_be_current_fails() {
        let lost = || Some(fail(Code::DEVICES_UNAVAILABLE));
        assert_eq!(may_go_on(Code::SUCCESS, lost), Err(Code::DEVICES_UNAVAILABLE));
        assert_eq!(may_go_on(Code::SUCCESS, || None), Err(Code::UNKNOWN));
        assert_eq!(may_go_on(Code::NO_DEVICE, || Some(Ok(()))), Err(Code::NO_DEVICE));
        assert_eq!(may_go_on(Code::SUCCESS, || Some(Ok(()))), Ok(()));
    }
}
