//! What a program sets for a kernel or for its device. Each context has it for itself, so it is kept, and set
//! in every context of the process, those to come too.

use std::ffi::c_void;

use mgb_abi::device::{
    ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, DEVICE_MAP_HOST, DEVICE_MASK, DEVICE_SCHEDULE_MASK,
};
use mgb_abi::launch::{
    FUNC_CACHE_PREFER_EQUAL, FUNC_MAX_DYNAMIC_SHARED_MEMORY_SIZE, FUNC_PREFERRED_SHARED_MEMORY_CARVEOUT,
};
use parking_lot::Mutex;

use crate::code::{Answer, Code, fail};
use crate::{contexts, device, driver_start, native, restrict, thread, twins};

/// A setting of a kernel or of the device, which every GPU gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// `cudaFuncSetAttribute`: function, attribute, value.
    Attribute(usize, u32, i32),
    /// `cudaFuncSetCacheConfig`: function, configuration.
    Cache(usize, u32),
    /// `cudaDeviceSetCacheConfig`, with the configuration.
    DeviceCache(u32),
    /// `cudaSetDeviceFlags`.
    DeviceFlags(u32),
}

impl Setting {
    /// Whether the other one sets the same thing.
    fn replaces(self, other: Setting) -> bool {
        match (self, other) {
            (Setting::Attribute(one, what, _), Setting::Attribute(two, other, _)) => {
                (one, what) == (two, other)
            }
            (Setting::Cache(one, _), Setting::Cache(two, _)) => one == two,
            (Setting::DeviceCache(_), Setting::DeviceCache(_)) => true,
            (Setting::DeviceFlags(_), Setting::DeviceFlags(_)) => true,
            _ => false,
        }
    }

    /// Sets it in the context that is current.
    fn apply(self) -> Code {
        // SAFETY: the function was the program's to name; the runtime checks it.
        unsafe {
            match self {
                Setting::Attribute(function, attribute, value) => {
                    let function = function as *const c_void;
                    let code = native::cudaFuncSetAttribute(function, attribute, value);
                    if let Some(twin) = twins::of(function).filter(|_| code.is_success()) {
                        // A twin that cannot have it, such as all shared memory, cannot be launched either:
                        // that is no error of the program's.
                        let is_clean = native::cudaPeekAtLastError().is_success();
                        let set = native::cudaFuncSetAttribute(twin.stub, attribute, value);
                        if is_clean && !set.is_success() {
                            native::cudaGetLastError();
                        }
                    }
                    code
                }
                Setting::Cache(function, config) => {
                    native::cudaFuncSetCacheConfig(function as *const c_void, config)
                }
                Setting::DeviceCache(config) => native::cudaDeviceSetCacheConfig(config),
                Setting::DeviceFlags(flags) => native::cudaSetDeviceFlags(flags),
            }
        }
    }
}

static KEPT: Mutex<Vec<Setting>> = Mutex::new(Vec::new());

/// `cudaFuncSetAttribute`.
///
/// # Safety
/// The arguments meet the contract of `cudaFuncSetAttribute`.
pub unsafe fn set_attribute(
    _native: unsafe extern "C" fn(*const c_void, u32, i32) -> Code,
    function: *const c_void,
    attribute: u32,
    value: i32,
) -> Answer {
    let setting = Setting::Attribute(function as usize, attribute, value);
    // What is plainly right needs no context now; what may be wrong is for the runtime to judge.
    let right = match attribute {
        FUNC_MAX_DYNAMIC_SHARED_MEMORY_SIZE => value >= 0 && value <= most_shared() / 2,
        FUNC_PREFERRED_SHARED_MEMORY_CARVEOUT => (-1..=100).contains(&value),
        _ => false,
    };
    set(setting, right && !function.is_null())
}

/// `cudaFuncSetCacheConfig`.
///
/// # Safety
/// The arguments meet the contract of `cudaFuncSetCacheConfig`.
pub unsafe fn set_cache(
    _native: unsafe extern "C" fn(*const c_void, u32) -> Code,
    function: *const c_void,
    config: u32,
) -> Answer {
    set(
        Setting::Cache(function as usize, config),
        config <= FUNC_CACHE_PREFER_EQUAL && !function.is_null(),
    )
}

/// `cudaDeviceSetCacheConfig`.
///
/// # Safety
/// None needed; the type is that of all treatments.
pub unsafe fn set_device_cache(_native: unsafe extern "C" fn(u32) -> Code, config: u32) -> Answer {
    set(Setting::DeviceCache(config), config <= FUNC_CACHE_PREFER_EQUAL)
}

/// `cudaSetDeviceFlags`.
///
/// # Safety
/// None needed; the type is that of all treatments.
pub unsafe fn set_device_flags(_native: unsafe extern "C" fn(u32) -> Code, flags: u32) -> Answer {
    if flags & !DEVICE_MASK != 0 || (flags & DEVICE_SCHEDULE_MASK).count_ones() > 1 {
        return fail(Code::INVALID_VALUE);
    }
    let answer = set(Setting::DeviceFlags(flags), true)?;
    restrict::have_context()?;
    Ok(answer)
}

/// `cudaGetDeviceFlags`: makes no context, as natively.
///
/// # Safety
/// `out` is null or writable.
pub unsafe fn device_flags(native: unsafe extern "C" fn(*mut u32) -> Code, out: *mut u32) -> Answer {
    let set = KEPT.lock().iter().find_map(|setting| match setting {
        Setting::DeviceFlags(flags) => Some(*flags),
        _ => None,
    });
    match set.filter(|_| !out.is_null()) {
        Some(flags) => {
            // SAFETY: `out` is not null, so it is writable: contract of this function.
            unsafe { out.write(flags | DEVICE_MAP_HOST) };
            Ok(Code::SUCCESS)
        }
        None => {
            driver_start::required()?;
            // SAFETY: `out` is null or writable: contract of this function, and of `cudaGetDeviceFlags`.
            Ok(unsafe { native(out) })
        }
    }
}

fn most_shared() -> i32 {
    let mut bytes = 0;
    if driver_start::required().is_err() {
        return 0;
    }
    // SAFETY: writes one int, and makes no context.
    unsafe { native::cudaDeviceGetAttribute(&mut bytes, ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0) };
    bytes
}

fn set(setting: Setting, can_wait: bool) -> Answer {
    thread::with(|thread| thread.take_hint());
    if !contexts::any() && !can_wait {
        crate::task_binding::be_somewhere()?;
    }
    let mut kept = KEPT.lock();
    for (gpu, ordinal) in device::with_context() {
        device::select(gpu, ordinal)?;
        let code = setting.apply();
        if !code.is_success() {
            return Ok(code);
        }
    }
    kept.retain(|other| !setting.replaces(*other));
    kept.push(setting);
    Ok(Code::SUCCESS)
}

/// A context was made, and is current on this thread: applies the settings that the program made before.
pub fn context_made() {
    let Some(kept) = KEPT.try_lock().map(|kept| kept.clone()) else {
        // `set` is at it, on all contexts.
        return;
    };
    for setting in kept {
        if !setting.apply().is_success() {
            // SAFETY: no arguments. The launch that counts on it says what is wrong.
            unsafe { native::cudaGetLastError() };
        }
    }
}

/// The contexts are gone, with what was set in them.
pub fn forget() {
    KEPT.lock().clear();
}
