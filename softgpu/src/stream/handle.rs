//! Stream handles: what `cudaStream_t` points to.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;

use super::queue::DeviceStream;
use crate::error::{Error, Result};

static HANDLES: LazyLock<RwLock<HashMap<usize, Arc<DeviceStream>>>> = LazyLock::new(RwLock::default);

thread_local! {
    /// Whether the null handle means the thread's own default stream, in this call.
    static OWN_DEFAULT: Cell<bool> = const { Cell::new(false) };
}

/// Runs a call in which the null handle means the thread's own default stream: what the `_ptsz` and
/// `_ptds` forms of functions are.
pub fn with_own_default<T>(call: impl FnOnce() -> T) -> T {
    let before = OWN_DEFAULT.replace(true);
    let result = call();
    OWN_DEFAULT.set(before);
    result
}

/// Whether the null handle means the thread's own default stream, in this call.
pub fn own_default() -> bool {
    OWN_DEFAULT.get()
}

/// Makes a handle for a stream.
pub fn publish(stream: Arc<DeviceStream>) -> usize {
    let handle = Arc::as_ptr(&stream) as usize;
    HANDLES.write().insert(handle, stream);
    handle
}

/// Takes a handle back.
pub fn take(handle: usize) -> Result<Arc<DeviceStream>> {
    HANDLES.write().remove(&handle).ok_or(Error::INVALID_HANDLE)
}

/// Drops the handle of a stream whose context goes.
pub fn forget(stream: &Arc<DeviceStream>) {
    HANDLES.write().remove(&(Arc::as_ptr(stream) as usize));
}

/// The stream that a handle names, other than a default stream.
///
/// # Errors
/// `INVALID_HANDLE`.
pub fn find(handle: usize) -> Result<Arc<DeviceStream>> {
    HANDLES.read().get(&handle).cloned().ok_or(Error::INVALID_HANDLE)
}
