//! How large device variables are, from their registration: what is recorded for one must lie inside it.

use std::collections::HashMap;
use std::ffi::{c_char, c_void};

use parking_lot::Mutex;

use crate::functions::index;
use crate::native;

/// Sizes by the address of the host shadow.
static SIZES: Mutex<Option<HashMap<usize, usize>>> = Mutex::new(None);

type Register =
    unsafe extern "C" fn(*mut *mut c_void, *mut c_char, *mut c_char, *const c_char, i32, usize, i32, i32);

/// `__cudaRegisterVar`. Runs in the program's constructors, before it is known whether MGB is wanted.
///
/// # Safety
/// The arguments meet the contract of `__cudaRegisterVar`.
#[unsafe(export_name = "mgb___cudaRegisterVar")]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn register(
    module: *mut *mut c_void,
    shadow: *mut c_char,
    address: *mut c_char,
    name: *const c_char,
    is_external: i32,
    size: usize,
    is_constant: i32,
    is_global: i32,
) {
    SIZES.lock().get_or_insert_default().insert(shadow as usize, size);
    // SAFETY: the address is the function's; the type is the header's.
    let real =
        unsafe { std::mem::transmute::<*const c_void, Register>(native::address(index::__cudaRegisterVar)) };
    // SAFETY: the arguments are those that the program's constructor passed: contract of `__cudaRegisterVar`.
    unsafe {
        real(
            module,
            shadow,
            address,
            name,
            is_external,
            size,
            is_constant,
            is_global,
        )
    }
}

/// Whether the variable is known to hold these bytes.
pub fn holds(shadow: usize, offset: usize, bytes: usize) -> bool {
    let size = SIZES
        .lock()
        .as_ref()
        .and_then(|sizes| sizes.get(&shadow).copied());
    size.is_some_and(|size| offset.checked_add(bytes).is_some_and(|end| end <= size))
}
