//! Whether the process runs under MGB, which is decided at `cuInit`, and in which order the driver is to
//! count the node's GPUs: the one that mgbd chose for the job's first device has changed places with that.

use std::cell::Cell;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};

use mgb_core::mps;
use mgb_core::notice;
use mgb_probe::Client;

use crate::owner;

const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// A process under MGB.
pub struct Session {
    /// The connection of the process to mgbd.
    pub client: &'static Client,
    /// mgbd's number of each device of the program.
    pub gpus: Vec<u32>,
}

thread_local! {
    /// Whether the thread is in [`start`].
    static STARTS: Cell<bool> = const { Cell::new(false) };
}

static SESSION: OnceLock<Option<Session>> = OnceLock::new();

/// Whether this is a child of a process that has called `cuInit`: the driver serves it no more, and locks of
/// threads that it does not have may be held for good.
static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn after_fork() {
    FORKED.store(true, Ordering::Release);
}

/// The session; none in a process that runs natively, in a forked child, or before `cuInit`.
pub fn get() -> Option<&'static Session> {
    let session = SESSION.get()?.as_ref();
    session.filter(|_| !FORKED.load(Ordering::Acquire))
}

/// Whether the process is known to run without MGB: it has called `cuInit` and has no session, or its parent
/// had.
pub fn is_native() -> bool {
    is_forked() || matches!(SESSION.get(), Some(None))
}

/// Whether the driver is that of the process which this one was forked from: it answers every call with an
/// error, and nothing of the front may be touched.
#[inline]
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Acquire)
}

/// Whether the calling thread is in [`start`]: a tool that the driver loads as it is initialised
/// (`CUDA_INJECTION64_PATH`) initialises it, too.
pub fn starts_here() -> bool {
    STARTS.get()
}

/// Connects and has `first` choose the GPU of the first device, then initialises the driver, which is told
/// whether the GPUs are shared. Whoever comes first does so; others wait. Without mgbd, where `first` gets
/// none, and in a program that was built with MGB, the driver is initialised as the program would.
pub fn start(first: impl FnOnce(&'static Client) -> Option<Vec<u32>>, initialise: impl FnOnce(bool)) {
    static FORKS: Once = Once::new();
    // SAFETY: the handler is a function of this library, which stays loaded, and only stores an atomic.
    FORKS.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(after_fork));
    });
    STARTS.set(true);
    SESSION.get_or_init(|| {
        let session = if owner::take() { connect(first) } else { None };
        if session.is_none() {
            owner::give_up();
        }
        let Some(Session { client, gpus }) = &session else {
            initialise(false);
            return None;
        };
        let all = &client.hello().gpus;
        let names: Vec<&str> = gpus.iter().map(|&gpu| all[gpu as usize].uuid.as_str()).collect();
        let before = std::env::var_os(VISIBLE);
        set(VISIBLE, Some(OsString::from(names.join(","))));
        let outside = mps::why_outside();
        let variables = mps::variables(client.hello(), outside, |name| std::env::var_os(name));
        if let Some(why) = outside.filter(|_| !variables.is_empty()) {
            notice::once("outside", format_args!("{}", mps::notice(why)));
        }
        let percentage = std::env::var_os(mps::PERCENTAGE);
        for (name, value) in variables {
            set(name, Some(OsString::from(value)));
        }
        mps::tell(client);
        let turn = client.turn(false);
        initialise(true);
        drop(turn);
        // The driver has read it; programs that this one starts ask for themselves.
        set(VISIBLE, before);
        set(mps::PERCENTAGE, percentage);
        session
    });
    STARTS.set(false);
}

fn connect(first: impl FnOnce(&'static Client) -> Option<Vec<u32>>) -> Option<Session> {
    let client = mgb_probe::client()?;
    let gpus = first(client)?;
    Some(Session { client, gpus })
}

fn set(name: &str, value: Option<OsString>) {
    // SAFETY: within the process's first call of the driver, which reads the variable there itself. A thread
    // that reads the environment by itself at this moment races with it, as with any `setenv` of a library.
    unsafe {
        match value {
            Some(value) => std::env::set_var(name, value),
            None => std::env::remove_var(name),
        }
    }
}
