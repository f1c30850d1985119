//! The list of launches in parts that are in flight.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use mgb_abi::stream::STREAM_PER_THREAD;
use parking_lot::{Condvar, Mutex};

use crate::code::Code;
use crate::native::{self, Stream};

/// The runtime's handle of an event, which passes as a part ends.
#[derive(Clone, Copy)]
pub struct EndEvent(pub *mut c_void);

// SAFETY: a handle, which the runtime takes on any thread.
unsafe impl Send for EndEvent {}

impl EndEvent {
    /// Waits. What failed the program's next op says as well.
    pub fn wait(self) {
        // SAFETY: no pointers but the runtime's own.
        unsafe { native::cudaEventSynchronize(self.0) };
    }

    /// Whether it has passed, or can tell nothing any more. Does not wait.
    pub fn has_passed(self) -> bool {
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
    fn note_whole(&self);
}

/// One of them, by a number that grows.
pub struct NumberedPart {
    pub number: u64,
    pub part: Box<dyn PartInFlight>,
}

/// What is to be whole: all, or what an op in this stream comes behind.
#[derive(Clone, Copy)]
pub enum Awaited {
    All,
    Before(Stream),
}

impl Awaited {
    /// Default streams wait for others and are waited for, and a thread's own one has the same name in all.
    pub fn has(self, part: &dyn PartInFlight) -> bool {
        let is_own = |stream: Stream| stream as usize > STREAM_PER_THREAD;
        match self {
            Awaited::All => true,
            Awaited::Before(stream) => part.stream() == stream || !is_own(stream) || !is_own(part.stream()),
        }
    }
}

/// All of them, in the order of their launches.
pub struct InFlight {
    pub parts: Vec<NumberedPart>,
    pub last: u64,
    /// They are stopped, or go on, right now.
    pub is_stopping: bool,
    /// How often they were stopped.
    pub stops: u64,
    /// The process ends.
    pub is_over: bool,
}

pub static IN_FLIGHT: Mutex<InFlight> = Mutex::new(InFlight {
    parts: Vec::new(),
    last: 0,
    is_stopping: false,
    stops: 0,
    is_over: false,
});
pub static CHANGED: Condvar = Condvar::new();
/// Whether there are any: what an op reads that has nothing to wait for.
pub static ANY: AtomicBool = AtomicBool::new(false);

impl InFlight {
    /// Those of them are done, up to this number.
    pub fn done(&mut self, scope: Awaited, last: u64) {
        self.parts.retain(|one| {
            let is_done = one.number <= last && scope.has(&*one.part);
            if is_done {
                one.part.note_whole();
            }
            !is_done
        });
        self.changed();
    }

    /// What others look at, or wait for, is to be seen anew.
    pub fn changed(&self) {
        ANY.store(!self.parts.is_empty() || self.is_stopping, Ordering::Relaxed);
        CHANGED.notify_all();
    }

    /// Whether those of them are done. Does not wait.
    pub fn are_done(&mut self, scope: Awaited) -> bool {
        let mut those = self.parts.iter().filter(|one| scope.has(&*one.part));
        let are_done = !self.is_stopping && those.all(|one| one.part.end().has_passed());
        if are_done {
            self.done(scope, u64::MAX);
        }
        are_done
    }
}
