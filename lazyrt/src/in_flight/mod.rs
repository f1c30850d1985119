//! Launches in parts that are in flight: they may be stopped half-way and go on later.
//!
//! What comes behind such a launch in its stream would find it half done. So all but another of them waits on
//! the host until it is whole ([`settle`]); another one is stopped with it, and goes on behind it.

use std::sync::Once;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mgb_probe::cancel;
use parking_lot::MutexGuard;

mod list;
mod watcher;

use list::{ANY, Awaited, CHANGED, IN_FLIGHT, InFlight, NumberedPart};
pub use list::{EndEvent, PartInFlight};

use crate::device::RelaxedCapture;
use crate::native::Stream;
use crate::session::{self, Mode};

/// How long a process that ends waits for its launches in parts: a kernel that never ends must not keep it.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it looks whether they are done.
const EXIT_LOOK: Duration = Duration::from_millis(1);

/// Waits until all launches in parts are whole. The caller is outside the gate and holds no lock. One plain
/// load where there are none.
#[inline]
pub fn settle() {
    settle_those(Awaited::All);
}

/// As [`settle`], until those are whole that come before an op in this stream. Waits for events order no more:
/// an event is recorded behind whole ones.
#[inline]
pub fn settle_before(stream: Stream) {
    settle_those(Awaited::Before(stream));
}

#[inline]
fn settle_those(scope: Awaited) {
    if ANY.load(Ordering::Relaxed) && !watcher::is_here() {
        wait_for(scope);
    }
}

#[cold]
fn wait_for(scope: Awaited) {
    let _stays = cancel::hold();
    let _relaxed = RelaxedCapture::begin();
    let mut all = IN_FLIGHT.lock();
    loop {
        CHANGED.wait_while(&mut all, |all| all.is_stopping);
        let those = || all.parts.iter().filter(|one| scope.has(&*one.part));
        let Some(last) = those().next_back().map(|one| one.number) else {
            return;
        };
        let ends: Vec<EndEvent> = those().map(|one| one.part.end()).collect();
        let stops = all.stops;
        MutexGuard::unlocked(&mut all, || ends.into_iter().for_each(EndEvent::wait));
        if all.stops == stops {
            all.done(scope, last);
        }
    }
}

/// Whether those are whole that come before an op in this stream. Does not wait.
pub fn are_settled_before(stream: Stream) -> bool {
    are_settled(Awaited::Before(stream))
}

fn are_settled(scope: Awaited) -> bool {
    if !ANY.load(Ordering::Relaxed) {
        return true;
    }
    let _relaxed = RelaxedCapture::begin();
    IN_FLIGHT.lock().are_done(scope)
}

/// What keeps others from being stopped while one more is launched.
pub struct Room<'a>(MutexGuard<'a, InFlight>);

/// Why there is no room for one more.
pub enum NoRoom {
    /// They are stopped right now: settle, and try again.
    Stopping,
    /// The process ends, and nobody stops anything any more: settle, and launch it at once.
    Over,
}

/// Room for one more. Taken inside the gate, for no longer than a launch takes.
pub fn room() -> Result<Room<'static>, NoRoom> {
    let all = IN_FLIGHT.lock();
    if all.is_over {
        Err(NoRoom::Over)
    } else if all.is_stopping {
        Err(NoRoom::Stopping)
    } else {
        Ok(Room(all))
    }
}

impl Room<'_> {
    /// Whether others are in flight.
    pub fn has_others(&self) -> bool {
        !self.0.parts.is_empty()
    }

    /// A part of this launch is in flight.
    pub fn add(mut self, part: Box<dyn PartInFlight>) {
        self.0.last += 1;
        let number = self.0.last;
        self.0.parts.push(NumberedPart { number, part });
        self.0.changed();
        drop(self);
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            watcher::start();
            // Behind work of that kind, so that it is called before the runtime takes down what it has.
            // SAFETY: the handler is a function of this library, which stays loaded.
            unsafe { libc::atexit(process_ends) };
        });
    }
}

/// What is in flight is finished first. Nothing more is launched in parts, whatever other threads do, and
/// nothing is stopped.
extern "C" fn process_ends() {
    // A forked child has none, and perhaps not even the lock.
    if session::decided() != Some(Mode::Mgb) {
        return;
    }
    IN_FLIGHT.lock().is_over = true;
    let until = Instant::now() + EXIT_TIMEOUT;
    while !are_settled(Awaited::All) && Instant::now() < until {
        std::thread::sleep(EXIT_LOOK);
    }
    let mut all = IN_FLIGHT.lock();
    all.parts.clear();
    all.changed();
}
