//! The runtime API, `libcudart.so.13`: one file per family.
//!
//! Every function here has CUDA's name, arguments and meaning; what CUDA's documentation says is
//! not said again. The build script finds the functions by their names, makes the `_ptsz` and `_ptds`
//! forms of those that have them, and a stub that returns `cudaErrorNotSupported` for every exported
//! function that is not here.

mod arguments;
pub mod array;
pub mod attributes;
pub mod batch;
pub mod capture;
pub mod channel;
pub mod copy;
pub mod copy3d;
pub mod device;
mod dispatch;
pub mod entry_point;
pub mod errors;
pub mod event;
pub mod forms;
pub mod graph;
pub mod graph_attributes;
pub mod graph_copy_nodes;
pub mod graph_event_nodes;
pub mod graph_exec;
pub mod graph_host_nodes;
pub mod graph_kernel_nodes;
pub mod graph_memory_nodes;
pub mod graph_nodes;
pub mod graph_params;
pub mod graph_set_nodes;
pub mod host;
pub mod ipc;
pub mod kernel;
pub mod launch;
pub mod managed;
pub mod memory;
pub mod peer;
pub mod pool;
pub mod register;
pub mod set;
pub mod stream;
pub mod stream_attributes;
pub mod stubs;
pub mod surface;
pub mod symbol;
pub mod texture;
pub mod user_objects;

use crate::entry::caught;
pub(crate) use crate::entry::put;
use crate::error::{Result, remember};
use crate::exec::threads;

/// Runs the body of a runtime function, and remembers its error for `cudaGetLastError`.
pub fn call(name: &str, body: impl FnOnce() -> Result) -> i32 {
    remember(caught(name, || threads::running().and_then(|()| body())))
}

/// Defines runtime functions.
macro_rules! runtime {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[doc = concat!("CUDA's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// Pointers are as CUDA's documentation of the function asks.
        #[allow(clippy::too_many_arguments)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> i32 {
            $crate::cudart::call(stringify!($name), || $body)
        }
    )*};
}
pub(crate) use runtime;
