//! Whether a stream captures, and which stream a call means.

use mgb_abi::stream::{CAPTURE_STATUS_NONE, STREAM_PER_THREAD};

use super::stream;
use crate::code::Own;
use crate::native::{self, Stream};
use crate::{device, state, thread};

/// Whether the stream captures. Asked where the stream is: what only asks does not have it go on elsewhere.
pub fn is_capturing(stream: Stream) -> bool {
    let Ok(Some(real)) = stream::real_where_it_is(named(stream)) else {
        return false;
    };
    let mut status = 0;
    // SAFETY: writes one int; a bad stream is an error here as in the call to come.
    let code = unsafe { native::cudaStreamIsCapturing(real, &mut status) };
    code.is_success() && status != CAPTURE_STATUS_NONE
}

/// The stream that a call means by this handle, by name: null is the thread's own default stream in some
/// calls.
pub fn named(stream: Stream) -> Stream {
    if stream.is_null() && thread::with(|thread| thread.is_per_thread()) {
        return STREAM_PER_THREAD as Stream;
    }
    stream
}

/// Whether this is the thread's own default stream of the current device, and it captures. The legacy one
/// never does. Makes that device's GPU current: each has such a stream.
pub fn captures_by_default(stream: Stream) -> Result<bool, Own> {
    let own = state::lazy_shared().filter(|own| own.is_bound());
    match own.map(|own| own.placement()) {
        Some((gpu, ordinal)) if named(stream) as usize == STREAM_PER_THREAD => {
            device::select(gpu, ordinal)?;
            Ok(is_capturing(stream))
        }
        _ => Ok(false),
    }
}
