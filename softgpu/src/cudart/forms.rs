//! The `_ptsz` and `_ptds` forms: the same functions, in which the null stream is the calling
//! thread's own default stream. Made by the build script from the catalogue's signatures.

use std::ffi::c_void;

use mgb_abi::copy3d::{CudaExtent, PitchedPtr};
use mgb_abi::launch::Dim3;
use mgb_abi::location::MemLocation;

use crate::stream::handle::with_own_default;

include!(concat!(env!("OUT_DIR"), "/forms.rs"));
