//! Streams, their capture, and events.

/// `cudaStreamNonBlocking`.
pub const STREAM_NON_BLOCKING: u32 = 1;

/// `cudaStreamLegacy`, a handle.
pub const STREAM_LEGACY: usize = 1;
/// `cudaStreamPerThread`, a handle.
pub const STREAM_PER_THREAD: usize = 2;

/// `cudaStreamCaptureModeGlobal`.
pub const CAPTURE_MODE_GLOBAL: u32 = 0;
/// `cudaStreamCaptureModeThreadLocal`.
pub const CAPTURE_MODE_THREAD_LOCAL: u32 = 1;
/// `cudaStreamCaptureModeRelaxed`.
pub const CAPTURE_MODE_RELAXED: u32 = 2;

/// `cudaStreamCaptureStatusNone`.
pub const CAPTURE_STATUS_NONE: i32 = 0;
/// `cudaStreamCaptureStatusActive`.
pub const CAPTURE_STATUS_ACTIVE: i32 = 1;
/// `cudaStreamCaptureStatusInvalidated`.
pub const CAPTURE_STATUS_INVALIDATED: i32 = 2;

/// `cudaEventBlockingSync`.
pub const EVENT_BLOCKING_SYNC: u32 = 1;
/// `cudaEventDisableTiming`.
pub const EVENT_DISABLE_TIMING: u32 = 2;
/// `cudaEventInterprocess`.
pub const EVENT_INTERPROCESS: u32 = 4;

/// `cudaEventRecordExternal` and `cudaEventWaitExternal`: a capture makes an event node of the call.
pub const EVENT_EXTERNAL: u32 = 1;
