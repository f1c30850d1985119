//! The devices that this process sees, found at the first call.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::gpu::Gpu;
use crate::config::visible;
use crate::driver_front;
use crate::error::{Error, Result};

/// The devices of this process, in the order in which it sees them.
pub struct VisibleDevices {
    gpus: Vec<Gpu>,
}

impl VisibleDevices {
    /// The visible devices.
    pub fn gpus(&'static self) -> &'static [Gpu] {
        &self.gpus
    }

    /// The device with this ordinal.
    ///
    /// # Errors
    /// `INVALID_DEVICE`.
    pub fn gpu(&'static self, ordinal: i32) -> Result<&'static Gpu> {
        usize::try_from(ordinal)
            .ok()
            .and_then(|ordinal| self.gpus().get(ordinal))
            .ok_or(Error::INVALID_DEVICE)
    }
}

/// Set in a child that was forked after its parent began to use CUDA.
static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_forked_child() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Whether this is a child that was forked after its parent began to use CUDA: threads that it does not have
/// may hold any lock.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

static NODE: OnceLock<Result<VisibleDevices>> = OnceLock::new();

/// The devices, found at the first call; a driver front is asked first.
///
/// # Errors
/// `INITIALIZATION` where they cannot be used: a bad configuration, or a child forked after the
/// first call, as CUDA has it; `NO_DEVICE` where there is none.
pub fn node() -> Result<&'static VisibleDevices> {
    if FORKED.load(Ordering::Relaxed) {
        return Err(Error::INITIALIZATION);
    }
    if NODE.get().is_none() {
        driver_front::front();
    }
    known()
}

/// The devices, found at the first call: for the driver's own initialisation, which a front has called or
/// which comes before any front.
///
/// # Errors
/// Those of [`node`].
pub fn known() -> Result<&'static VisibleDevices> {
    if FORKED.load(Ordering::Relaxed) {
        return Err(Error::INITIALIZATION);
    }
    NODE.get_or_init(found).as_ref().map_err(|&error| error)
}

fn found() -> Result<VisibleDevices> {
    crate::fail::prepare()?;
    crate::time::settings::prepare()?;
    crate::time::mps_client::mps_client();
    crate::exec::order::prepare()?;
    let state = crate::state::shared()?;
    let mask = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let visible = visible::visible(mask.as_deref(), state.devices().len());
    let gpus: Vec<Gpu> = visible
        .iter()
        .enumerate()
        .map(|(at, &index)| Gpu::new(at, index, state))
        .collect();
    if let Some(first) = gpus.first() {
        crate::exec::calls::set_clock(first.profile().clock_khz);
    }
    crate::exec::threads::watch_exit();
    // SAFETY: the handler only stores to an atomic.
    unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
    if gpus.is_empty() {
        Err(Error::NO_DEVICE)
    } else {
        Ok(VisibleDevices { gpus })
    }
}
