//! A word at the end of a program whose GPU has failed under it.
//!
//! Under MPS a fault of one program ends the contexts of all on its GPU. A program that checks no call goes on with
//! what its memory happens to hold, and ends with 0. With a GPU for itself that is its own affair; beside others it may
//! have done nothing wrong, and nobody would ever know. So the process says so as it ends, and `mgb batch` takes such a job
//! for failed ([`GPU_FAILED`] is what it looks for). One that resets the device has seen to it.

use std::sync::Once;

use mgb_probe::printed::GPU_FAILED;

use crate::code;
use crate::mode::{self, Mode};

/// From now on the end of the process tells.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this library, which stays loaded.
        unsafe { libc::atexit(tell) };
    });
}

extern "C" fn tell() {
    let (Some(code), Some(Mode::Mgb)) = (code::broken(), mode::decided()) else {
        return;
    };
    let under_mps = mode::client().is_some_and(|client| client.hello().mps_pipe.is_some());
    let others = if under_mps {
        ". Under MPS a fault of any program ends all on its GPU: if this one did nothing wrong, run it again"
    } else {
        ""
    };
    let number = code.0;
    eprintln!("{GPU_FAILED} (CUDA error {number}): its results from then on are void{others}");
}
