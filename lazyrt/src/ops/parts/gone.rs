//! The word by which mgbd tells a GPU that the process is gone: in the channel's memory, which outlives it.

use std::ffi::c_void;

use mgb_abi::host::{HOST_REGISTER_MAPPED, HOST_REGISTER_PORTABLE};

use crate::native;
use crate::session;

/// Its address for the current GPU; `None`: that GPU cannot reach it.
pub fn address() -> Option<u64> {
    let word = std::ptr::from_ref(session::client()?.pace().gone()) as usize;
    // SAFETY: a number of the system's.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let start = word - word % page;
    let mut device = std::ptr::null_mut::<c_void>();
    // SAFETY: a page of the channel, which stays mapped as long as the process lives; and one pointer is
    // written. It may be registered already, for another GPU: that error is told by the second call.
    let code = unsafe {
        let flags = HOST_REGISTER_MAPPED | HOST_REGISTER_PORTABLE;
        native::cudaHostRegister(start as *mut c_void, page, flags);
        native::cudaHostGetDevicePointer(&mut device, start as *mut c_void, 0)
    };
    code.is_success().then_some(device as u64 + (word - start) as u64)
}
