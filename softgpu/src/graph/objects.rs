//! User objects: resources of the program that live as long as graphs, or the program, need them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::work::host::{HostFunction, UserData};

/// A resource. It is destroyed with the last reference to it.
pub struct UserObject {
    data: UserData,
    destroy: HostFunction,
}

impl Drop for UserObject {
    fn drop(&mut self) {
        // SAFETY: the program's function is called with the argument that the program gave for it: CUDA's
        // contract.
        unsafe { (self.destroy)(self.data.0) }
    }
}

/// References, with their number.
pub type References = BTreeMap<usize, (Arc<UserObject>, u32)>;

/// Those of the program itself.
static OWN: Mutex<References> = Mutex::new(BTreeMap::new());

/// Handles are numbers that are no addresses of anything.
static NEXT: AtomicUsize = AtomicUsize::new(0x67b4_0000_0000);

/// Makes one, with so many references of the program's; returns its handle.
pub fn create(data: UserData, destroy: HostFunction, count: u32) -> usize {
    let handle = NEXT.fetch_add(16, Relaxed);
    let object = Arc::new(UserObject { data, destroy });
    OWN.lock().insert(handle, (object, count));
    handle
}

/// Adds references of the program's.
///
/// # Errors
/// `INVALID_VALUE` for no object.
pub fn retain(handle: usize, count: u32) -> Result {
    let mut own = OWN.lock();
    let found = own.get_mut(&handle).ok_or(Error::INVALID_VALUE)?;
    found.1 = found.1.checked_add(count).ok_or(Error::INVALID_VALUE)?;
    Ok(())
}

/// Takes references of the program's away.
///
/// # Errors
/// `INVALID_VALUE` for no object, or more than there are.
pub fn release(handle: usize, count: u32) -> Result {
    let gone = take(&mut OWN.lock(), handle, count)?;
    // Destroyed outside of the lock.
    drop(gone);
    Ok(())
}

/// The object of a handle that the program refers to.
///
/// # Errors
/// `INVALID_VALUE`.
pub fn find(handle: usize) -> Result<Arc<UserObject>> {
    let own = OWN.lock();
    own.get(&handle)
        .map(|(object, _)| object.clone())
        .ok_or(Error::INVALID_VALUE)
}

/// Takes references away; the object, if these were the last.
///
/// # Errors
/// `INVALID_VALUE` for no object, or more than there are.
pub fn take(references: &mut References, handle: usize, count: u32) -> Result<Option<Arc<UserObject>>> {
    let found = references.get_mut(&handle).ok_or(Error::INVALID_VALUE)?;
    found.1 = found.1.checked_sub(count).ok_or(Error::INVALID_VALUE)?;
    if found.1 > 0 {
        return Ok(None);
    }
    Ok(references.remove(&handle).map(|(object, _)| object))
}
