//! `mgb_front_need`: what a program that was not built with MGB says of its own need, while it runs.

use std::ffi::c_int;

use crate::room::{self, Declared};

/// Declares that the program is about to take so many bytes of its first device: see `mgb.h`, which names the
/// answers.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_front_need(bytes: u64) -> c_int {
    match room::declare(bytes) {
        Declared::Reserved => 1,
        Declared::Early => 2,
        Declared::Native => 0,
        Declared::Refused => -1,
    }
}

/// Gives back what of a declared need the program does not hold: see `mgb.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mgb_front_need_over(bytes: u64) {
    room::take_back(bytes);
}
