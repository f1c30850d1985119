//! Results that are void: an error after which the process could use its GPU no more, and the line about it
//! as the process ends.
//!
//! Under MPS a fault of one program ends the contexts of every program on its GPU. A program that checks no
//! call goes on with whatever its memory holds, and exits with 0, although it may have done nothing wrong. So
//! it says so at its end, and `mgb batch` counts the job as failed ([`GPU_FAILED`] is what it looks for). Who
//! ends the broken context and begins anew has seen to the error; after a fault of a kernel nobody begins
//! anew.

use mgb_abi::error::Code;
use mgb_probe::failures::{self, FailureCause};
use mgb_probe::log_markers::GPU_FAILED;
use parking_lot::Mutex;

/// The last such error, and whether its context has ended.
static LAST: Mutex<Option<(Code, bool)>> = Mutex::new(None);

/// The driver or the runtime answered with this error, which stays until the context ends.
pub fn note(code: Code) {
    let mut last = LAST.lock();
    // What no reset mends is not taken for something else that one does.
    if !last.is_some_and(|(before, _)| before.is_of_process()) {
        *last = Some((code, false));
    }
}

/// A context has ended, by a reset for example: what was broken is gone, the program's results are still
/// void. An error of the process stays.
pub fn context_ended() {
    if let Some((code, has_ended)) = LAST.lock().as_mut() {
        *has_ended = !code.is_of_process();
    }
}

/// A context is there that was not before.
pub fn context_began() {
    LAST.lock().take_if(|(_, has_ended)| *has_ended);
}

/// Prints the line, if there is a reason for it. For the end of the process.
pub fn report(is_under_mps: bool) {
    let Some((code, _)) = *LAST.lock() else { return };
    let others = if is_under_mps {
        ". Under MPS a fault of any program ends all on its GPU: if this one did nothing wrong, run it again"
    } else {
        ""
    };
    let line = format!("{GPU_FAILED} ({code}): its results from then on are void{others}");
    mgb_stderr::say!("{line}");
    failures::note(FailureCause::GpuFault, || line);
}
