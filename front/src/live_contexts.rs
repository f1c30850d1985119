//! The contexts that the program has.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgb_core::gate;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::calls::Context;

static CONTEXTS: Mutex<Vec<(Context, c_int)>> = Mutex::new(Vec::new());
/// Whether several devices have, or had, contexts: read at every launch.
static SEVERAL: AtomicBool = AtomicBool::new(false);

/// Held for reading by the front's own calls in contexts of the program, for writing while one ends: what the
/// driver does with a context that is gone is not defined.
static USE: RwLock<()> = RwLock::new(());

/// How long to wait at a time for those that use contexts.
const CONTEXTS_TIMEOUT: Duration = Duration::from_millis(100);

/// No context ends as long as the guard lives.
pub type Using = RwLockReadGuard<'static, ()>;

/// Waits while a context ends.
pub fn using() -> Using {
    USE.read_recursive()
}

/// `None`: a context is about to end. For who has closed the gate, behind which that one may wait.
pub fn try_using() -> Option<Using> {
    USE.try_read()
}

/// A context is about to end; until the guard is dropped, which is after [`forget`]. The caller is outside
/// the gate.
pub fn ending() -> RwLockWriteGuard<'static, ()> {
    loop {
        // Memory that has left is there until a thread wants in, and uses a context until then.
        drop(gate::enter());
        if let Some(ending) = USE.try_write_for(CONTEXTS_TIMEOUT) {
            return ending;
        }
    }
}

/// A context is there, or still is. True: it is the first on its device.
pub fn note(context: Context, device: c_int) -> bool {
    let mut all = CONTEXTS.lock();
    let is_first = all.iter().all(|(_, other)| *other != device);
    if !all.iter().any(|(known, _)| *known == context) {
        all.push((context, device));
    }
    if all.iter().any(|(_, other)| *other != device) {
        SEVERAL.store(true, Ordering::Release);
    }
    is_first
}

/// It is there no more.
pub fn forget(context: Context) {
    CONTEXTS.lock().retain(|(known, _)| *known != context);
}

/// All of them, each with its device.
pub fn all() -> Vec<(Context, c_int)> {
    CONTEXTS.lock().clone()
}

/// One on the device.
pub fn on(device: c_int) -> Option<Context> {
    let all = CONTEXTS.lock();
    all.iter()
        .find(|(_, there)| *there == device)
        .map(|(context, _)| *context)
}

/// Whether several devices have, or had, contexts.
#[inline]
pub fn is_on_several() -> bool {
    SEVERAL.load(Ordering::Acquire)
}
