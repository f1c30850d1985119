//! The GPUs on which this process has a context.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use mgb_abi::error::Code;
use mgb_probe::wire::MAX_GPUS;
use parking_lot::{Condvar, Mutex};

/// One bit for each GPU, by index into the hello.
static CONTEXTS: AtomicU64 = AtomicU64::new(0);
/// What is to be done in each context once it is made.
static SET_UP: OnceLock<fn() -> Result<(), Code>> = OnceLock::new();
/// One bit for each GPU whose context has been set up.
static READY: AtomicU64 = AtomicU64::new(0);
/// The GPUs whose contexts are being set up, and the threads that do it.
static BEING_SET_UP: Mutex<Vec<(u32, ThreadId)>> = Mutex::new(Vec::new());
/// Notified when a thread is gone from [`BEING_SET_UP`].
static SET_UP_ENDED: Condvar = Condvar::new();

fn bit(gpu: u32) -> u64 {
    1 << (gpu % MAX_GPUS as u32)
}

/// Registers what to do on the thread that makes a context, right after it, with the context current:
/// modules above this one bring the context to the state that the program has asked for. The first
/// registration stays.
pub fn set_set_up(set_up: fn() -> Result<(), Code>) {
    let _ = SET_UP.set(set_up);
}

/// The first context of this process on a GPU, until it is set up: other threads wait for that. Until then,
/// memory that the program takes for pinned is not, and a kernel that reads it would fault.
#[must_use]
pub struct SettingUp(u32);

/// There is a context on the GPU. The thread that says so first is to set it up, and then drops what this
/// returns; others return once that is done. The caller holds no lock that setting up takes.
pub fn note(gpu: u32) -> Option<SettingUp> {
    if READY.load(Ordering::Acquire) & bit(gpu) != 0 {
        return None;
    }
    let own = thread::current().id();
    let mut list = BEING_SET_UP.lock();
    loop {
        if READY.load(Ordering::Acquire) & bit(gpu) != 0 {
            return None;
        }
        match list.iter().find(|(known, _)| *known == gpu) {
            Some((_, by)) if *by == own => return None,
            Some(_) => SET_UP_ENDED.wait(&mut list),
            None => {
                list.push((gpu, own));
                CONTEXTS.fetch_or(bit(gpu), Ordering::AcqRel);
                return Some(SettingUp(gpu));
            }
        }
    }
}

impl SettingUp {
    /// Brings the context to the state that the program has asked for.
    ///
    /// # Errors
    /// What the program asked for and cannot have: the call that made the context answers it.
    pub fn run(self) -> Result<(), Code> {
        SET_UP.get().map_or(Ok(()), |set_up| set_up())
    }
}

impl Drop for SettingUp {
    fn drop(&mut self) {
        READY.fetch_or(bit(self.0), Ordering::AcqRel);
        BEING_SET_UP.lock().retain(|(gpu, _)| *gpu != self.0);
        SET_UP_ENDED.notify_all();
    }
}

/// Whether there is any.
pub fn any() -> bool {
    CONTEXTS.load(Ordering::Acquire) != 0
}

/// Whether there is one on this GPU.
pub fn is_on(gpu: u32) -> bool {
    CONTEXTS.load(Ordering::Acquire) & bit(gpu) != 0
}

/// Whether there are contexts on several GPUs.
#[inline]
pub fn on_several() -> bool {
    let mask = CONTEXTS.load(Ordering::Relaxed);
    mask & mask.wrapping_sub(1) != 0
}

/// The GPUs with a context.
pub fn gpus() -> impl Iterator<Item = u32> {
    let mask = CONTEXTS.load(Ordering::Acquire);
    (0..MAX_GPUS as u32).filter(move |gpu| mask & bit(*gpu) != 0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn others_wait_until_a_context_is_set_up() {
        const GPU: u32 = 17;
        static IS_SET_UP: AtomicBool = AtomicBool::new(false);
        let first = note(GPU).expect("nobody was here before");
        assert!(note(GPU).is_none(), "the thread that sets up goes on");
        let (tell, told) = mpsc::channel();
        let other = thread::spawn(move || {
            let is_first = note(GPU).is_some();
            tell.send(()).expect("somebody listens");
            (is_first, IS_SET_UP.load(Ordering::Acquire))
        });
        assert!(
            told.recv_timeout(Duration::from_millis(100)).is_err(),
            "it went on"
        );
        IS_SET_UP.store(true, Ordering::Release);
        first.run().expect("there is nothing to set up");
        assert_eq!(other.join().expect("it ends"), (false, true));
        assert!(is_on(GPU) && note(GPU).is_none());
    }
}
