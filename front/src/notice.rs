//! Lines for people, on stderr: each kind once per process.

use std::fmt::Arguments;
use std::sync::Mutex;

use mgb_core::mps;

static SAID: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Says it unless something of this kind was said before.
pub fn once(kind: &'static str, text: Arguments<'_>) {
    let mut said = SAID.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if said.contains(&kind) {
        return;
    }
    said.push(kind);
    // A line may wait for a reader.
    drop(said);
    mgb_stderr::say!("mgb: {text}");
}

/// A GPU is unavailable for a moment: see [`mgb_core::patience`].
pub fn unavailable(text: &str) {
    once("unavailable", format_args!("{text}"));
}

/// MPS refused a kernel.
pub fn refused_by_mps() {
    once("mps", format_args!("{}", mps::refusal()));
}

/// mgbd has granted memory that the driver does not have.
pub fn taken_by_others() {
    once(
        "granted",
        format_args!("waits for device memory that was granted and that another process has taken"),
    );
}
