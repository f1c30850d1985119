//! Standard output, for readers that may have gone.

use std::io::Write;

use serde::Serialize;

/// Prints to standard output. A reader that has seen enough (`| head`) is not an error.
pub fn print(text: &str) {
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

/// A document for scripts, with a newline at its end.
pub fn json(document: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(document).map(|text| text + "\n")
}
