//! Lines for people, on stderr: each kind once per process.

use std::fmt::Arguments;

use parking_lot::Mutex;

static SAID: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Says it unless something of this kind was said before.
pub fn once(kind: &'static str, text: Arguments<'_>) {
    let mut said = SAID.lock();
    if said.contains(&kind) {
        return;
    }
    said.push(kind);
    // A line may wait for a reader.
    drop(said);
    mgb_stderr::say!("mgb: {text}");
}

/// A GPU is unavailable for a moment: see `mgb_core::backoff`.
pub fn unavailable(text: &str) {
    once("unavailable", format_args!("{text}"));
}
