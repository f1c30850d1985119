//! The start of the session with mgbd: at the process's first GPU op, or earlier in an open process.

use std::cell::Cell;
use std::ffi::{CStr, c_char};

use mgb_core::{gate, pace, urgent, work};
use mgb_probe::on_class_change;
use parking_lot::ReentrantMutex;

use crate::session::{self, Mode, Progress};
use crate::{driver_start, foreign_cuda, probe_callbacks, restrict};

/// Called at load. The probe needs its binder before a program's first `mgb_task_begin`, which may come
/// before any call of the runtime; and an open process connects before code outside MGB can use CUDA.
pub fn at_load() {
    session::set_start(decide);
    probe_callbacks::register();
    if foreign_cuda::is_open() {
        connect_early();
    }
}

/// Called by programs' constructors that the pass adds: this module is open.
///
/// # Safety
/// `reason` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgb_module_open(reason: *const c_char) {
    let reason = if reason.is_null() {
        c"a module says so"
    } else {
        // SAFETY: not null, so it is a C string: contract of this function.
        unsafe { CStr::from_ptr(reason) }
    };
    foreign_cuda::note(reason.to_string_lossy().into_owned());
    connect_early();
}

/// Code outside MGB may load the driver at any time, and the driver must find the MPS of mgbd set up then.
fn connect_early() {
    if session::progress() == Progress::Unknown {
        connect();
    }
}

/// Decides the mode of the process.
#[cold]
fn decide() -> Mode {
    static RESTRICTING: ReentrantMutex<Cell<bool>> = ReentrantMutex::new(Cell::new(false));
    if session::progress() == Progress::Unknown {
        connect();
    }
    if session::progress() == Progress::Unrestricted {
        let restricting = RESTRICTING.lock();
        // The calls that restrict the process decide the mode as well: on this thread it is decided.
        if restricting.replace(true) {
            return Mode::Mgb;
        }
        if session::progress() == Progress::Unrestricted {
            restrict::to_one_gpu();
            session::note_restricted();
        }
        restricting.set(false);
    }
    session::mode()
}

fn connect() {
    session::watch_forks();
    gate::prepare();
    probe_callbacks::register();
    // Reads the environment now, before the program may change it.
    mgb_probe::trace::is_wanted();
    let connected = session::client().is_some();
    if let Some(words) = session::gpu_words() {
        work::publish(words);
    }
    if let Some(client) = session::client() {
        pace::obey(client.pace(), || driver_start::get().ok());
        on_class_change(urgent::turn_on);
        urgent::turn_on(client);
    }
    session::note_connected(connected, connected && foreign_cuda::calls_driver());
}
