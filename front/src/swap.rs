//! Swapping out: the device memory of a quiet process goes to the host, its addresses stay.
//!
//! The gate is closed meanwhile: no thread of the program is in a call that a GPU could get work from, and
//! none gets in until the memory is back. Threads that only wait for the GPU are left alone. If the GPU's
//! work does not end, nothing is swapped.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use mgb_core::gate::{self, Closed};
use mgb_core::notice;
use mgb_core::swaps::{Spent, Watch};
use mgb_core::{captures, gpu_idle, quiesce};

use crate::allocations;
use crate::calls::{Code, driver};
use crate::live_contexts::Using;
use crate::room::{Saved, Shut, Swapper};
use crate::{live_contexts, program_swap, room, swap_transfer, trace};

/// How long to wait at a time for a thread that wants to go on.
const WANTED_TIMEOUT: Duration = Duration::from_secs(1);

/// Swaps what the store has.
pub struct ByStore;

impl Swapper for ByStore {
    fn release_spares(&self, device: c_int) -> u64 {
        let _inside = gate::enter();
        allocations::lock().release_spares(device)
    }

    fn close(&self, patience: Duration) -> Option<Box<dyn Shut>> {
        let closed = close(patience)?;
        let using = live_contexts::try_using()?;
        Some(Box::new(Still {
            _using: using,
            closed,
        }))
    }

    fn save(&self, device: c_int, mut watch: Watch) -> Box<dyn Saved> {
        let spares = allocations::lock().release_spares(device);
        room::spares_are_gone(device, spares);
        let (starts, in_extents) = swap_transfer::save_all(device, &mut watch);
        let (names, made) = program_swap::save_all(device, &mut watch);
        let freed = in_extents + made;
        trace::swapped(device, watch, freed);
        Box::new(Swapped {
            device,
            starts,
            names,
            freed,
        })
    }
}

/// The closed gate: no context ends meanwhile.
struct Still {
    _using: Using,
    closed: Closed,
}

impl Shut for Still {
    fn is_wanted(&self) -> bool {
        self.closed.is_wanted(WANTED_TIMEOUT)
    }
}

/// A device's memory in the host.
struct Swapped {
    device: c_int,
    /// Where extents are.
    starts: Vec<u64>,
    /// What the program has made itself.
    names: Vec<u64>,
    freed: u64,
}

impl Saved for Swapped {
    fn freed(&self) -> u64 {
        self.freed
    }

    fn back(self: Box<Swapped>, mut watch: Watch) {
        watch.book(Spent::Room);
        let in_extents = swap_transfer::load_all(self.device, &self.starts, &mut watch);
        let made = program_swap::load_all(self.device, &self.names, &mut watch);
        trace::swapped(self.device, watch, in_extents + made);
    }
}

/// Closes the gate at a moment at which no GPU has work of this process. `None`: there was no such moment.
fn close(patience: Duration) -> Option<Closed> {
    // Memory that only seemed to be idle is no news to anybody.
    let say = |why: &str| {
        if patience == quiesce::QUIET_TIMEOUT {
            notice::once("busy", format_args!("{why}"));
        }
    };
    quiesce::close(patience, all_quiet, say)
}

/// Waits until the process's GPUs have done what they were given.
fn all_quiet(until: Instant) -> bool {
    let mut devices: Vec<c_int> = live_contexts::all()
        .into_iter()
        .map(|(_, device)| device)
        .collect();
    devices.sort_unstable();
    devices.dedup();
    devices.into_iter().all(|device| {
        let line = u32::try_from(device).unwrap_or(0);
        gpu_idle::wait(line, until, move || settle_beside(device))
    })
}

/// Waits for all work of the device's contexts. False: one of them could not be waited for.
pub fn settle(device: c_int) -> bool {
    let _using = live_contexts::using();
    let contexts = live_contexts::all()
        .into_iter()
        .filter(|(_, there)| *there == device);
    contexts.fold(true, |good, (context, _)| {
        let done = driver().enter(context).map(|_entered| {
            let _relaxed = driver().relax();
            driver().synchronize()
        });
        good & (done == Ok(Code::SUCCESS))
    })
}

/// As [`settle`], at a moment at which the program may capture: not then.
pub fn settle_beside(device: c_int) -> bool {
    captures::settle(|| settle(device)).unwrap_or(false)
}

/// Waits for all work of a device, as the driver does before it frees memory; the driver's code. `None`: a
/// stream captures, and any wait for the device would end that.
pub fn wait_for(device: c_int) -> Option<Code> {
    let code = captures::settle(|| {
        if settle(device) {
            return Code::SUCCESS;
        }
        let _relaxed = driver().relax();
        driver().synchronize()
    });
    code.filter(|code| !code.is_capture_error())
}
