//! The process's session with mgbd: whether the process runs under MGB, and the requests that it sends.
//!
//! The mode is decided at the first GPU op, and anew in a forked child, by the function that [`set_start`]
//! registers: the modules that a session needs at its start lie above this one. Everything here may be called
//! by any thread; without a session the notices to mgbd do nothing and the questions answer that there is
//! nothing.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Once, OnceLock};

use mgb_core::mps;
use mgb_probe::wire::{GpuWords, MAX_GPUS};
use mgb_probe::{Client, Gpu, TaskId};

/// How calls are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every call goes straight to the runtime.
    Native,
    /// Under MGB, with a client of mgbd.
    Mgb,
    /// A child forked after its parent used CUDA. CUDA does not work there, with or without MGB.
    Forked,
}

const UNKNOWN: u8 = 0;
const NATIVE: u8 = 1;
const MGB: u8 = 2;
const FORKED: u8 = 3;
/// Under MGB, in a process that is to be restricted to one GPU before its first op.
const UNRESTRICTED: u8 = 4;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Whether this process, or the one it was forked from, has used the driver.
static USED: AtomicBool = AtomicBool::new(false);
static START: OnceLock<fn() -> Mode> = OnceLock::new();

/// What is known before the mode is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing: there was no attempt to connect yet.
    Unknown,
    /// Connected; the process is to be restricted to one GPU.
    Unrestricted,
    /// The mode is decided.
    Decided,
}

/// How far the start of the session is.
pub fn progress() -> Progress {
    match MODE.load(Ordering::Acquire) {
        UNKNOWN => Progress::Unknown,
        UNRESTRICTED => Progress::Unrestricted,
        _ => Progress::Decided,
    }
}

/// Registers what decides the mode at the first op. The first registration stays.
pub fn set_start(start: fn() -> Mode) {
    let _ = START.set(start);
}

/// The mode of this process; decides it at the first call.
pub fn mode() -> Mode {
    match MODE.load(Ordering::Acquire) {
        NATIVE => Mode::Native,
        MGB => Mode::Mgb,
        FORKED => Mode::Forked,
        _ => start(),
    }
}

#[cold]
fn start() -> Mode {
    START.get().map_or(Mode::Native, |start| start())
}

/// The mode if it was decided already.
pub fn decided() -> Option<Mode> {
    match MODE.load(Ordering::Acquire) {
        UNKNOWN => None,
        UNRESTRICTED => Some(Mode::Mgb),
        _ => Some(mode()),
    }
}

/// Notes the outcome of the attempt to connect. Where another thread has noted one before, that one stays.
pub fn note_connected(connected: bool, restrict: bool) {
    let mode = match (connected, restrict) {
        (false, _) => NATIVE,
        (true, true) => UNRESTRICTED,
        (true, false) => MGB,
    };
    let _ = MODE.compare_exchange(UNKNOWN, mode, Ordering::AcqRel, Ordering::Acquire);
}

/// The process is restricted to one GPU now, or cannot be.
pub fn note_restricted() {
    let _ = MODE.compare_exchange(UNRESTRICTED, MGB, Ordering::AcqRel, Ordering::Acquire);
}

/// Notes that the driver is in use: from here on a forked child cannot use it.
pub fn note_use() {
    USED.store(true, Ordering::Release);
}

/// Has forked children decide their mode anew.
pub fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function of this library, which stays loaded, and only stores atomics.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    });
}

extern "C" fn after_fork() {
    let mode = MODE.load(Ordering::Acquire);
    if mode == MGB || mode == UNRESTRICTED {
        let child = if USED.load(Ordering::Acquire) {
            FORKED
        } else {
            UNKNOWN
        };
        MODE.store(child, Ordering::Release);
    }
}

/// The client; there is one in [`Mode::Mgb`].
#[inline]
pub fn client() -> Option<&'static Client> {
    mgb_probe::client()
}

/// The node's GPUs, by index; empty without a session.
pub fn gpus() -> &'static [Gpu] {
    client().map_or(&[], |client| &client.hello().gpus)
}

/// The GPU at an index.
pub fn gpu(index: u32) -> Option<&'static Gpu> {
    gpus().get(index as usize)
}

/// Whether the process is a client of mgbd's MPS.
pub fn is_under_mps() -> bool {
    client().is_some_and(|client| mps::is_used(client.hello()))
}

/// The words by which mgbd sees work under way, one set for each GPU.
pub fn gpu_words() -> Option<&'static [GpuWords; MAX_GPUS]> {
    client().map(|client| client.published().gpus())
}

/// A context was made on the GPU.
pub fn context_made(gpu: u32) {
    if let Some(client) = client() {
        client.published().context_made(gpu);
    }
}

/// So many bytes more are mapped on the GPU. Called after they were mapped.
pub fn mapped(gpu: u32, bytes: u64) {
    if let Some(client) = client() {
        client.published().mapped(gpu, bytes);
    }
}

/// So many bytes fewer are mapped on the GPU. Called before they are unmapped.
pub fn unmapping(gpu: u32, bytes: u64) {
    if let Some(client) = client() {
        client.published().unmapping(gpu, bytes);
    }
}

/// A launch is about to be handed to the GPU.
#[inline]
pub fn launch_started(gpu: u32) {
    if let Some(client) = client() {
        client.published().launch_started(gpu);
    }
}

/// Launches that were handed to the GPU and are not known to have finished.
pub fn launches_in_flight(gpu: u32) -> u32 {
    client().map_or(0, |client| client.published().launches_in_flight(gpu))
}

/// So many of them have finished.
pub fn launches_finished(gpu: u32, count: u32) {
    if let Some(client) = client() {
        client.published().launches_finished(gpu, count);
    }
}

/// Gives room of a task back. Does not wait.
pub fn give_back(task: TaskId, bytes: u64) {
    if let Some(client) = client() {
        client.give_back(task, bytes);
    }
}

/// Ends a task, of which `kept` bytes stay mapped.
pub fn end(task: TaskId, kept: u64) {
    if let Some(client) = client() {
        client.end(task, kept);
    }
}
