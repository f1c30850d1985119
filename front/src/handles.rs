//! `cuMemCreate` and what becomes of it: memory that a program maps by itself. What the driver does and what
//! is noted of it happen within the gate together: memory that leaves meanwhile would leave without the one
//! or the other.

use std::ffi::{c_int, c_ulonglong, c_void};

use mgb_abi::location::LOCATION_DEVICE;
use mgb_abi::pool::MemAccessDesc;
use mgb_abi::vmm::MemAllocationProp;
use mgb_core::gate;
use parking_lot::MutexGuard;

use crate::calls::{Code, driver};
use crate::native::own;
use crate::program_memory::{self, Table};
use crate::{allocations, driver_memory, room, session};

/// Calls a function of the driver's past the gate, in which the caller is.
macro_rules! driver {
    ($name:ident($($value:expr => $ty:ty),* $(,)?)) => {{
        let address = crate::driver::address(crate::names::index::$name);
        // SAFETY: the slot's code goes on to the driver's function of this name, which has this signature,
        // and the values are the program's: CUDA's contract of the function.
        unsafe {
            std::mem::transmute::<*const c_void, unsafe extern "C" fn($($ty),*) -> Code>(address)($($value),*)
        }
    }};
}

own! {
    fn cuMemCreate(
        handle: *mut u64, bytes: usize, prop: *const MemAllocationProp, flags: c_ulonglong,
    ) |native| {
        // SAFETY: null or a whole structure: CUDA's contract of the function.
        let on_device = unsafe { prop.as_ref() }.filter(|prop| prop.location.kind == LOCATION_DEVICE);
        let is_charged = session::get().is_some() && bytes as u64 <= room::MAX_CHARGED_BYTES;
        let Some(prop) = on_device.filter(|_| is_charged) else {
            return native(handle, bytes, prop, flags);
        };
        let device = prop.location.id;
        // Needs no context, so this may be the first that the device hears of the process.
        room::begin(device);
        let bytes_charged = bytes as u64;
        if room::refuses_first(device, bytes_charged) || !room::charge(device, bytes_charged) {
            return Code::MEMORY_ALLOCATION;
        }
        let code = driver_memory::granted(|| native(handle, bytes, prop, flags));
        if code != Code::SUCCESS || handle.is_null() {
            room::discharge(device, bytes_charged);
            return code;
        }
        let _inside = gate::enter();
        // SAFETY: the driver has written it, and the caller reads it.
        let handle = unsafe { &mut *handle };
        *handle = program_memory::lock().made(*handle, bytes_charged, prop, flags);
        room::mapped(device, bytes_charged);
        code
    }

    fn cuMemRelease(handle: u64) |_native| {
        let inside = gate::enter();
        let table = program_memory::lock();
        // The driver counts one handle of memory that was in the host.
        let is_last = table.memory.get(&handle).is_none_or(|memory| !memory.is_renamed || memory.handles <= 1);
        let native = table.native(handle);
        let release = || if is_last { driver().release(native) } else { Code::SUCCESS };
        end(inside, table, &[(handle, 1, 0)], release, |_| {})
    }

    fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: u64, flags: c_ulonglong) |_native| {
        let _inside = gate::enter();
        let mut table = program_memory::lock();
        let code = driver!(cuMemMap(
            address => u64, bytes => usize, offset => usize, table.native(handle) => u64, flags => c_ulonglong,
        ));
        if code == Code::SUCCESS {
            table.mapped(address, bytes as u64, offset as u64, handle, flags);
        }
        code
    }

    fn cuMemUnmap(address: u64, bytes: usize) |_native| {
        let inside = gate::enter();
        let table = program_memory::lock();
        let within = table.within(address, bytes as u64).into_iter();
        let ends: Vec<(u64, u32, u32)> = within.map(|(name, maps)| (name, 0, maps)).collect();
        let unmap = || driver().unmap(address, bytes as u64);
        end(inside, table, &ends, unmap, |table| table.unmapped(address, bytes as u64))
    }

    fn cuMemSetAccess(address: u64, bytes: usize, access: *const MemAccessDesc, count: usize) |_native| {
        let _inside = gate::enter();
        let mut table = program_memory::lock();
        let code = driver!(cuMemSetAccess(
            address => u64, bytes => usize, access => *const MemAccessDesc, count => usize,
        ));
        if code == Code::SUCCESS && !access.is_null() {
            // SAFETY: the driver has read so many: CUDA's contract of the function.
            table.allowed(address, bytes as u64, unsafe { std::slice::from_raw_parts(access, count) });
        }
        code
    }

    /// What other processes may have stays where it is.
    fn cuMemExportToShareableHandle(
        shareable: *mut c_void, handle: u64, kind: c_int, flags: c_ulonglong,
    ) |_native| {
        let _inside = gate::enter();
        let mut table = program_memory::lock();
        table.stay(handle);
        driver!(cuMemExportToShareableHandle(
            shareable => *mut c_void, table.native(handle) => u64, kind => c_int, flags => c_ulonglong,
        ))
    }

    fn cuMemImportFromShareableHandle(handle: *mut u64, shareable: *mut c_void, kind: c_int) |native| {
        let code = native(handle, shareable, kind);
        // SAFETY: as for every handle.
        unsafe { name(code, handle) }
    }

    fn cuMemGetAllocationPropertiesFromHandle(prop: *mut MemAllocationProp, handle: u64) |_native| {
        let _inside = gate::enter();
        let handle = program_memory::lock().native(handle);
        driver!(cuMemGetAllocationPropertiesFromHandle(prop => *mut MemAllocationProp, handle => u64))
    }

    fn cuMemRetainAllocationHandle(handle: *mut u64, address: *mut c_void) |_native| {
        // Of memory that the program has not made by cuMemCreate there is no handle.
        if allocations::lock().find(address as u64).is_some() {
            return Code::INVALID_VALUE;
        }
        let _inside = gate::enter();
        let mut table = program_memory::lock();
        let code = driver!(cuMemRetainAllocationHandle(handle => *mut u64, address => *mut c_void));
        // SAFETY: null, or the driver has written it, and the caller reads it.
        if let Some(handle) = unsafe { handle.as_mut() }.filter(|_| code == Code::SUCCESS) {
            let (name, is_too_many) = table.retained(*handle);
            if is_too_many {
                driver().release(*handle);
            }
            *handle = name;
        }
        code
    }

    fn cuMulticastCreate(handle: *mut u64, prop: *const c_void) |native| {
        let code = native(handle, prop);
        // SAFETY: as for every handle.
        unsafe { name(code, handle) }
    }

    fn cuMulticastAddDevice(handle: u64, device: c_int) |_native| {
        let _inside = gate::enter();
        let handle = program_memory::lock().native(handle);
        driver!(cuMulticastAddDevice(handle => u64, device => c_int))
    }

    /// What several devices write at once stays where it is.
    fn cuMulticastBindMem(
        handle: u64, offset: usize, memory: u64, memory_offset: usize, bytes: usize, flags: c_ulonglong,
    ) |_native| {
        let _inside = gate::enter();
        let mut table = program_memory::lock();
        table.stay(memory);
        driver!(cuMulticastBindMem(
            table.native(handle) => u64, offset => usize, table.native(memory) => u64, memory_offset => usize,
            bytes => usize, flags => c_ulonglong,
        ))
    }

    fn cuMulticastBindAddr(
        handle: u64, offset: usize, address: u64, bytes: usize, flags: c_ulonglong,
    ) |_native| {
        let _inside = gate::enter();
        program_memory::stay_at(address, bytes as u64);
        let handle = program_memory::lock().native(handle);
        driver!(cuMulticastBindAddr(
            handle => u64, offset => usize, address => u64, bytes => usize, flags => c_ulonglong,
        ))
    }

    fn cuMulticastUnbind(handle: u64, device: c_int, offset: usize, bytes: usize) |_native| {
        let _inside = gate::enter();
        let handle = program_memory::lock().native(handle);
        driver!(cuMulticastUnbind(handle => u64, device => c_int, offset => usize, bytes => usize))
    }
}

/// Names what the driver has given a handle of.
///
/// # Safety
/// `handle` is null, or the driver has written it if it has succeeded, and the caller reads it.
unsafe fn name(code: Code, handle: *mut u64) -> Code {
    if code == Code::SUCCESS && program_memory::is_used() {
        let _inside = gate::enter();
        // SAFETY: contract of this function.
        if let Some(handle) = unsafe { handle.as_mut() } {
            *handle = program_memory::lock().name_for(*handle);
        }
    }
    code
}

/// Ends memory (each released and unmapped so often) by a call of the driver, and discharges what is freed,
/// outside the gate.
fn end(
    inside: gate::Inside,
    mut table: MutexGuard<'static, Table>,
    ends: &[(u64, u32, u32)],
    call: impl FnOnce() -> Code,
    then: impl FnOnce(&mut program_memory::Table),
) -> Code {
    let freed = ends
        .iter()
        .filter_map(|&(name, released, unmapped)| table.frees(name, released, unmapped));
    let freed: Vec<(c_int, u64)> = freed.collect();
    for &(device, bytes) in &freed {
        room::unmapping(device, bytes);
    }
    let code = call();
    if code == Code::SUCCESS {
        for &(name, released, unmapped) in ends {
            table.note(name, released, unmapped);
        }
        then(&mut table);
    }
    drop(table);
    drop(inside);
    for (device, bytes) in freed {
        if code == Code::SUCCESS {
            room::discharge(device, bytes);
        } else {
            room::mapped(device, bytes);
        }
    }
    code
}
