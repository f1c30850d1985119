//! Copies: which way they go, and what batches of them say.

use crate::location::MemLocation;

/// `cudaMemcpyHostToHost`.
pub const HOST_TO_HOST: u32 = 0;
/// `cudaMemcpyHostToDevice`.
pub const HOST_TO_DEVICE: u32 = 1;
/// `cudaMemcpyDeviceToHost`.
pub const DEVICE_TO_HOST: u32 = 2;
/// `cudaMemcpyDeviceToDevice`.
pub const DEVICE_TO_DEVICE: u32 = 3;
/// `cudaMemcpyDefault`: the addresses say which way the copy goes.
pub const DEFAULT: u32 = 4;

/// `cudaMemcpyAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemcpyAttributes {
    /// `cudaMemcpySrcAccessOrder`.
    pub src_access_order: u32,
    /// Where the source may lie: a hint.
    pub src_location_hint: MemLocation,
    /// Where the destination may lie: a hint.
    pub dst_location_hint: MemLocation,
    /// `cudaMemcpyFlags`: a hint.
    pub flags: u32,
}

/// `cudaMemcpySrcAccessOrderStream`: the source is read in the stream's order.
pub const SRC_ACCESS_STREAM: u32 = 1;
/// `cudaMemcpySrcAccessOrderDuringApiCall`: the source is not read after the call has returned.
pub const SRC_ACCESS_DURING_API_CALL: u32 = 2;
/// `cudaMemcpySrcAccessOrderAny`: the source may be read at any time until the copy is done.
pub const SRC_ACCESS_ANY: u32 = 3;

const _: () = assert!(size_of::<MemcpyAttributes>() == 24);
