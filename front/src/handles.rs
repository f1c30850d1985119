//! `cuMemCreate` and what becomes of it: memory that a program maps by itself. It is there until its handle
//! was released as often as it was had, and it is mapped nowhere.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{c_int, c_ulonglong};

use mgb_abi::vmm::MemAllocationProp;
use parking_lot::Mutex;

use crate::calls::OUT_OF_MEMORY;
use crate::native::own;
use crate::{room, session};

/// CUDA's `CU_MEM_LOCATION_TYPE_DEVICE`.
const DEVICE: i32 = 1;

/// Memory of a handle.
struct Physical {
    device: c_int,
    bytes: u64,
    handles: u32,
    maps: u32,
}

/// All of it that this process has made, by handle.
#[derive(Default)]
struct Table {
    memory: HashMap<u64, Physical>,
    /// Mapped ranges: their bytes and handle, by start.
    ranges: BTreeMap<u64, (u64, u64)>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

impl Table {
    /// Whether this release, or the end of so many maps, would free the handle's memory.
    fn frees(&self, handle: u64, released: u32, unmapped: u32) -> Option<(c_int, u64)> {
        let memory = self.memory.get(&handle)?;
        (memory.handles <= released && memory.maps <= unmapped).then_some((memory.device, memory.bytes))
    }

    fn note(&mut self, handle: u64, released: u32, unmapped: u32) {
        if let Some(memory) = self.memory.get_mut(&handle) {
            memory.handles = memory.handles.saturating_sub(released);
            memory.maps = memory.maps.saturating_sub(unmapped);
            if memory.handles == 0 && memory.maps == 0 {
                self.memory.remove(&handle);
            }
        }
    }

    /// The handles that are mapped within a range, each with how often.
    fn within(&self, start: u64, bytes: u64) -> Vec<(u64, u32)> {
        let end = start.saturating_add(bytes);
        let mut found: Vec<(u64, u32)> = Vec::new();
        for (_, &(_, handle)) in self.ranges.range(start..end) {
            match found.iter_mut().find(|(known, _)| *known == handle) {
                Some((_, count)) => *count += 1,
                None => found.push((handle, 1)),
            }
        }
        found
    }
}

/// The program has one more handle of this name.
pub fn retained(handle: u64) {
    if let Some(table) = TABLE.lock().as_mut()
        && let Some(memory) = table.memory.get_mut(&handle)
    {
        memory.handles += 1;
    }
}

own! {
    fn cuMemCreate(
        handle: *mut u64, bytes: usize, prop: *const MemAllocationProp, flags: c_ulonglong,
    ) |native| {
        // SAFETY: null or a whole structure: CUDA's contract of the function.
        let location = unsafe { prop.as_ref() }.map(|prop| prop.location);
        let device = location.filter(|location| location.kind == DEVICE).map(|location| location.id);
        let is_charged = session::get().is_some() && bytes as u64 <= room::MOST;
        let Some(device) = device.filter(|_| is_charged) else {
            return native(handle, bytes, prop, flags);
        };
        // Needs no context, so this may be the first that the device hears of the process.
        room::begin(device);
        let bytes_charged = bytes as u64;
        if room::refuses_first(device, bytes_charged) || !room::charge(device, bytes_charged) {
            return OUT_OF_MEMORY;
        }
        let code = native(handle, bytes, prop, flags);
        if code != 0 || handle.is_null() {
            room::discharge(device, bytes_charged);
            return code;
        }
        // SAFETY: the driver has written it.
        let name = unsafe { *handle };
        let memory = Physical { device, bytes: bytes_charged, handles: 1, maps: 0 };
        TABLE.lock().get_or_insert_default().memory.insert(name, memory);
        room::mapped(device, bytes_charged);
        code
    }

    fn cuMemRelease(handle: u64) |native| {
        end(&[(handle, 1, 0)], || native(handle), |_| {})
    }

    fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: c_ulonglong) |native| {
        let code = native(address, bytes, offset, handle, flags);
        if code == 0
            && let Some(table) = TABLE.lock().as_mut()
            && let Some(memory) = table.memory.get_mut(&handle)
        {
            memory.maps += 1;
            table.ranges.insert(address, (bytes as u64, handle));
        }
        code
    }

    fn cuMemUnmap(address: u64, bytes: usize) |native| {
        let within = TABLE.lock().as_ref().map(|table| table.within(address, bytes as u64));
        let ends: Vec<(u64, u32, u32)> =
            within.into_iter().flatten().map(|(handle, maps)| (handle, 0, maps)).collect();
        let forget = |table: &mut Table| {
            let end = address.saturating_add(bytes as u64);
            let gone: Vec<u64> = table.ranges.range(address..end).map(|(&start, _)| start).collect();
            for start in gone {
                table.ranges.remove(&start);
            }
        };
        end(&ends, || native(address, bytes), forget)
    }
}

/// Ends handles (each released and unmapped so often) by a call of the driver, and discharges what is freed.
fn end(ends: &[(u64, u32, u32)], call: impl FnOnce() -> c_int, then: impl FnOnce(&mut Table)) -> c_int {
    let mut table = TABLE.lock();
    let Some(table) = table.as_mut() else {
        return call();
    };
    let freed = ends
        .iter()
        .filter_map(|&(handle, released, unmapped)| table.frees(handle, released, unmapped));
    let freed: Vec<(c_int, u64)> = freed.collect();
    for &(device, bytes) in &freed {
        room::unmapping(device, bytes);
    }
    let code = call();
    for &(device, bytes) in &freed {
        if code == 0 {
            room::discharge(device, bytes);
        } else {
            room::mapped(device, bytes);
        }
    }
    if code == 0 {
        for &(handle, released, unmapped) in ends {
            table.note(handle, released, unmapped);
        }
        then(table);
    }
    code
}
