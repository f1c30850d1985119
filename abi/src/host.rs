//! Pinned and registered host memory.

/// `cudaHostAllocPortable`.
pub const HOST_ALLOC_PORTABLE: u32 = 1;
/// `cudaHostAllocMapped`.
pub const HOST_ALLOC_MAPPED: u32 = 2;
/// `cudaHostAllocWriteCombined`.
pub const HOST_ALLOC_WRITE_COMBINED: u32 = 4;
/// All flags of `cudaHostAlloc`.
pub const HOST_ALLOC_FLAGS: u32 = HOST_ALLOC_PORTABLE | HOST_ALLOC_MAPPED | HOST_ALLOC_WRITE_COMBINED;

/// `cudaHostRegisterPortable`.
pub const HOST_REGISTER_PORTABLE: u32 = 1;
/// `cudaHostRegisterMapped`.
pub const HOST_REGISTER_MAPPED: u32 = 2;
/// `cudaHostRegisterIoMemory`.
pub const HOST_REGISTER_IO_MEMORY: u32 = 4;
/// `cudaHostRegisterReadOnly`.
pub const HOST_REGISTER_READ_ONLY: u32 = 8;
/// All flags of `cudaHostRegister`.
pub const HOST_REGISTER_FLAGS: u32 =
    HOST_REGISTER_PORTABLE | HOST_REGISTER_MAPPED | HOST_REGISTER_IO_MEMORY | HOST_REGISTER_READ_ONLY;
