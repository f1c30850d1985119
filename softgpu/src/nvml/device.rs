//! Devices: how many, their memory, the processes on them, their utilization.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong};

use mgb_abi::nvml::{Memory, MemoryV2, ProcessInfo, Utilization};

use super::{NvmlResult, Refusal, handle, index, nvml, put, put_text, shared};
use crate::clock;
use crate::config::profile::{self, Profile};
use crate::error::c_str;
use crate::state::{Holding, SharedState};
use crate::time::booking;

/// Nanoseconds over which utilization is taken.
const WINDOW: u64 = 1_000_000_000;

fn memory(state: &SharedState, index: usize) -> Memory {
    let (total, used) = (state.devices()[index].memory, state.used(index));
    Memory {
        total,
        free: total.saturating_sub(used),
        used,
    }
}

/// What a device claims to be.
pub(super) fn profile_of(device: usize) -> NvmlResult<&'static Profile> {
    let (state, index) = index(device)?;
    Ok(state.devices()[index].profile)
}

fn by_uuid(wanted: &CStr) -> NvmlResult<usize> {
    let wanted = wanted.to_string_lossy();
    let count = shared()?.devices().len();
    let mut all = 0..count;
    let found = all.find(|&index| profile::uuid_text(&profile::uuid(index)).eq_ignore_ascii_case(&wanted));
    found.ok_or(Refusal::NotFound)
}

nvml! {
    fn nvmlDeviceGetCount(count: *mut c_uint) {
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(count, shared()?.devices().len() as c_uint) }
    }

    fn nvmlDeviceGetCount_v2(count: *mut c_uint) {
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(count, shared()?.devices().len() as c_uint) }
    }

    fn nvmlDeviceGetHandleByIndex_v2(number: c_uint, device: *mut usize) {
        let (_, found) = index(handle(number as usize))?;
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(device, handle(found)) }
    }

    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut usize) {
        // SAFETY: `uuid` is null or a string, `device` null or writable: NVML's contract of the function.
        unsafe { put(device, handle(by_uuid(c_str(uuid).ok_or(Refusal::InvalidArgument)?)?)) }
    }

    fn nvmlDeviceGetIndex(device: usize, number: *mut c_uint) {
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(number, index(device)?.1 as c_uint) }
    }

    fn nvmlDeviceGetMinorNumber(device: usize, number: *mut c_uint) {
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(number, index(device)?.1 as c_uint) }
    }

    fn nvmlDeviceGetUUID(device: usize, text: *mut c_char, length: c_uint) {
        let (_, index) = index(device)?;
        // SAFETY: the buffer is null or has room for `length` bytes: NVML's contract of the function.
        unsafe { put_text(text, length, &profile::uuid_text(&profile::uuid(index))) }
    }

    fn nvmlDeviceGetName(device: usize, text: *mut c_char, length: c_uint) {
        let name = profile_of(device)?.name;
        // SAFETY: the buffer is null or has room for `length` bytes: NVML's contract of the function.
        unsafe { put_text(text, length, name) }
    }

    fn nvmlDeviceGetNumGpuCores(device: usize, cores: *mut c_uint) {
        let profile = profile_of(device)?;
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(cores, profile.multiprocessors * profile.lanes_per_multiprocessor) }
    }

    fn nvmlDeviceGetCudaComputeCapability(device: usize, major: *mut c_int, minor: *mut c_int) {
        let profile = profile_of(device)?;
        // SAFETY: the out pointers are null or writable: NVML's contract of the function.
        unsafe {
            put(major, profile.major)?;
            put(minor, profile.minor)
        }
    }

    fn nvmlDeviceGetMemoryInfo(device: usize, to: *mut Memory) {
        let (state, index) = index(device)?;
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(to, memory(state, index)) }
    }

    fn nvmlDeviceGetMemoryInfo_v2(device: usize, to: *mut MemoryV2) {
        let (state, index) = index(device)?;
        let Memory { total, free, used } = memory(state, index);
        // SAFETY: `to` is null, or valid for reads and writes: NVML's contract of the function.
        unsafe {
            let version = to.as_ref().ok_or(Refusal::InvalidArgument)?.version;
            put(to, MemoryV2 { version, total, reserved: 0, free, used })
        }
    }

    fn nvmlDeviceGetComputeRunningProcesses_v3(device: usize, count: *mut c_uint, to: *mut ProcessInfo) {
        let (state, index) = index(device)?;
        let all = state.holdings(index).into_iter();
        let holdings: Vec<Holding> = all.filter(|holding| holding.context).collect();
        // SAFETY: `count` is null or writable, and `to` is null or has room for as many entries as it says:
        // NVML's contract of the function.
        unsafe {
            let room = *count.as_ref().ok_or(Refusal::InvalidArgument)? as usize;
            put(count, holdings.len() as c_uint)?;
            if holdings.is_empty() {
                return Ok(());
            }
            if room < holdings.len() || to.is_null() {
                return Err(Refusal::InsufficientSize);
            }
            for (at, holding) in holdings.iter().enumerate() {
                to.add(at).write(ProcessInfo {
                    pid: holding.pid,
                    used_gpu_memory: holding.bytes,
                    gpu_instance_id: c_uint::MAX,
                    compute_instance_id: c_uint::MAX,
                });
            }
        }
        Ok(())
    }

    /// softgpu's own: bytes that a process's context takes on the device, which NVIDIA's NVML does not
    /// report.
    fn softgpuDeviceGetContextBytes(device: usize, bytes: *mut c_ulonglong) {
        let (state, index) = index(device)?;
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(bytes, state.devices()[index].context) }
    }

    fn nvmlDeviceGetUtilizationRates(device: usize, to: *mut Utilization) {
        let (state, index) = index(device)?;
        let busy = state.look_at_clock(index, |clock| booking::utilization(clock, clock::now(), WINDOW));
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(to, Utilization { gpu: busy, memory: 0 }) }
    }
}
