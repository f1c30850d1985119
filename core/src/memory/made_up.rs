//! A driver for tests: it keeps what is mapped where, and who may use it.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_ulonglong, c_void};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use mgb_abi::error::Code;
use mgb_abi::pool::MemAccessDesc;
use mgb_abi::vmm::MemAllocationProp;
use parking_lot::Mutex;

use crate::driver::Driver;

/// The devices that may use what is mapped, by its first address.
static MAPPED: Mutex<BTreeMap<u64, Vec<c_int>>> = Mutex::new(BTreeMap::new());
static HANDLES: AtomicU64 = AtomicU64::new(1);

/// Who may use what is mapped from this address on, in the order in which they were allowed to. `None`: nothing is.
pub fn users(start: u64) -> Option<Vec<c_int>> {
    MAPPED.lock().get(&start).cloned()
}

/// The driver's table, of which tests call only what concerns mappings.
pub fn driver() -> &'static Driver {
    static DRIVER: LazyLock<Driver> = LazyLock::new(|| {
        // SAFETY: the functions below have the driver's types; `idle` reads no arguments, of which the caller
        // cleans up.
        unsafe { Driver::find(find) }.expect("every function is found")
    });
    &DRIVER
}

fn find(name: &CStr) -> *const c_void {
    match name.to_bytes() {
        b"cuMemCreate" => create as *const c_void,
        b"cuMemMap" => map as *const c_void,
        b"cuMemUnmap" => unmap as *const c_void,
        b"cuMemSetAccess" => set_access as *const c_void,
        _ => idle as *const c_void,
    }
}

extern "C" fn idle() -> Code {
    Code::SUCCESS
}

unsafe extern "C" fn create(handle: *mut u64, _: usize, _: *const MemAllocationProp, _: c_ulonglong) -> Code {
    // SAFETY: the caller's variable.
    unsafe { handle.write(HANDLES.fetch_add(1, Ordering::Relaxed)) };
    Code::SUCCESS
}

extern "C" fn map(address: u64, _: usize, _: usize, _: u64, _: c_ulonglong) -> Code {
    let before = MAPPED.lock().insert(address, Vec::new());
    assert_eq!(before, None, "mapped twice at {address:#x}");
    Code::SUCCESS
}

extern "C" fn unmap(address: u64, _: usize) -> Code {
    let before = MAPPED.lock().remove(&address);
    assert!(before.is_some(), "nothing is mapped at {address:#x}");
    Code::SUCCESS
}

unsafe extern "C" fn set_access(address: u64, _: usize, access: *const MemAccessDesc, _: usize) -> Code {
    let mut mapped = MAPPED.lock();
    let Some(users) = mapped.get_mut(&address) else {
        return Code::INVALID_VALUE;
    };
    // SAFETY: one description, as all callers in core give.
    users.push(unsafe { &*access }.location.id);
    Code::SUCCESS
}
