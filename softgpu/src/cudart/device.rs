//! Devices: how many, which one, what they are, waiting for them.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use mgb_abi::device::*;
use mgb_abi::properties::DeviceProp;

use super::{put, runtime};
use crate::config::profile;
use crate::config::spec::MAX_DEVICES;
use crate::device::properties;
use crate::device::{current, node};
use crate::driver::context::synchronize;
use crate::driver_front;
use crate::error::{Error, Result};
use crate::exec::device_heap;

/// The limits that the device has, and what they are before a program sets them.
const LIMITS: [(u32, usize); 6] = [
    (LIMIT_STACK_SIZE, 1024),
    (LIMIT_PRINTF_FIFO_SIZE, 1 << 20),
    (LIMIT_MALLOC_HEAP_SIZE, DEFAULT_MALLOC_HEAP_SIZE as usize),
    (LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2),
    (LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048),
    (LIMIT_MAX_L2_FETCH_GRANULARITY, 128),
];

static SET_LIMITS: parking_lot::Mutex<[Option<usize>; LIMITS.len()]> =
    parking_lot::Mutex::new([None; LIMITS.len()]);

/// The flags that the program has set, by device. They change nothing here.
static FLAGS: [AtomicU32; MAX_DEVICES] = [const { AtomicU32::new(0) }; MAX_DEVICES];

fn limit_index(limit: u32) -> Result<usize> {
    LIMITS
        .iter()
        .position(|&(known, _)| known == limit)
        .ok_or(Error::INVALID_VALUE)
}

runtime! {
    fn cudaGetDeviceCount(count: *mut c_int) {
        put!(count, 0);
        put!(count, node()?.gpus().len() as c_int);
        Ok(())
    }

    fn cudaGetDevice(device: *mut c_int) {
        put!(device, current::gpu()?.ordinal as c_int);
        Ok(())
    }

    fn cudaSetDevice(device: c_int) {
        current::set(device)
    }

    fn cudaInitDevice(device: c_int, _device_flags: c_uint, _flags: c_uint) {
        node()?.gpu(device)?.enter()
    }

    fn cudaSetDeviceFlags(flags: c_uint) {
        if flags & !DEVICE_MASK != 0 || (flags & DEVICE_SCHEDULE_MASK).count_ones() > 1 {
            return Err(Error::INVALID_VALUE);
        }
        FLAGS[current::active()?.ordinal].store(flags, Relaxed);
        Ok(())
    }

    fn cudaGetDeviceFlags(flags: *mut c_uint) {
        put!(flags, FLAGS[current::gpu()?.ordinal].load(Relaxed) | DEVICE_MAP_HOST);
        Ok(())
    }

    fn cudaSetValidDevices(_devices: *mut c_int, _count: c_int) {
        node().map(drop)
    }

    fn cudaGetDeviceProperties(properties: *mut DeviceProp, device: c_int) {
        put!(properties, properties::of(node()?.gpu(device)?));
        Ok(())
    }

    fn cudaChooseDevice(device: *mut c_int, _wanted: *const DeviceProp) {
        node()?;
        put!(device, 0);
        Ok(())
    }

    fn cudaDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        let gpu = node()?.gpu(device)?;
        put!(value, properties::attribute(gpu, attribute).ok_or(Error::INVALID_VALUE)?);
        Ok(())
    }

    fn cudaDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: c_int) {
        let id = properties::pci_bus_id(node()?.gpu(device)?);
        if text.is_null() || (length as usize) <= id.len() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: `text` has room for `length` bytes: CUDA's contract of the function.
        unsafe { std::ptr::copy_nonoverlapping(format!("{id}\0").as_ptr(), text.cast(), id.len() + 1) };
        Ok(())
    }

    fn cudaDeviceGetByPCIBusId(device: *mut c_int, text: *const c_char) {
        if text.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: `text` is not null, and a string: CUDA's contract of the function.
        let wanted = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        let mut gpus = node()?.gpus().iter();
        let gpu = gpus.find(|gpu| properties::pci_bus_id(gpu).eq_ignore_ascii_case(&wanted));
        put!(device, gpu.ok_or(Error::INVALID_VALUE)?.ordinal as c_int);
        Ok(())
    }

    fn cudaDeviceSynchronize() {
        let gpu = current::active()?;
        match driver_front::front() {
            Some(front) => front.cuCtxSynchronize(),
            None => synchronize(gpu),
        }
    }

    fn cudaDeviceReset() {
        let gpu = current::gpu()?;
        match driver_front::front() {
            Some(front) => gpu.reset_by(front)?,
            None => gpu.reset(),
        }
        *SET_LIMITS.lock() = [None; LIMITS.len()];
        device_heap::set_limit(DEFAULT_MALLOC_HEAP_SIZE);
        Ok(())
    }

    fn cudaDeviceGetLimit(value: *mut usize, limit: u32) {
        current::active()?;
        let index = limit_index(limit)?;
        put!(value, SET_LIMITS.lock()[index].unwrap_or(LIMITS[index].1));
        Ok(())
    }

    fn cudaDeviceSetLimit(limit: u32, value: usize) {
        current::active()?;
        SET_LIMITS.lock()[limit_index(limit)?] = Some(value);
        if limit == LIMIT_MALLOC_HEAP_SIZE {
            device_heap::set_limit(value as u64);
        }
        Ok(())
    }

    fn cudaDeviceGetCacheConfig(config: *mut c_int) {
        current::active()?;
        put!(config, 0);
        Ok(())
    }

    fn cudaDeviceSetCacheConfig(_config: c_int) {
        current::active().map(drop)
    }

    fn cudaDeviceGetSharedMemConfig(config: *mut c_int) {
        current::active()?;
        put!(config, 1);
        Ok(())
    }

    fn cudaDeviceSetSharedMemConfig(_config: c_int) {
        current::active().map(drop)
    }

    fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        current::active()?;
        if !least.is_null() {
            put!(least, 0);
        }
        if !greatest.is_null() {
            put!(greatest, crate::stream::GREATEST_PRIORITY);
        }
        Ok(())
    }

    fn cudaDriverGetVersion(version: *mut c_int) {
        put!(version, profile::CUDA_VERSION);
        Ok(())
    }

    fn cudaRuntimeGetVersion(version: *mut c_int) {
        put!(version, profile::CUDA_VERSION);
        Ok(())
    }

    fn cudaProfilerStart() {
        Ok(())
    }

    fn cudaProfilerStop() {
        Ok(())
    }

    fn cudaCtxResetPersistingL2Cache() {
        current::active().map(drop)
    }

    fn cudaDeviceFlushGPUDirectRDMAWrites(_target: c_int, _scope: c_int) {
        Err(Error::NOT_SUPPORTED)
    }

    fn cudaGetExportTable(_table: *mut *const c_void, _id: *const c_void) {
        // The tables are private to NVIDIA's own libraries.
        Err(Error::NOT_FOUND)
    }
}
