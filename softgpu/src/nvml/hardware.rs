//! What a device is made of, as its profile says. What no model stands behind is not supported, by NVML's own
//! code.

use std::ffi::{c_char, c_int, c_uint};

use mgb_abi::nvml::PciInfo;

use super::device::profile_of;
use super::{NvmlResult, Refusal, handle, index, nvml, put};
use crate::error::c_str;

fn bus_id(index: usize) -> String {
    format!("00000000:{:02X}:00.0", index + 1)
}

fn text<const N: usize>(from: &str) -> [c_char; N] {
    let mut to = [0; N];
    for (to, &from) in to[..N - 1].iter_mut().zip(from.as_bytes()) {
        *to = from as c_char;
    }
    to
}

/// `nvmlClockType_t`: graphics and multiprocessors, memory.
fn clock(device: usize, kind: c_uint) -> NvmlResult<c_uint> {
    let profile = profile_of(device)?;
    match kind {
        0 | 1 => Ok(profile.clock_khz / 1000),
        2 => Ok(profile.memory_clock_khz / 1000),
        3 => Err(Refusal::NotSupported),
        _ => Err(Refusal::InvalidArgument),
    }
}

nvml! {
    fn nvmlDeviceGetPciInfo_v3(device: usize, to: *mut PciInfo) {
        let (_, index) = index(device)?;
        let id = bus_id(index);
        let info = PciInfo {
            bus_id_legacy: text(&id[4..]),
            domain: 0,
            bus: index as c_uint + 1,
            device: 0,
            pci_device_id: 0,
            pci_subsystem_id: 0,
            bus_id: text(&id),
        };
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(to, info) }
    }

    fn nvmlDeviceGetHandleByPciBusId_v2(id: *const c_char, device: *mut usize) {
        let count = super::shared()?.devices().len();
        // SAFETY: `id` is null or a string: NVML's contract of the function.
        let wanted = unsafe { c_str(id) }.ok_or(Refusal::InvalidArgument)?.to_string_lossy();
        // The domain may have four digits or eight.
        let same = |index: &usize| {
            let own = bus_id(*index);
            own.eq_ignore_ascii_case(&wanted) || own[4..].eq_ignore_ascii_case(&wanted)
        };
        let found = (0..count).find(same).ok_or(Refusal::NotFound)?;
        index(handle(found))?;
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(device, handle(found)) }
    }

    fn nvmlDeviceGetClockInfo(device: usize, kind: c_uint, to: *mut c_uint) {
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(to, clock(device, kind)?) }
    }

    fn nvmlDeviceGetMaxClockInfo(device: usize, kind: c_uint, to: *mut c_uint) {
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(to, clock(device, kind)?) }
    }

    fn nvmlDeviceGetMemoryBusWidth(device: usize, to: *mut c_uint) {
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(to, profile_of(device)?.memory_bus_bits) }
    }

    fn nvmlDeviceGetArchitecture(device: usize, to: *mut c_uint) {
        let architecture = match profile_of(device)?.major {
            6 => 4,
            7 => 5,
            8 => 7,
            _ => 9,
        };
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(to, architecture) }
    }

    fn nvmlDeviceGetComputeMode(device: usize, to: *mut c_int) {
        index(device)?;
        // Any process may use it.
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(to, 0) }
    }

    fn nvmlDeviceGetPersistenceMode(device: usize, to: *mut c_int) {
        index(device)?;
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(to, 1) }
    }

    fn nvmlDeviceGetTemperature(device: usize, _sensor: c_uint, _to: *mut c_uint) {
        index(device)?;
        Err(Refusal::NotSupported)
    }

    fn nvmlDeviceGetPowerUsage(device: usize, _to: *mut c_uint) {
        index(device)?;
        Err(Refusal::NotSupported)
    }

    fn nvmlDeviceGetFanSpeed(device: usize, _to: *mut c_uint) {
        index(device)?;
        Err(Refusal::NotSupported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_have_both_forms() {
        assert_eq!(bus_id(15), "00000000:10:00.0");
        assert_eq!(&bus_id(0)[4..], "0000:01:00.0");
    }
}
