//! Contexts in which nothing works any more, after a fault of a kernel: the program's own, or under MPS
//! another program's.

use std::sync::mpsc;
use std::time::Duration;

use mgb_abi::error::Code;
use mgb_core::{gpu_fault_report, mps};

use crate::calls::{Context, driver};
use crate::{live_contexts, session};

/// How long to wait for the driver as the process ends: another thread may be in it for good.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Notes what the driver answered about a context: an error that stays until the context ends is kept.
pub fn note(code: Code) {
    if code.is_sticky() && session::get().is_some() {
        gpu_fault_report::note(code);
    }
}

/// Asks a context of the program whether it still works. A new stream is asked, which no capture knows.
pub fn look(context: Context) {
    let _entered = match driver().enter(context) {
        Ok(entered) => entered,
        Err(code) => return note(code),
    };
    let _relaxed = driver().relax();
    match driver().stream() {
        Ok(stream) => {
            note(driver().query(stream));
            driver().end_stream(stream);
        }
        Err(code) => note(code),
    }
}

/// Asks all contexts, and says what was found and noted before. For the end of the process.
pub fn report() {
    let Some(session) = session::get() else { return };
    let (done, all) = mpsc::channel();
    let asks = std::thread::Builder::new().spawn(move || {
        if let Some(_using) = live_contexts::try_using() {
            live_contexts::all()
                .into_iter()
                .for_each(|(context, _)| look(context));
        }
        let _ = done.send(());
    });
    if asks.is_ok() {
        let _ = all.recv_timeout(EXIT_TIMEOUT);
    }
    gpu_fault_report::report(mps::is_used(session.client.hello()));
}
