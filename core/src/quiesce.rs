//! Closing the gate at a moment at which a GPU has nothing to do.
//!
//! The work of the GPU may wait for what another thread has not sent yet. So the GPU is waited for first with
//! the gate open, and then only briefly with the gate closed. A thread whose launch can stop half-way does so
//! meanwhile, and does not go on before.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::gate::{self, Closed, Open};

/// How long a GPU may take to finish what it was given, where others can only wait for that.
pub const QUIET_TIMEOUT: Duration = Duration::from_secs(30);
/// The same where memory is to leave that seems to lie idle.
pub const IDLE_TIMEOUT: Duration = Duration::from_millis(100);
/// The same where a person wants the memory to leave: work under way is let finish. mgbd asks again.
pub const SUSPEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the gate may be closed for what it was given last, at first; twice as long with each try.
const CLOSED_TIMEOUT: Duration = Duration::from_millis(250);

/// How many threads want the GPUs to have nothing to do.
static WANTING: AtomicU32 = AtomicU32::new(0);
/// How often a thread that gives way looks whether that is over.
const LOOK: Duration = Duration::from_micros(100);

/// A thread wants the GPUs to have nothing to do for as long as this lives.
struct Wanting;

impl Wanting {
    fn new() -> Wanting {
        WANTING.fetch_add(1, Ordering::SeqCst);
        Wanting
    }
}

impl Drop for Wanting {
    fn drop(&mut self) {
        WANTING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether some thread wants the GPUs to have nothing to do. One plain load.
pub fn is_wanted() -> bool {
    WANTING.load(Ordering::Relaxed) > 0
}

/// Waits until nobody wants that any more, because the gate is closed or has not been, for as long as
/// [`QUIET_TIMEOUT`]. The caller is outside the gate and holds no lock.
pub fn give_way() {
    let until = Instant::now() + QUIET_TIMEOUT;
    while is_wanted() && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
}

/// Closes the gate, and tries to for as long as `patience`; `is_quiet` waits until the moment it is given for
/// the GPUs in question, without the gate, and says whether they have nothing to do. `None`: there was no
/// such moment; if that is because their work did not end, `say` is called. The caller is outside the gate
/// and holds no lock.
pub fn close(
    patience: Duration,
    is_quiet: impl Fn(Instant) -> bool,
    say: impl FnOnce(&str),
) -> Option<Closed> {
    let _wanting = Wanting::new();
    let until = Instant::now() + patience;
    let mut limit = CLOSED_TIMEOUT.min(patience);
    while is_quiet(until) {
        match gate::close_within(limit) {
            Ok(closed) if is_quiet(Instant::now() + limit) => return Some(closed),
            Ok(_) | Err(Open::Still) => {}
            Err(Open::ForGood) => return None,
        }
        if Instant::now() >= until {
            break;
        }
        limit *= 2;
    }
    // Else the GPU refuses to be waited for, as while a stream captures.
    if Instant::now() >= until {
        say(&format!(
            "could not swap device memory out: the GPU had work of this process for {:.1} s",
            patience.as_secs_f64()
        ));
    }
    None
}
