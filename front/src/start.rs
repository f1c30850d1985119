//! `cuInit`: where a process joins mgbd.

use std::ffi::c_uint;

use crate::native::own;
use crate::{room, session};

own! {
    fn cuInit(flags: c_uint) |native| {
        let mut code = None;
        // SAFETY: the arguments meet CUDA's contract of this function, which is the driver's as well.
        session::start(room::first, || code = Some(unsafe { native(flags) }));
        // SAFETY: as above. The process has been through here before.
        code.unwrap_or_else(|| unsafe { native(flags) })
    }
}
