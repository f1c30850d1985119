//! What is wrong with devices, as the rule `health` of `SOFTGPU_FAIL` names a file for it: see
//! [`crate::fail`].

use std::collections::BTreeMap;
use std::ffi::{c_uint, c_ulonglong};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mgb_abi::nvml::{DOUBLE_BIT_ECC_ERROR, EventData, XID_CRITICAL_ERROR};

use super::{NvmlResult, Refusal, handle, index, nvml, put};

/// How often a set of events looks into the files.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// `NVML_MEMORY_ERROR_TYPE_UNCORRECTED`.
const UNCORRECTED: c_uint = 1;

/// What a file says of a device.
#[derive(Debug, Default, PartialEq, Eq)]
struct Health {
    /// Types of events and their data, in the order in which they came.
    events: Vec<(c_ulonglong, c_ulonglong)>,
    is_pending: bool,
    has_failed: bool,
    uncorrectable: c_ulonglong,
    /// The driver is one without events.
    has_no_events: bool,
}

impl Health {
    fn of(device: usize) -> Health {
        let file = crate::fail::health(device);
        let text = file.and_then(|path| std::fs::read_to_string(path).ok());
        Health::read(&text.unwrap_or_default())
    }

    /// A line without its end is not all there yet.
    fn read(text: &str) -> Health {
        let mut health = Health::default();
        let lines = text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'));
        for line in lines {
            let (what, number) = line.split_once(' ').unwrap_or((line, ""));
            let number = number.parse().unwrap_or(0);
            match what {
                "xid" => health.events.push((XID_CRITICAL_ERROR, number)),
                "double-bit" => health.events.push((DOUBLE_BIT_ECC_ERROR, 0)),
                "pending" => health.is_pending = true,
                "failure" => health.has_failed = true,
                "no-events" => health.has_no_events = true,
                "ecc" => health.uncorrectable = number,
                _ => {}
            }
        }
        health
    }
}

/// A device whose events a set has.
#[derive(Debug)]
struct RegisteredDevice {
    device: usize,
    types: c_ulonglong,
}

static SETS: Mutex<BTreeMap<usize, Vec<RegisteredDevice>>> = Mutex::new(BTreeMap::new());
/// How many events of each device were there when NVML was initialized, or were delivered since. They go by
/// that time, not by that of a set: whoever sees that a monitor has begun can say what comes then.
static PASSED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// NVML is initialized, with so many devices.
pub fn begin(devices: usize) {
    let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    for device in 0..devices {
        passed
            .entry(device)
            .or_insert_with(|| Health::of(device).events.len());
    }
}

/// Does something with a set.
fn with<T>(set: usize, does: impl FnOnce(&mut Vec<RegisteredDevice>) -> T) -> NvmlResult<T> {
    let mut sets = SETS.lock().map_err(|_| Refusal::Unknown)?;
    sets.get_mut(&set).map(does).ok_or(Refusal::InvalidArgument)
}

/// The next event of a set, if there is one; none is to be had where a device of the set is lost.
fn next(set: &[RegisteredDevice]) -> NvmlResult<Option<EventData>> {
    if set.iter().any(|registered| crate::fail::lost(registered.device)) {
        return Err(Refusal::GpuIsLost);
    }
    let mut passed = PASSED.lock().map_err(|_| Refusal::Unknown)?;
    for registered in set {
        let passed = passed.entry(registered.device).or_default();
        let events = Health::of(registered.device).events;
        while let Some(&(event_type, event_data)) = events.get(*passed) {
            *passed += 1;
            if event_type & registered.types != 0 {
                return Ok(Some(EventData {
                    device: handle(registered.device),
                    event_type,
                    event_data,
                    gpu_instance_id: c_uint::MAX,
                    compute_instance_id: c_uint::MAX,
                }));
            }
        }
    }
    Ok(None)
}

nvml! {
    fn nvmlEventSetCreate(set: *mut usize) {
        let state = super::shared()?;
        if (0..state.devices().len()).any(|device| Health::of(device).has_no_events) {
            return Err(Refusal::NotSupported);
        }
        let mut sets = SETS.lock().map_err(|_| Refusal::Unknown)?;
        let number = sets.last_key_value().map_or(1, |(last, _)| last + 1);
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(set, number)? };
        sets.insert(number, Vec::new());
        Ok(())
    }

    fn nvmlEventSetFree(set: usize) {
        let removed = SETS.lock().map_err(|_| Refusal::Unknown)?.remove(&set);
        removed.map(drop).ok_or(Refusal::InvalidArgument)
    }

    fn nvmlDeviceGetSupportedEventTypes(device: usize, types: *mut c_ulonglong) {
        index(device)?;
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(types, DOUBLE_BIT_ECC_ERROR | XID_CRITICAL_ERROR) }
    }

    fn nvmlDeviceRegisterEvents(device: usize, types: c_ulonglong, set: usize) {
        let (_, device) = index(device)?;
        if types & !(DOUBLE_BIT_ECC_ERROR | XID_CRITICAL_ERROR) != 0 {
            return Err(Refusal::NotSupported);
        }
        with(set, |set| set.push(RegisteredDevice { device, types }))
    }

    fn nvmlEventSetWait_v2(set: usize, to: *mut EventData, timeout_ms: c_uint) {
        let until = Instant::now() + Duration::from_millis(timeout_ms.into());
        loop {
            if let Some(event) = with(set, |set| next(set))?? {
                // SAFETY: the out pointer is null or writable: NVML's contract of the function.
                return unsafe { put(to, event) };
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Refusal::Timeout);
            }
            std::thread::sleep(left.min(LOOK_INTERVAL));
        }
    }

    fn nvmlDeviceGetRemappedRows(
        device: usize,
        corrected: *mut c_uint,
        uncorrected: *mut c_uint,
        is_pending: *mut c_uint,
        failure_occurred: *mut c_uint,
    ) {
        let (_, device) = index(device)?;
        let health = Health::of(device);
        // SAFETY: the out pointers are null or writable: NVML's contract of the function.
        unsafe {
            put(corrected, 0)?;
            put(uncorrected, u32::from(health.is_pending))?;
            put(is_pending, u32::from(health.is_pending))?;
            put(failure_occurred, u32::from(health.has_failed))
        }
    }

    fn nvmlDeviceGetTotalEccErrors(device: usize, kind: c_uint, _counter: c_uint, count: *mut c_ulonglong) {
        let (_, device) = index(device)?;
        let uncorrectable = Health::of(device).uncorrectable;
        // SAFETY: the out pointer is null or writable: NVML's contract of the function.
        unsafe { put(count, if kind == UNCORRECTED { uncorrectable } else { 0 }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_is_wrong() {
        let health = Health::read("xid 79\npending\necc 3\nwhat\ndouble-bit\nxid 4");
        let events = vec![(XID_CRITICAL_ERROR, 79), (DOUBLE_BIT_ECC_ERROR, 0)];
        let right = Health {
            events,
            is_pending: true,
            uncorrectable: 3,
            ..Health::default()
        };
        assert_eq!(health, right);
    }
}
