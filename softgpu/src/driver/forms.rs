//! The `_ptsz` and `_ptds` forms: the same functions, in which the null stream is the calling thread's own
//! default stream. Made by the build script from the catalogue's signatures.

use std::ffi::c_void;

use super::Export;
use crate::stream::handle::with_own_default;

include!(concat!(env!("OUT_DIR"), "/driver_forms.rs"));
