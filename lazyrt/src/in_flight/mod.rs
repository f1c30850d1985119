//! Launches in parts that are in flight: they may be stopped half-way and go on later.
//!
//! What comes behind such a launch in its stream would find it half done. So all but another of them waits on
//! the host until it is whole ([`settle`]); another one is stopped with it, and goes on behind it.

use std::ffi::c_void;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mgb_abi::stream::STREAM_PER_THREAD;
use mgb_probe::cancel;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::code::Code;
use crate::device::RelaxedCapture;
use crate::native::{self, Stream};
use crate::session::{self, Mode};

mod watcher;

/// How long a process that ends waits for its launches in parts: a kernel that never ends must not keep it.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it looks whether they are done.
const EXIT_LOOK: Duration = Duration::from_millis(1);

/// The runtime's handle of an event, which passes as a part ends.
#[derive(Clone, Copy)]
pub struct EndEvent(pub *mut c_void);

// SAFETY: a handle, which the runtime takes on any thread.
unsafe impl Send for EndEvent {}

impl EndEvent {
    /// Waits. What failed the program's next op says as well.
    fn wait(self) {
        // SAFETY: no pointers but the runtime's own.
        unsafe { native::cudaEventSynchronize(self.0) };
    }

    fn has_passed(self) -> bool {
        // SAFETY: as above.
        unsafe { native::cudaEventQuery(self.0) != Code::NOT_READY }
    }
}

/// A launch of which a part is in flight.
pub trait PartInFlight: Send {
    /// The stream, as the program names it.
    fn stream(&self) -> Stream;
    /// Passes as the part ends.
    fn end(&self) -> EndEvent;
    /// Whether it is time to stop it.
    fn is_to_stop(&self) -> bool;
    /// Has it stop. It stops no later than one that is told so next.
    fn stop(&self);
    /// The part has ended, behind a stop: whether all of the launch is done.
    fn is_done(&mut self) -> Result<bool, Code>;
    /// Launches a part of what is left.
    fn go_on(&mut self) -> Code;
    /// The launch is whole, and was not stopped since its last part began.
    fn is_whole(&self);
}

/// One of them, by a number that grows.
struct Numbered {
    number: u64,
    part: Box<dyn PartInFlight>,
}

/// What is to be whole: all, or what an op in this stream comes behind.
#[derive(Clone, Copy)]
enum Scope {
    All,
    Before(Stream),
}

impl Scope {
    /// Default streams wait for others and are waited for, and a thread's own one has the same name in all.
    fn has(self, part: &dyn PartInFlight) -> bool {
        let is_own = |stream: Stream| stream as usize > STREAM_PER_THREAD;
        match self {
            Scope::All => true,
            Scope::Before(stream) => part.stream() == stream || !is_own(stream) || !is_own(part.stream()),
        }
    }
}

/// All of them, in the order of their launches.
struct InFlight {
    parts: Vec<Numbered>,
    last: u64,
    /// They are stopped, or go on, right now.
    is_stopping: bool,
    /// How often they were stopped.
    stops: u64,
    /// The process ends.
    is_over: bool,
}

static IN_FLIGHT: Mutex<InFlight> = Mutex::new(InFlight {
    parts: Vec::new(),
    last: 0,
    is_stopping: false,
    stops: 0,
    is_over: false,
});
static CHANGED: Condvar = Condvar::new();
/// Whether there are any: what an op reads that has nothing to wait for.
static ANY: AtomicBool = AtomicBool::new(false);

impl InFlight {
    /// Those of them are done, up to this number.
    fn done(&mut self, scope: Scope, last: u64) {
        self.parts.retain(|one| {
            let is_done = one.number <= last && scope.has(&*one.part);
            if is_done {
                one.part.is_whole();
            }
            !is_done
        });
        self.changed();
    }

    fn changed(&self) {
        ANY.store(!self.parts.is_empty() || self.is_stopping, Ordering::Relaxed);
        CHANGED.notify_all();
    }

    /// Whether those of them are done. Does not wait.
    fn are_done(&mut self, scope: Scope) -> bool {
        let mut those = self.parts.iter().filter(|one| scope.has(&*one.part));
        let are_done = !self.is_stopping && those.all(|one| one.part.end().has_passed());
        if are_done {
            self.done(scope, u64::MAX);
        }
        are_done
    }
}

/// Waits until all launches in parts are whole. The caller is outside the gate and holds no lock. One plain
/// load where there are none.
#[inline]
pub fn settle() {
    settle_those(Scope::All);
}

/// As [`settle`], until those are whole that come before an op in this stream, without waits for events: an event is
/// recorded behind whole ones.
#[inline]
pub fn settle_before(stream: Stream) {
    settle_those(Scope::Before(stream));
}

#[inline]
fn settle_those(scope: Scope) {
    if ANY.load(Ordering::Relaxed) && !watcher::is_here() {
        wait_for(scope);
    }
}

#[cold]
fn wait_for(scope: Scope) {
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
    are_settled(Scope::Before(stream))
}

fn are_settled(scope: Scope) -> bool {
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
        self.0.parts.push(Numbered { number, part });
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
    while !are_settled(Scope::All) && Instant::now() < until {
        std::thread::sleep(EXIT_LOOK);
    }
    let mut all = IN_FLIGHT.lock();
    all.parts.clear();
    all.changed();
}
