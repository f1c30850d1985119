//! Memory in stream order. It comes from *sources*: pools, and what graphs have on each device. The driver
//! takes it from the device in large steps and keeps it for a while; what a source holds is charged.
//!
//! What a call makes a source take is known only afterwards: before the call there is room for its size, and
//! after it for what was really taken.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mgb_abi::graph::GRAPH_MEM_RESERVED_CURRENT;
use mgb_abi::pool::{MemPoolProps, POOL_RESERVED_CURRENT, POOL_USED_CURRENT};
use mgb_probe::need::GRANULE;
use parking_lot::Mutex;

use crate::calls::{self, Code, OUT_OF_MEMORY, SUCCESS, Stream};
use crate::native::{own, per_thread};
use crate::{busy, driver_memory, graphs, room, session, swap};

/// What sources take from the device at a time.
const STEP: u64 = 32 << 20;

/// Where such memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// A pool, by its handle.
    Pool(usize),
    /// The memory of graphs on a device.
    Graphs(c_int),
}

/// What is known of one.
#[derive(Clone, Copy, Debug)]
struct Known {
    device: c_int,
    /// In whole granules.
    charged: u64,
    /// As mgbd was told.
    held: u64,
    /// Threads that are about to take from it.
    users: u32,
}

static KNOWN: Mutex<Option<HashMap<Source, Known>>> = Mutex::new(None);
static USED_ANY: AtomicBool = AtomicBool::new(false);
/// Whether the program has put allocations into graphs.
static IN_GRAPHS: AtomicBool = AtomicBool::new(false);
/// Bytes of the largest of them since a graph was launched last. Allocations of different graphs, and those
/// that are freed in the graph, share memory, so no sum of them says more.
static LARGEST: AtomicU64 = AtomicU64::new(0);

impl Source {
    /// Bytes that it holds, and those of them that are allocated.
    fn levels(self) -> Option<(u64, u64)> {
        match self {
            Source::Pool(pool) => Some((
                calls::pool_attribute(pool, POOL_RESERVED_CURRENT)?,
                calls::pool_attribute(pool, POOL_USED_CURRENT)?,
            )),
            // The driver has no figure for how much of it is in use.
            Source::Graphs(device) => {
                calls::graph_attribute(device, GRAPH_MEM_RESERVED_CURRENT).map(|held| (held, held))
            }
        }
    }

    fn trim(self) {
        match self {
            Source::Pool(pool) => calls::trim_pool(pool),
            Source::Graphs(device) => calls::trim_graphs(device),
        };
    }

    fn with<T>(self, change: impl FnOnce(&mut Known) -> T) -> Option<T> {
        KNOWN.lock().get_or_insert_default().get_mut(&self).map(change)
    }

    /// Charges it so many bytes, if it is charged less, and waits until there is room. False: there is none.
    fn raise(self, to: u64) -> bool {
        let to = to.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
        let lacks = self.with(|known| (known.device, to.saturating_sub(known.charged)));
        match lacks {
            None | Some((_, 0)) => true,
            Some((_, lacks)) if lacks > room::MOST => false,
            Some((device, lacks)) => {
                let has_room = room::charge(device, lacks);
                if has_room {
                    self.with(|known| known.charged += lacks);
                }
                has_room
            }
        }
    }

    /// Lowers the charge to what it holds, unless a thread is about to take from it.
    fn settle(self, own: u32) {
        // Under the lock, so that no thread begins to take from it meanwhile.
        let mut all = KNOWN.lock();
        let Some(known) = all.get_or_insert_default().get_mut(&self) else {
            return;
        };
        if known.users > own {
            return;
        }
        // The levels of a destroyed pool cannot be read; what was allocated from it is still charged.
        let Some((held, _)) = self.levels() else { return };
        let charged = held.next_multiple_of(GRANULE);
        let less = known.charged.saturating_sub(charged);
        known.charged -= less;
        publish(known, held);
        let device = known.device;
        drop(all);
        if less > 0 {
            room::discharge(device, less);
        }
    }

    /// Makes room for a call that takes so many bytes, does it, and charges what was really taken. `undo`
    /// takes back what the call did where there is no room for that, and says whether it could.
    fn take(self, device: c_int, bytes: u64, call: impl Fn() -> Code, undo: impl FnOnce() -> bool) -> Code {
        let Some((held, used)) = self.levels() else {
            // No such pool: the driver says so.
            return call();
        };
        USED_ANY.store(true, Ordering::Release);
        {
            let mut all = KNOWN.lock();
            let known = all.get_or_insert_default().entry(self).or_insert(Known {
                device,
                charged: 0,
                held: 0,
                users: 0,
            });
            known.users += 1;
        }
        let fits = held.saturating_sub(used) >= bytes;
        let mut code = if self.make_room(bytes, held, fits) {
            call()
        } else {
            OUT_OF_MEMORY
        };
        let level = || self.levels().map_or(0, |(held, _)| held);
        if code == OUT_OF_MEMORY && self.raise(level().saturating_add(bytes).saturating_add(STEP)) {
            // It takes more than its size, or nothing that the source holds fits: once more, with room.
            code = call();
        }
        if code == SUCCESS && !self.raise(level()) && undo() {
            code = OUT_OF_MEMORY;
        }
        self.with(|known| known.users -= 1);
        if code == SUCCESS {
            // Where it could not be undone, mgbd knows at least what is taken.
            let held = level();
            self.with(|known| publish(known, held));
        } else {
            self.settle(0);
        }
        code
    }

    /// Room for an allocation. Where the source holds enough that is free, it needs none.
    fn make_room(self, bytes: u64, held: u64, fits: bool) -> bool {
        if fits {
            return self.raise(held);
        }
        if self.raise(held.saturating_add(bytes)) {
            return true;
        }
        // What the source keeps unused may be enough, as it may be in the driver.
        if let Some(device) = self.with(|known| known.device) {
            swap::settle_beside(device);
        }
        self.trim();
        self.settle(1);
        let held = self.levels().map_or(0, |(held, _)| held);
        self.raise(held.saturating_add(bytes))
    }
}

/// Tells mgbd what the source holds.
fn publish(known: &mut Known, held: u64) {
    let before = std::mem::replace(&mut known.held, held);
    if held >= before {
        room::mapped_exactly(known.device, held - before);
    } else {
        room::unmapping_exactly(known.device, before - held);
    }
}

/// Lowers the charge of every source to what it holds.
pub fn settle_all() {
    if !USED_ANY.load(Ordering::Acquire) {
        return;
    }
    let all: Vec<Source> = KNOWN.lock().iter().flatten().map(|(source, _)| *source).collect();
    for source in all {
        source.settle(0);
    }
}

/// The device's primary context is gone, and with it what its sources held.
pub fn forget(device: c_int) {
    let gone: Vec<Known> = {
        let mut all = KNOWN.lock();
        let gone = all
            .get_or_insert_default()
            .extract_if(|_, known| known.device == device);
        gone.map(|(_, known)| known).collect()
    };
    for mut known in gone {
        publish(&mut known, 0);
        room::discharge(device, known.charged);
    }
}

/// Allocates in a stream.
///
/// # Safety
/// A success of the call writes `pointer`, unless it is null.
unsafe fn allocate(
    pool: Option<usize>,
    (pointer, bytes, stream): (*mut u64, usize, Stream),
    call: impl Fn() -> Code,
) -> Code {
    let device = calls::device();
    let (Some(_), Ok(device)) = (session::get(), device) else {
        return call();
    };
    if pointer.is_null() || bytes == 0 || bytes as u64 > room::MOST {
        return call();
    }
    if calls::is_capturing(stream) {
        // A node of a graph: memory is taken when that is launched.
        let code = call();
        if code == SUCCESS {
            note_in_graph(bytes as u64);
        }
        return code;
    }
    let Some(pool) = pool.or_else(|| calls::pool_of(device)) else {
        return call();
    };
    Source::Pool(pool).take(device, bytes as u64, call, || {
        // SAFETY: just allocated; the program does not have the address.
        unsafe { calls::free_in(pointer.read(), stream) == SUCCESS }
    })
}

fn note_in_graph(bytes: u64) {
    LARGEST.fetch_max(bytes.min(room::MOST), Ordering::AcqRel);
    IN_GRAPHS.store(true, Ordering::Release);
}

/// Launches or uploads a graph, which may take memory for its allocations.
fn run_graph(call: impl Fn() -> Code) -> Code {
    if !IN_GRAPHS.load(Ordering::Acquire) || session::get().is_none() {
        return driver_memory::give(call);
    }
    let Ok(device) = calls::device() else {
        return call();
    };
    let source = Source::Graphs(device);
    let held = source.levels().map_or(0, |(held, _)| held);
    // What it holds is reused from launch to launch. A launch cannot be undone.
    let bytes = LARGEST.swap(0, Ordering::AcqRel);
    source.take(device, bytes.saturating_sub(held), call, || false)
}

fn launched(code: Code, graph: usize, stream: Stream) -> Code {
    if let Some(gpu) = busy::note(stream)
        && code == SUCCESS
    {
        graphs::launched_graph(gpu, graph, stream);
    }
    code
}

own! {
    fn cuMemAllocAsync(pointer: *mut u64, bytes: usize, stream: Stream) |native| {
        // SAFETY: CUDA's contract of the function.
        unsafe { allocate(None, (pointer, bytes, stream), || native(pointer, bytes, stream)) }
    }

    fn cuMemAllocAsync_ptsz(pointer: *mut u64, bytes: usize, stream: Stream) |native| {
        let own = per_thread(stream);
        // SAFETY: CUDA's contract of the function.
        unsafe { allocate(None, (pointer, bytes, own), || native(pointer, bytes, stream)) }
    }

    fn cuMemAllocFromPoolAsync(pointer: *mut u64, bytes: usize, pool: usize, stream: Stream) |native| {
        let call = || native(pointer, bytes, pool, stream);
        // SAFETY: CUDA's contract of the function.
        unsafe { allocate(Some(pool), (pointer, bytes, stream), call) }
    }

    fn cuMemAllocFromPoolAsync_ptsz(pointer: *mut u64, bytes: usize, pool: usize, stream: Stream) |native| {
        let (own, call) = (per_thread(stream), || native(pointer, bytes, pool, stream));
        // SAFETY: CUDA's contract of the function.
        unsafe { allocate(Some(pool), (pointer, bytes, own), call) }
    }

    fn cuMemPoolTrimTo(pool: usize, keep: usize) |native| {
        let code = native(pool, keep);
        settle_all();
        code
    }

    fn cuMemPoolDestroy(pool: usize) |native| {
        let source = Source::Pool(pool);
        // What the pool keeps unused is freed with it; the rest stays charged.
        let used = source.levels().map_or(0, |(_, used)| used);
        // Before the call: nobody asks for the levels of a pool that is gone.
        let known = KNOWN.lock().get_or_insert_default().remove(&source);
        let code = native(pool);
        if let Some(mut known) = known {
            if code == SUCCESS {
                let less = known.charged.saturating_sub(used.next_multiple_of(GRANULE));
                publish(&mut known, used);
                room::discharge(known.device, less);
            } else {
                KNOWN.lock().get_or_insert_default().insert(source, known);
            }
        }
        code
    }

    fn cuGraphAddMemAllocNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, parameters: *mut AllocNode,
    ) |native| {
        let code = native(node, graph, after, count, parameters);
        if code == SUCCESS && !parameters.is_null() {
            // SAFETY: not null, so a whole structure: CUDA's contract of the function.
            note_in_graph(unsafe { (*parameters).bytes } as u64);
        }
        code
    }

    fn cuGraphLaunch(graph: usize, stream: Stream) |native| {
        launched(run_graph(|| native(graph, stream)), graph, stream)
    }

    fn cuGraphLaunch_ptsz(graph: usize, stream: Stream) |native| {
        launched(run_graph(|| native(graph, stream)), graph, per_thread(stream))
    }

    fn cuGraphUpload(graph: usize, stream: Stream) |native| {
        run_graph(|| native(graph, stream))
    }

    fn cuGraphUpload_ptsz(graph: usize, stream: Stream) |native| {
        run_graph(|| native(graph, stream))
    }
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[repr(C)]
pub struct AllocNode {
    pool: MemPoolProps,
    access: *const u8,
    access_count: usize,
    bytes: usize,
    pointer: u64,
}
