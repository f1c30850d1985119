//! What compiled programs call before `main`: modules, kernels, variables; and images of translated
//! code.

use std::ffi::{c_char, c_int, c_void};

use parking_lot::Mutex;

use crate::error::c_str;
use crate::exec::registry;
use crate::image::Image;

/// A registered module: what its handle points to.
#[derive(Default)]
struct RegisteredModule {
    stubs: Mutex<Vec<usize>>,
    shadows: Mutex<Vec<usize>>,
    /// Names of managed variables, which only nvcc's programs have.
    managed: Mutex<Vec<String>>,
}

/// The module behind a handle.
///
/// # Safety
/// The handle is null or came from `__cudaRegisterFatBinary`, and is still registered.
unsafe fn module<'a>(handle: *mut *mut c_void) -> Option<&'a RegisteredModule> {
    // SAFETY: the handle is null or a registered module's: contract of `module`.
    unsafe { handle.cast::<RegisteredModule>().as_ref() }
}

/// Registers a variable by what host code names it by: its host shadow, or the pointer to managed memory.
///
/// # Safety
/// The handle is null or a registered module's; the name is null or a string.
unsafe fn add_shadow(handle: *mut *mut c_void, host: usize, name: *const c_char) {
    // SAFETY: the handle and the name are valid: contract of `add_shadow`.
    if let (Some(module), Some(name)) = unsafe { (module(handle), c_str(name)) } {
        module.shadows.lock().push(host);
        registry::add_shadow(host, name);
    }
}

/// Hands an image of translated code to the software GPU; called by constructors that the pass makes.
///
/// # Safety
/// The image is as `softgpu_image.h` says, and stays for the life of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __softgpuRegisterImage(image: *const Image) {
    // SAFETY: the image is null or valid for the life of the process: contract of `__softgpuRegisterImage`.
    if let Some(image) = unsafe { image.as_ref() } {
        // SAFETY: the image is as `softgpu_image.h` says: contract of `__softgpuRegisterImage`.
        unsafe { registry::add_image(image) }
    }
}

/// CUDA's registration of a module. The device code in it is not for the software GPU.
///
/// # Safety
/// None needed: the argument is not looked at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(_image: *mut c_void) -> *mut *mut c_void {
    Box::into_raw(Box::<RegisteredModule>::default()).cast()
}

/// The end of a module's registration.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

/// Takes a module back.
///
/// # Safety
/// The handle came from `__cudaRegisterFatBinary`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    if !handle.is_null() {
        // SAFETY: the handle came from `Box::into_raw` in `__cudaRegisterFatBinary` and is not used again:
        // contract of `__cudaUnregisterFatBinary`.
        let module = unsafe { Box::from_raw(handle.cast::<RegisteredModule>()) };
        registry::remove(&module.stubs.lock(), &module.shadows.lock());
    }
}

/// Registers a kernel by its host stub.
///
/// # Safety
/// The handle is a registered module's; the name is a string.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    stub: *const c_char,
    _device_function: *mut c_char,
    name: *const c_char,
    _thread_limit: c_int,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_dim: *mut c_void,
    _grid_dim: *mut c_void,
    _warp: *mut c_int,
) {
    // SAFETY: the handle is a registered module's, the name a string: contract of `__cudaRegisterFunction`.
    if let (Some(module), Some(name)) = unsafe { (module(handle), c_str(name)) } {
        module.stubs.lock().push(stub as usize);
        registry::add_function(stub as usize, name);
    }
}

/// Registers a variable by its host shadow.
///
/// # Safety
/// The handle is a registered module's; the name is a string.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    host: *mut c_char,
    _device_address: *mut c_char,
    name: *const c_char,
    _external: c_int,
    _size: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: the handle is a registered module's, the name a string: contract of this function.
    unsafe { add_shadow(handle, host as usize, name) }
}

/// Registers a managed variable, by the address of the pointer that host code goes through. Software GPUs cannot
/// run the kernels beside it, nor read its initial value, which nvcc leaves in device code: it gets zeros, so that
/// host code can run up to the launch that is refused; [`__cudaInitModule`] says so.
///
/// # Safety
/// The handle is a registered module's; the name is a string; `host` is null or may be written.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    host: *mut *mut c_void,
    _device_address: *mut c_char,
    name: *const c_char,
    _external: c_int,
    size: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: the handle is a registered module's, the name a string: contract of this function.
    unsafe { add_shadow(handle, host as usize, name) }
    // SAFETY: the same, and `host` is null or may be written: contract of this function.
    if let (Some(module), Some(name), Some(host)) = unsafe { (module(handle), c_str(name), host.as_mut()) } {
        module.managed.lock().push(name.to_string_lossy().into_owned());
        if host.is_null() {
            // Of 16 bytes each, which aligns any variable; for the life of the process, as the variable.
            let zeros = vec![0u128; size.div_ceil(size_of::<u128>()).max(1)];
            *host = Box::leak(zeros.into_boxed_slice()).as_mut_ptr().cast();
        }
    }
}

/// Registers a host variable that device code names: nothing to do, since addresses are one space.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterHostVar(
    _handle: *mut *mut c_void,
    _name: *const c_char,
    _host: *mut c_char,
    _size: usize,
) {
}

/// Loads a module before its managed variables are touched.
///
/// # Safety
/// The handle is null or a registered module's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaInitModule(handle: *mut *mut c_void) -> c_char {
    // SAFETY: the handle is null or a registered module's: contract of this function.
    if let Some(module) = unsafe { module(handle) } {
        for name in module.managed.lock().iter() {
            registry::refuse_managed(name);
        }
    }
    1
}
