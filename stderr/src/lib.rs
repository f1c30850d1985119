//! Lines on the standard error of somebody else's program.
//!
//! MGB's libraries speak up in processes that are not theirs. `eprintln!` panics where the line cannot be
//! written (a full disk, `2>/dev/full`), and a panic that meets a C caller aborts the program; a write to a
//! pipe that nobody reads blocks it, one to a broken pipe ends it by a signal. A line of [`say`](fn@say) is written if
//! that is possible at once or soon, and is lost otherwise; the program goes on either way.

mod file;
mod quiet;

use std::fmt::Arguments;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a line waits for a reader of a full pipe, in a process that has lost no line so far.
const WAIT: Duration = Duration::from_millis(250);
/// Set once a line found no reader in time: later ones do not wait.
static HAS_NO_READER: AtomicBool = AtomicBool::new(false);

/// Writes a line to standard error, in the words of [`format!`]: see [`say`](fn@say).
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::say(format_args!($($words)*)) };
}

/// Writes a line to standard error, and a newline after it. It never fails, panics, or raises a signal, and
/// blocks for a quarter of a second at most; where the line cannot be written by then, it is lost. No
/// cancellation point.
pub fn say(line: Arguments<'_>) {
    let mut text = line.to_string();
    text.push('\n');
    if !file::is_standard_error() {
        return;
    }
    let _quiet = quiet::Quiet::begin();
    let wait = if HAS_NO_READER.load(Ordering::Relaxed) {
        Duration::ZERO
    } else {
        WAIT
    };
    write(text.as_bytes(), Instant::now() + wait);
}

/// Writes all of it, unless that is impossible or takes longer.
fn write(mut bytes: &[u8], until: Instant) {
    while !bytes.is_empty() {
        match file::ready(until.saturating_duration_since(Instant::now())) {
            file::Ready::Yes => {}
            file::Ready::NotYet => {
                HAS_NO_READER.store(true, Ordering::Relaxed);
                return;
            }
            file::Ready::Never => return,
        }
        match file::write_piece(&bytes[..bytes.len().min(file::PIECE)]) {
            Ok(written) => bytes = &bytes[written.min(bytes.len())..],
            // Another thread has filled the pipe meanwhile.
            Err(libc::EINTR | libc::EAGAIN) if Instant::now() < until => {}
            Err(_) => return,
        }
    }
}
