//! The front's own thread. From time to time it looks which work has finished and what pools hold.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgb_core::notice;
use mgb_core::{files, mps, pace, urgent, work};
use mgb_probe::on_class_change;
use parking_lot::Mutex;

use crate::stream_activity::Looks;
use crate::{calls, fault, live_contexts, session, sources, stream_activity};

/// Between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Whether the process is about to end: the driver is asked nothing any more.
static ENDS: AtomicBool = AtomicBool::new(false);
/// Held while the driver is asked.
static LOOKING: Mutex<()> = Mutex::new(());

/// A context is there: from here on there is something to look at.
pub fn start() {
    static ONCE: Once = Once::new();
    let Some(session) = session::get() else { return };
    // The driver has its files open now.
    if let Err(error) = files::pass(session.client) {
        notice::once("keep", format_args!("{}", files::failure(error)));
    }
    ONCE.call_once(|| {
        work::publish(session.client.published().gpus());
        pace::obey(session.client.pace(), || Some(calls::driver()));
        on_class_change(urgent::turn_on);
        urgent::turn_on(session.client);
        if mps::why_outside().is_some() {
            // Its kernels have the whole GPU while it is their turn.
            session
                .gpus
                .iter()
                .for_each(|&gpu| work::note_warps(gpu, u64::MAX));
        }
        // SAFETY: a function of this library, which stays loaded. Registered after the driver's own, it is
        // called before that.
        unsafe { libc::atexit(stop) };
        if spawn() {
            stream_activity::turn_on();
        }
    });
}

extern "C" fn stop() {
    if session::is_forked() {
        return;
    }
    ENDS.store(true, Ordering::Release);
    stream_activity::turn_off();
    // No question is under way any more.
    drop(LOOKING.lock());
    fault::report();
}

/// Starts the thread. None of the program's signals is handled there.
fn spawn() -> bool {
    // SAFETY: both sets are written before they are read.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = std::thread::Builder::new()
            .name("mgb-watch".to_owned())
            .spawn(watch);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started.is_ok()
    }
}

fn watch() {
    let mut looks = Looks::default();
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let _looking = LOOKING.lock();
        if ENDS.load(Ordering::Acquire) {
            return;
        }
        let Some(_using) = live_contexts::try_using() else {
            continue;
        };
        sources::settle_all();
        for device in devices() {
            looks.look(device);
        }
    }
}

/// Those with a context.
fn devices() -> Vec<c_int> {
    let mut devices: Vec<c_int> = live_contexts::all()
        .into_iter()
        .map(|(_, device)| device)
        .collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}
