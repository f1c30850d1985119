//! The process's one driver: loaded and initialised at the first need, in the process's turn at mgbd.

use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

use mgb_core::{mps, notice};
use mgb_probe::Client;

use crate::code::{Code, Own};
use crate::driver::Driver;
use crate::{address_hold, driver, session};

/// What the driver reads.
pub const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();

/// Whether lazyrt has loaded and initialised it.
pub fn is_loaded() -> bool {
    DRIVER.get().is_some()
}

/// The driver, initialised. The error says what is missing; it stays the same for the process. The first call
/// may wait for up to 30 s for its turn: call it without a lock.
pub fn get() -> Result<&'static Driver, &'static str> {
    DRIVER.get_or_init(load).as_ref().map_err(String::as_str)
}

/// As [`get`], for an op that cannot go on without it: prints what is missing, once.
pub fn required() -> Result<&'static Driver, Own> {
    session::note_use();
    get().map_err(|why| {
        notice::once("driver", format_args!("{why}"));
        Own(Code::INITIALIZATION)
    })
}

fn load() -> Result<Driver, String> {
    let _turn = session::client().map(|client| {
        let turn = client.turn(false);
        join_mps(client);
        turn
    });
    let before = std::env::var_os(VISIBLE);
    let uuids = session::client().and_then(|client| shared(client, before.as_deref()));
    let named = uuids.filter(|uuids| !uuids.is_empty());
    if let Some(uuids) = &named {
        set_visible(Some(OsString::from(uuids)));
    }
    let driver = address_hold::hand_over(driver::initialise);
    if named.is_some() {
        // The driver has read it; programs that this one starts ask for themselves.
        set_visible(before);
    }
    driver
}

/// The UUIDs of the GPUs that the driver is to see, where it would not see them by itself: mgbd may share a
/// part of the node's alone. Its MPS counts that part, from 0 on; outside of it a program would have devices
/// for which there is no GPU, and two of its devices on one.
fn shared(client: &Client, before: Option<&OsStr>) -> Option<String> {
    match before {
        Some(list) => Some(client.uuids_of(list.to_str()?).join(",")),
        None if !mps::is_used(client.hello()) => {
            let all: Vec<&str> = client.hello().gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
            Some(all.join(","))
        }
        None => None,
    }
}

/// What the program's environment said of its percentage of the multiprocessors, before this library did.
static OWN_PERCENTAGE: OnceLock<Option<OsString>> = OnceLock::new();

/// Notes what that was, the first time.
pub fn note_own_percentage(own: Option<OsString>) {
    let _ = OWN_PERCENTAGE.set(own);
}

/// The driver is about to join MPS.
fn join_mps(client: &Client) {
    rejoin_mps(client);
    mps::tell(client);
}

/// Has the driver join MPS as a latency program, where the program has said that it is one since mgbd was
/// first asked.
fn rejoin_mps(client: &Client) {
    if client.mps_client() == client.hello().mps_client || mps::why_outside().is_some() {
        return;
    }
    let priority = client.mps_client().priority.map(|priority| priority.to_string());
    let own = OWN_PERCENTAGE.get().cloned().flatten();
    // SAFETY: as for `set_visible`.
    unsafe {
        if let Some(priority) = priority {
            std::env::set_var(mps::PRIORITY, priority);
        }
        match own {
            Some(own) => std::env::set_var(mps::PERCENTAGE, own),
            None => std::env::remove_var(mps::PERCENTAGE),
        }
    }
}

/// Sets the GPUs that the driver sees when it is initialised.
pub fn set_visible(value: Option<OsString>) {
    // SAFETY: this is the process's first GPU op, as where the MPS pipe is set. A thread that reads the
    // environment by itself at this moment races with it, as with any `setenv` of a library.
    unsafe {
        match value {
            Some(value) => std::env::set_var(VISIBLE, value),
            None => std::env::remove_var(VISIBLE),
        }
    }
}
