//! Any bytes are a message between mgbd and its holder or none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mgb_scheduler::daemon::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::line(bytes));
