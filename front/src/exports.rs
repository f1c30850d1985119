//! The exported functions, as the build script wrote them from the catalogue: each a call or a jump through
//! its slot.

use std::ffi::c_void;

use crate::enter;
use crate::names::COUNT;

/// The address of a function.
pub struct Address(pub *const c_void);

// SAFETY: the address of a function is valid in all threads.
unsafe impl Sync for Address {}

include!(concat!(env!("OUT_DIR"), "/exports.rs"));
