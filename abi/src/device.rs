//! Limits and flags of devices.

/// `cudaLimitStackSize`.
pub const LIMIT_STACK_SIZE: u32 = 0;
/// `cudaLimitPrintfFifoSize`.
pub const LIMIT_PRINTF_FIFO_SIZE: u32 = 1;
/// `cudaLimitMallocHeapSize`.
pub const LIMIT_MALLOC_HEAP_SIZE: u32 = 2;
/// `cudaLimitDevRuntimeSyncDepth`.
pub const LIMIT_DEV_RUNTIME_SYNC_DEPTH: u32 = 3;
/// `cudaLimitDevRuntimePendingLaunchCount`.
pub const LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT: u32 = 4;
/// `cudaLimitMaxL2FetchGranularity`.
pub const LIMIT_MAX_L2_FETCH_GRANULARITY: u32 = 5;

/// Bytes of `cudaLimitMallocHeapSize` before a program sets it.
pub const DEFAULT_MALLOC_HEAP_SIZE: u64 = 8 << 20;

/// `cudaDeviceScheduleMask`: the flags that say how the host waits, of which at most one is set.
pub const DEVICE_SCHEDULE_MASK: u32 = 7;
/// `cudaDeviceMapHost`, which is always on.
pub const DEVICE_MAP_HOST: u32 = 8;
/// `cudaDeviceMask`: all flags that `cudaSetDeviceFlags` takes.
pub const DEVICE_MASK: u32 = 0xff;

/// `cudaDevAttrClockRate`.
pub const ATTRIBUTE_CLOCK_RATE: u32 = 13;
/// `cudaDevAttrGpuOverlap`.
pub const ATTRIBUTE_GPU_OVERLAP: u32 = 15;
/// `cudaDevAttrKernelExecTimeout`.
pub const ATTRIBUTE_KERNEL_EXEC_TIMEOUT: u32 = 17;
/// `cudaDevAttrComputeMode`.
pub const ATTRIBUTE_COMPUTE_MODE: u32 = 20;
/// `cudaDevAttrMemoryClockRate`.
pub const ATTRIBUTE_MEMORY_CLOCK_RATE: u32 = 36;
/// `cudaDevAttrMaxTexture1DLinearWidth`.
pub const ATTRIBUTE_MAX_TEXTURE_1D_LINEAR_WIDTH: u32 = 69;
/// `cudaDevAttrSingleToDoublePrecisionPerfRatio`.
pub const ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: u32 = 87;
/// `cudaDevAttrMaxSharedMemoryPerBlockOptin`.
pub const ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: u32 = 97;
