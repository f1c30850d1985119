//! How many workers of a twin a GPU runs at once.

use std::collections::HashSet;
use std::ffi::c_void;

use mgb_abi::launch::FuncAttributes;
use parking_lot::Mutex;

use crate::code::Code;
use crate::native;
use crate::ops::errors;
use crate::twins::Twin;

/// `cudaDevAttrMultiProcessorCount`.
const MULTIPROCESSOR_COUNT: u32 = 16;
/// `cudaDevAttrMaxSharedMemoryPerMultiprocessor`, `cudaDevAttrReservedSharedMemoryPerBlock`.
const SHARED_OF_MULTIPROCESSOR: u32 = 81;
const RESERVED_OF_BLOCK: u32 = 111;
/// `cudaFuncAttributeMaxDynamicSharedMemorySize`, `cudaFuncAttributePreferredSharedMemoryCarveout`.
const MOST_DYNAMIC_SHARED: u32 = 8;
const CARVEOUT: u32 = 9;

/// How many blocks of so many threads and bytes of dynamic shared memory the current GPU runs at once, of a
/// twin of the kernel; 0: it cannot run the twin.
pub fn at_once(kernel: *const c_void, twin: &Twin, threads: i32, shared: usize) -> u32 {
    // The original's launch says what is wrong.
    errors::untold(|| count(kernel, twin, threads, shared)).unwrap_or(0)
}

fn count(kernel: *const c_void, twin: &Twin, threads: i32, shared: usize) -> Result<u32, Code> {
    let device = current()?;
    prepare(kernel, twin, threads, shared, device)?;
    let each = resident(twin.stub, threads, shared)?;
    Ok(each * number(attribute(device, MULTIPROCESSOR_COUNT)?))
}

/// What is prepared for: a twin's stub, a device, threads and bytes of dynamic shared memory.
type LaunchShape = (usize, i32, i32, usize);

/// Lets as many blocks of the twin be resident as of the kernel. The ticket is shared memory: of a kernel
/// that has none otherwise, the driver would give the twin so little that fewer blocks fit.
fn prepare(kernel: *const c_void, twin: &Twin, threads: i32, shared: usize, device: i32) -> Result<(), Code> {
    static PREPARED: Mutex<Option<HashSet<LaunchShape>>> = Mutex::new(None);
    let key = (twin.stub as usize, device, threads, shared);
    if !PREPARED.lock().get_or_insert_default().insert(key) {
        return Ok(());
    }
    let (of_kernel, of_twin) = (attributes(kernel)?, attributes(twin.stub)?);
    if of_kernel.max_dynamic_shared_size_bytes > of_twin.max_dynamic_shared_size_bytes {
        set(
            twin.stub,
            MOST_DYNAMIC_SHARED,
            of_kernel.max_dynamic_shared_size_bytes,
        )?;
    }
    let reserved = number(attribute(device, RESERVED_OF_BLOCK)?) as usize;
    let all = attribute(device, SHARED_OF_MULTIPROCESSOR)?.max(1) as usize;
    let block = of_twin.shared_size_bytes + shared + reserved;
    let needed = resident(kernel, threads, shared)? as usize * block;
    let percent = (100 * needed).div_ceil(all).min(100);
    set(twin.stub, CARVEOUT, percent as i32)
}

fn current() -> Result<i32, Code> {
    let mut device = 0;
    // SAFETY: it writes one int.
    answered(unsafe { native::cudaGetDevice(&mut device) }).map(|()| device)
}

fn attribute(device: i32, which: u32) -> Result<i32, Code> {
    let mut value = 0;
    // SAFETY: it writes one int.
    answered(unsafe { native::cudaDeviceGetAttribute(&mut value, which, device) }).map(|()| value)
}

fn attributes(function: *const c_void) -> Result<FuncAttributes, Code> {
    let mut attributes = FuncAttributes::default();
    // SAFETY: it writes one structure.
    answered(unsafe { native::cudaFuncGetAttributes(&mut attributes, function) }).map(|()| attributes)
}

fn set(function: *const c_void, attribute: u32, value: i32) -> Result<(), Code> {
    // SAFETY: it asks for no memory.
    answered(unsafe { native::cudaFuncSetAttribute(function, attribute, value) })
}

/// How many of a function's blocks a multiprocessor runs at once.
fn resident(function: *const c_void, threads: i32, shared: usize) -> Result<u32, Code> {
    let mut each = 0;
    // SAFETY: it writes one int.
    let code = unsafe {
        native::cudaOccupancyMaxActiveBlocksPerMultiprocessor(&mut each, function, threads, shared)
    };
    answered(code).map(|()| number(each))
}

fn answered(code: Code) -> Result<(), Code> {
    if code.is_success() { Ok(()) } else { Err(code) }
}

fn number(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}
