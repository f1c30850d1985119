//! The process's one driver: loaded and initialised at the first need, in the process's turn at mgbd.

use std::sync::OnceLock;

use crate::code::{Code, Own};
use crate::driver::Driver;
use crate::{address_hold, driver, notice, session};

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
    let _turn = session::client().map(|client| client.turn(false));
    address_hold::hand_over(driver::initialise)
}
