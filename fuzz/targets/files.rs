//! Any bytes are mgbd's settings, quotas, subordinate users and note in a lock file, or a mistake.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mgb_scheduler::daemon::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::files(bytes));
