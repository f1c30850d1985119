//! `cuInit`: where a process joins mgbd.

use std::ffi::c_uint;

use crate::native::own;
use crate::{room, session};

own! {
    fn cuInit(flags: c_uint) |native| {
        let mut code = None;
        // SAFETY: the caller's arguments.
        session::start(room::first, || code = Some(unsafe { native(flags) }));
        // SAFETY: as above; the process has been through here before.
        code.unwrap_or_else(|| unsafe { native(flags) })
    }
}
