//! Lines for people, on stderr: each kind once per process.

use std::fmt::Arguments;
use std::time::Duration;

use mgb_probe::failures::{self, FailureCause};
use mgb_probe::trace;
use parking_lot::Mutex;

/// How long to wait for another thread that speaks: in a forked child there may be none.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

static SAID: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Says it unless something of this kind was said before.
pub fn once(kind: &'static str, text: Arguments<'_>) {
    let Some(mut said) = SAID.try_lock_for(LOCK_TIMEOUT) else {
        return;
    };
    if said.contains(&kind) {
        return;
    }
    said.push(kind);
    // A line may wait for a reader.
    drop(said);
    mgb_stderr::say!("mgb: {text}");
}

/// Says why the program does not get what it asked for, as [`once`] does, and keeps it for the trace.
pub fn failure(kind: &'static str, failure: Option<FailureCause>, text: Arguments<'_>) {
    if let Some(failure) = failure.filter(|_| trace::is_wanted()) {
        failures::note(failure, || text.to_string());
    }
    once(kind, text);
}

/// A GPU is unavailable for a moment: see [`crate::backoff`].
pub fn unavailable(text: &str) {
    once("unavailable", format_args!("{text}"));
}

/// mgbd has granted memory that the driver does not have.
pub fn taken_by_others() {
    once(
        "granted",
        format_args!(
            "waits for device memory that was granted and that a process outside MGB holds (see nvidia-smi)"
        ),
    );
}

/// There is no host memory for bytes that are to leave a GPU.
pub fn host_memory(text: &str) {
    once("host-memory", format_args!("{text}"));
}
