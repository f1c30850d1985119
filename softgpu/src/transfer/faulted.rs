//! The error of a copy or set that met an address without memory.

use crate::address::locate;
use crate::error::{Error, say};

/// What a copy or set that faulted returns.
pub fn faulted(address: usize) -> Error {
    say(&format!(
        "a copy or set touched {address:#x}, where there is no memory"
    ));
    if locate(address).is_device() {
        Error::ILLEGAL_ADDRESS
    } else {
        Error::INVALID_VALUE
    }
}
