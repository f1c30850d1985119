//! Memory that cannot be freed yet: what the program frees while a stream captures, when nobody may wait for
//! a GPU, and what it frees in the order of a stream, which frees it later.
//!
//! A thread of the front's own frees it as soon as that can be, without another call of the program, and
//! gives back what it is charged.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mgb_core::{captures, own_thread};
use parking_lot::{Condvar, Mutex};

use crate::calls::{Code, Context, Event, Stream, driver};
use crate::{live_contexts, swap};

/// How often streams are asked, and captures looked for, while there is something to free.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long work may take after which something is freed that is waited for,
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);
/// and between two looks at it.
const SETTLE_INTERVAL: Duration = Duration::from_millis(1);

/// When it can be freed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// All that the device was given is done, and no stream captures.
    AllIsDone,
    /// An event has passed, which was recorded in this context.
    Event(Context, Event),
}

struct Freed {
    /// Rises from one to the next.
    number: u64,
    device: c_int,
    until: Until,
    /// Frees the memory, and gives back what it is charged.
    end: Box<dyn FnOnce() + Send>,
}

static FREED: Mutex<Vec<Freed>> = Mutex::new(Vec::new());
/// The number of the next one: never one that was given before, since who waits goes by the last one that it
/// saw.
static NEXT: AtomicU64 = AtomicU64::new(0);
static MORE: Condvar = Condvar::new();
/// Whether the thread that frees it runs.
static IS_SERVED: AtomicBool = AtomicBool::new(false);

/// Frees something by `end`, once all work that the device was given until now is done, as the driver does:
/// at once, unless a stream captures. The driver's code where the work cannot be waited for.
pub fn when_all_is_done(device: c_int, end: impl FnOnce() + Send + 'static) -> Code {
    match swap::wait_for(device) {
        Some(Code::SUCCESS) => relaxed(end),
        Some(code) => return code,
        None => add(device, Until::AllIsDone, Box::new(end)),
    }
    Code::SUCCESS
}

/// Frees something by `end`, once the stream has done what it was given until now. Waits for nothing. The
/// stream does not capture.
pub fn in_order(device: c_int, stream: Stream, end: impl FnOnce() + Send + 'static) {
    let until = match driver().record(stream) {
        Ok(event) if driver().query_event(event) == Code::SUCCESS => {
            driver().end_event(event);
            return relaxed(end);
        }
        Ok(event) => Until::Event(driver().context(), event),
        // A stream of another context, say.
        Err(_) => Until::AllIsDone,
    };
    add(device, until, Box::new(end));
}

fn add(device: c_int, until: Until, end: Box<dyn FnOnce() + Send>) {
    let mut all = FREED.lock();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    all.push(Freed {
        number,
        device,
        until,
        end,
    });
    MORE.notify_one();
    drop(all);
    if !IS_SERVED.swap(true, Ordering::AcqRel) && own_thread::start("mgb-free", serve).is_none() {
        // The next one tries again.
        IS_SERVED.store(false, Ordering::Release);
    }
}

/// The context is gone, and with it the work of its streams and its events.
pub fn forget(context: Context) {
    let of_context = |freed: &Freed| matches!(freed.until, Until::Event(of, _) if of == context);
    for freed in take(of_context) {
        relaxed(freed.end);
    }
}

/// Whether anything of the device is to be freed.
pub fn any_on(device: c_int) -> bool {
    FREED.lock().iter().any(|freed| freed.device == device)
}

/// Frees what of the device is to be freed, if the work under way takes no longer than [`SETTLE_TIMEOUT`]:
/// the program would wait for room that it has given up itself. Nothing while a stream captures.
pub fn settle(device: c_int) {
    let until = Instant::now() + SETTLE_TIMEOUT;
    while any_on(device) && !captures::any() && Instant::now() < until {
        if !free_some() {
            std::thread::sleep(SETTLE_INTERVAL);
        }
    }
}

fn serve() {
    loop {
        {
            let mut all = FREED.lock();
            while all.is_empty() {
                MORE.wait(&mut all);
            }
        }
        if !free_some() {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Frees what can be freed now; false: nothing can. No lock is held in a call of the driver.
fn free_some() -> bool {
    let (passed, gone) = passed();
    // Of a context that ended just before something was added.
    gone.into_iter().for_each(forget);
    let mut freed = take(|freed| passed.contains(&freed.until));
    for (device, last) in waiting() {
        // What came later is not covered by this wait.
        if !captures::any() && swap::settle_beside(device) {
            freed.extend(take(|freed| {
                freed.until == Until::AllIsDone && freed.device == device && freed.number <= last
            }));
        }
    }
    let any = !freed.is_empty();
    end(freed);
    any
}

/// Of the events that are waited for those that have passed, or that the driver knows nothing of any more;
/// and the contexts that are gone, with their events.
fn passed() -> (Vec<Until>, Vec<Context>) {
    let mut asked: Vec<Until> = FREED.lock().iter().map(|freed| freed.until).collect();
    let mut gone = Vec::new();
    asked.retain(|until| {
        let Until::Event(context, event) = *until else {
            return false;
        };
        let Some(_using) = live_contexts::try_using() else {
            return false;
        };
        let Ok(_entered) = driver().enter(context) else {
            if live_contexts::all().iter().all(|(known, _)| *known != context) {
                gone.push(context);
            }
            return false;
        };
        let _relaxed = driver().relax();
        driver().query_event(event) != Code::NOT_READY
    });
    (asked, gone)
}

/// The devices of which all work is waited for, each with the last number of what waits for that.
fn waiting() -> Vec<(c_int, u64)> {
    let mut devices: Vec<(c_int, u64)> = Vec::new();
    for freed in FREED
        .lock()
        .iter()
        .filter(|freed| freed.until == Until::AllIsDone)
    {
        match devices.iter_mut().find(|(device, _)| *device == freed.device) {
            Some((_, last)) => *last = freed.number,
            None => devices.push((freed.device, freed.number)),
        }
    }
    devices
}

fn take(which: impl Fn(&Freed) -> bool) -> Vec<Freed> {
    let mut all = FREED.lock();
    all.extract_if(.., |freed| which(freed)).collect()
}

fn end(freed: Vec<Freed>) {
    for freed in freed {
        if let Until::Event(_, event) = freed.until {
            let _using = live_contexts::using();
            driver().end_event(event);
        }
        relaxed(freed.end);
    }
}

/// Frees something, at a moment at which another thread may have begun a capture: to unmap memory would end
/// that, or fail.
fn relaxed(end: impl FnOnce()) {
    let _relaxed = driver().relax();
    end();
}
