//! The driver's functions that the front calls for itself: past the gate, and past the front's own functions.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

pub use mgb_abi::error::Code;
pub use mgb_core::driver::{Context, Driver, Entered, Event, GraphNode, POSIX_FILE, Stream};

use crate::{driver, names};

/// The driver's functions. One that this driver lacks answers an error, as it does to the program, and is
/// reported once.
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        // SAFETY: the driver's function of that name, or what stands in for a missing one.
        unsafe { Driver::find(find) }.expect("the front exports every function that it calls")
    })
}

/// The driver's function, or where a call of the program's goes that this driver lacks.
fn find(name: &CStr) -> *const c_void {
    let index = names::NAMES.iter().position(|known| *known == name);
    index.map_or(std::ptr::null(), |index| {
        driver::function(index).unwrap_or_else(|| driver::address(index))
    })
}
