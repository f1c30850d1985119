//! Handles by which processes share memory and events.

/// Bytes of `cudaIpcMemHandle_t` and of `cudaIpcEventHandle_t`. What they hold is the implementation's own.
pub const HANDLE_BYTES: usize = 64;

/// `cudaIpcMemLazyEnablePeerAccess`, the one flag of `cudaIpcOpenMemHandle`.
pub const LAZY_ENABLE_PEER_ACCESS: u32 = 1;
