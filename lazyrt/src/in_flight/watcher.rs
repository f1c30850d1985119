//! The thread that stops launches in parts, and has them go on.

use std::cell::Cell;
use std::time::Duration;

use mgb_core::{notice, own_thread, quiesce};
use parking_lot::MutexGuard;

use super::list::{Awaited, CHANGED, IN_FLIGHT, InFlight, NumberedPart};
use crate::code::Code;
use crate::device::RelaxedCapture;
use crate::fault;

/// How often it looks whether one is to stop.
const LOOK: Duration = Duration::from_micros(50);
/// After so many looks it asks whether they are done: the program may not.
const LOOKS: u32 = 64;

thread_local! {
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is that thread.
pub fn is_here() -> bool {
    IS_HERE.get()
}

/// Starts it. Where the system refuses a thread, launches in parts run to their ends.
pub fn start() {
    own_thread::start("mgb-parts", || {
        IS_HERE.set(true);
        loop {
            watch();
        }
    });
}

/// While some are in flight.
fn watch() {
    let mut all = IN_FLIGHT.lock();
    CHANGED.wait_while(&mut all, |all| all.parts.is_empty() || all.is_over);
    for look in 1.. {
        MutexGuard::unlocked(&mut all, || std::thread::sleep(LOOK));
        if all.parts.is_empty() || all.is_over {
            return;
        }
        let _relaxed = RelaxedCapture::begin();
        if all.parts.iter().any(|one| one.part.is_to_stop()) {
            return stop(all);
        }
        if look % LOOKS == 0 && all.are_done(Awaited::All) {
            return;
        }
    }
}

/// Stops all, and has them go on, in their order, once nobody wants the GPUs any more.
fn stop(mut all: MutexGuard<InFlight>) {
    all.is_stopping = true;
    all.stops += 1;
    let mut parts = std::mem::take(&mut all.parts);
    drop(all);
    // The last one first: one that ends lets the next begin, which is to find no block by then.
    parts.iter().rev().for_each(|one| one.part.stop());
    parts.iter().for_each(|one| one.part.end().wait());
    parts.retain_mut(|one| match one.part.is_done() {
        Ok(is_done) => !is_done,
        Err(code) => {
            failed(code);
            false
        }
    });
    if !parts.is_empty() {
        quiesce::give_way();
    }
    let mut going = Vec::with_capacity(parts.len());
    for mut one in parts {
        let mut code = one.part.go_on();
        if code == Code::MEMORY_ALLOCATION {
            // Those that go on already may have all the room.
            going.iter().for_each(|one: &NumberedPart| one.part.end().wait());
            code = one.part.go_on();
        }
        if code.is_success() {
            going.push(one);
        } else {
            failed(code);
        }
    }
    let mut all = IN_FLIGHT.lock();
    all.parts = going;
    all.is_stopping = false;
    all.changed();
}

/// The rest of a launch is lost: the program is to see that, whatever it does next.
fn failed(code: Code) {
    if IN_FLIGHT.lock().is_over {
        return;
    }
    if code.is_sticky() {
        fault::note(code);
    } else {
        notice::once(
            "rest",
            format_args!("a kernel was stopped half-way, and its rest could not be launched: {code:?}"),
        );
        fault::note(Code::LAUNCH_FAILURE);
    }
}
