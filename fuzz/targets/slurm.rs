//! Any bytes are what Slurm says of nodes and jobs, what `mgb cluster prolog` says to the plugin, and the plugin's
//! options, or nothing. Nothing of it has a sum overflow, and a job's record that is one is the same when written anew.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    mgb_cli::fuzzing::slurm(&text);
    mgb_spank::fuzzing::plugin(&text);
});
