//! Memory that belongs to graphs. Its address is there with the node; memory comes behind it when a graph
//! with the node is launched or uploaded, and stays until the program trims it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::config::spec::MAX_DEVICES;
use crate::device::gpu::when_a_context_ends;
use crate::device::{Gpu, node};
use crate::error::{Error, Result};

/// Memory of an allocation node. Its address is the same at every launch, so it is kept as long as the node
/// or an executable copy of it is.
pub struct GraphMemory {
    /// The ordinal of the device.
    pub ordinal: usize,
    /// The address of the memory.
    pub address: usize,
    /// Bytes asked for.
    pub size: usize,
    /// A launch has allocated it, and nothing has freed it.
    live: AtomicBool,
}

/// All of it, by address.
static ALL: Mutex<BTreeMap<usize, Weak<GraphMemory>>> = Mutex::new(BTreeMap::new());

/// Memory that graphs have left which are gone, by address: its device.
static LEFT: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Bytes now, and at most so far, by device.
static USED: Mutex<[(u64, u64); MAX_DEVICES]> = Mutex::new([(0, 0); MAX_DEVICES]);

/// Read while a launch is submitted whose memory is there, written while memory is trimmed.
static TRIM: RwLock<()> = RwLock::new(());

/// Nothing is trimmed until the guard is dropped: the memory of a launch is to be there when its stream comes
/// to it.
pub fn keep_from_trim() -> RwLockReadGuard<'static, ()> {
    TRIM.read()
}

/// What graphs have of a device's memory, and had at most.
pub fn used(ordinal: usize) -> (u64, u64) {
    USED.lock()[ordinal]
}

/// Resets the high mark to what is used now.
pub fn forget_high(ordinal: usize) {
    let used = &mut USED.lock()[ordinal];
    used.1 = used.0;
}

/// Takes back what no graph needs to keep.
///
/// # Errors
/// Those of the device.
pub fn trim(gpu: &Gpu) -> Result {
    let _no_launches = TRIM.write();
    gpu.streams.finish();
    let all: Vec<_> = ALL.lock().values().filter_map(Weak::upgrade).collect();
    let idle = |memory: &&Arc<GraphMemory>| memory.ordinal == gpu.ordinal && !memory.live.load(Relaxed);
    for memory in all.iter().filter(idle) {
        let bytes = gpu.heap().withdraw(crate::state::shared()?, memory.address)?;
        USED.lock()[gpu.ordinal].0 -= bytes;
    }
    Ok(())
}

/// Notes that the program has freed what is at this address.
pub fn freed(address: usize) {
    let known = ALL.lock().get(&address).and_then(Weak::upgrade);
    if let Some(memory) = known {
        memory.live.store(false, Relaxed);
    } else if let Some(ordinal) = LEFT.lock().remove(&address) {
        take_away(ordinal, address);
    }
}

/// Takes memory and address away for good.
fn take_away(ordinal: usize, address: usize) {
    let (Ok(node), Ok(state)) = (node(), crate::state::shared()) else {
        return;
    };
    let Ok(gpu) = node.gpu(ordinal as i32) else { return };
    // After a reset there is nothing left to free.
    if let Ok(bytes) = gpu.heap().forget(state, address) {
        USED.lock()[ordinal].0 -= bytes;
    }
}

/// The device's context is gone, and with it all of its memory.
fn clear(ordinal: usize) {
    LEFT.lock().retain(|_, there| *there != ordinal);
    let all: Vec<_> = ALL.lock().values().filter_map(Weak::upgrade).collect();
    for memory in all.iter().filter(|memory| memory.ordinal == ordinal) {
        memory.live.store(false, Relaxed);
    }
    USED.lock()[ordinal].0 = 0;
}

impl GraphMemory {
    /// An address.
    ///
    /// # Errors
    /// `INVALID_VALUE` for no bytes, `MEMORY_ALLOCATION`.
    pub fn new(gpu: &Gpu, size: usize) -> Result<Arc<GraphMemory>> {
        if size == 0 {
            return Err(Error::INVALID_VALUE);
        }
        when_a_context_ends(clear);
        let address = gpu.heap().promise(crate::state::shared()?, size)?;
        let memory = Arc::new(GraphMemory {
            ordinal: gpu.ordinal,
            address,
            size,
            live: AtomicBool::new(false),
        });
        ALL.lock().insert(address, Arc::downgrade(&memory));
        Ok(memory)
    }

    /// Puts memory behind the address; false: there is some.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION`, and those of the device.
    pub fn be_there(&self) -> Result<bool> {
        let gpu = node()?.gpu(self.ordinal as i32)?;
        crate::fail::allocation(gpu.index)?;
        let bytes = gpu.heap().fulfil(crate::state::shared()?, self.address)?;
        let used = &mut USED.lock()[self.ordinal];
        used.0 += bytes;
        used.1 = used.1.max(used.0);
        Ok(bytes > 0)
    }

    /// Takes the memory away that was put behind the address just now.
    ///
    /// # Errors
    /// Those of the device.
    pub fn be_gone(&self) -> Result {
        let gpu = node()?.gpu(self.ordinal as i32)?;
        let bytes = gpu.heap().withdraw(crate::state::shared()?, self.address)?;
        USED.lock()[self.ordinal].0 -= bytes;
        Ok(())
    }

    /// A launch has ended that leaves it allocated, or has freed it by itself.
    pub fn allocated(&self, stays: bool) {
        self.live.store(stays, Relaxed);
    }

    /// Its address, as programs have it.
    pub fn pointer(&self) -> *mut c_void {
        self.address as *mut c_void
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        ALL.lock().remove(&self.address);
        if let Ok(gpu) = node().and_then(|node| node.gpu(self.ordinal as i32)) {
            gpu.streams.finish();
        }
        // What a launch has allocated is the program's until it frees it, also when the graph is gone.
        if self.live.load(Relaxed) {
            LEFT.lock().insert(self.address, self.ordinal);
        } else {
            take_away(self.ordinal, self.address);
        }
    }
}
