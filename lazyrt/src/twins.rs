//! Twins of kernels: second kernels that the pass puts beside the program's own, and that take their blocks
//! by tickets (`pass/src/device/parts`). The host code of a module registers them behind the kernels.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use crate::functions::index;
use crate::native;

/// A twin, as a launch needs it.
#[derive(Clone, Debug)]
pub struct Twin {
    /// What the runtime knows it by, as it knows a kernel by its stub.
    pub stub: *const c_void,
    /// The bytes of each parameter of its kernel; it takes the address of the control block behind them.
    pub parameters: Arc<[u32]>,
    /// Whether each worker takes one block, and as many are launched as there are blocks left.
    pub takes_one: bool,
    /// Whether, if not, it serves only launches whose rows of threads are whole warps.
    pub whole_rows: bool,
    /// The module of both, as the runtime has registered it.
    module: *mut c_void,
}

// SAFETY: addresses, which are only compared and handed to the runtime.
unsafe impl Send for Twin {}
// SAFETY: the same.
unsafe impl Sync for Twin {}

/// Whether there are any: most programs have none, and a lock takes a launch a third as long as it lasts.
static ANY: AtomicBool = AtomicBool::new(false);
/// By the kernels' own stubs.
static TWINS: RwLock<Option<HashMap<usize, Twin>>> = RwLock::new(None);

/// Whether any kernel has one. One plain load.
#[inline]
pub fn are_any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// The twin of a kernel, if it has one. Takes a lock for a moment.
pub fn of(kernel: *const c_void) -> Option<Twin> {
    TWINS.read().as_ref()?.get(&(kernel as usize)).cloned()
}

/// Called by programs' constructors that the pass adds to, behind the registration of a kernel.
///
/// # Safety
/// `module` is what the runtime has given for the module; `kernel` is the kernel's stub and `stub` an address
/// of the module's own; `symbol` is a C string that outlives the module; `sizes` has `parameters` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgb_register_twin(
    module: *mut c_void,
    kernel: *const c_void,
    stub: *const c_void,
    symbol: *const c_char,
    sizes: *const u32,
    parameters: c_int,
    takes_one: c_int,
    whole_rows: c_int,
) {
    type RegisterFunction = unsafe extern "C" fn(
        *mut c_void,
        *const c_void,
        *const c_char,
        *const c_char,
        c_int,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        *mut c_int,
    );
    let register = native::address(index::__cudaRegisterFunction);
    // SAFETY: the type is the header's.
    let register = unsafe { std::mem::transmute::<*const c_void, RegisterFunction>(register) };
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: the module's handle and a C string: contract of this function; a stub is an address that the
    // runtime does not read.
    unsafe {
        register(
            module,
            stub,
            symbol,
            symbol,
            -1,
            none,
            none,
            none,
            none,
            none.cast(),
        )
    };
    let sizes = match usize::try_from(parameters) {
        // SAFETY: as many elements: contract of this function.
        Ok(count @ 1..) => unsafe { std::slice::from_raw_parts(sizes, count) },
        _ => &[],
    };
    let twin = Twin {
        stub,
        parameters: sizes.into(),
        takes_one: takes_one != 0,
        whole_rows: whole_rows != 0,
        module,
    };
    let mut twins = TWINS.write();
    twins.get_or_insert_default().insert(kernel as usize, twin);
    ANY.store(true, Ordering::Release);
}

/// A module's kernels are going.
pub fn forget(module: *mut c_void) {
    if let Some(twins) = &mut *TWINS.write() {
        twins.retain(|_, twin| twin.module != module);
    }
}
