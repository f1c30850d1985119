//! The names of the driver's functions and of NVML's, as the build script wrote them from the catalogue.

use std::ffi::CStr;

include!(concat!(env!("OUT_DIR"), "/names.rs"));
