//! The bytes of extents on their way to the host and back. One extent is mapped or freed while copies of
//! others are under way. The gate is closed meanwhile: nobody uses what is in extents, and none comes or
//! goes.

use std::ffi::c_int;
use std::time::Duration;

use mgb_core::host_bytes::{self, Budget, HostBytes};
use mgb_core::staged_copy::{Piece, Pieces};
use mgb_core::swaps::{Spent, Watch};
use mgb_core::transfer::Copies;

use crate::allocations::{self, Backing, Extent};
use crate::calls::{Code, Entered, driver};
use crate::{live_contexts, mapping, notice, room};

/// Between two tries to get memory that mgbd granted and another process holds.
const GRANTED_MEMORY_INTERVAL: Duration = Duration::from_millis(100);

/// What copies of so many bytes between the device and the host take, and the thread in a context there.
pub fn measured_copies(device: c_int, bytes: u64, watch: &mut Watch) -> Option<(Copies, Entered)> {
    let begun = begin(device, bytes, watch);
    begun.inspect_err(|code| no_stream(*code)).ok()
}

fn begin(device: c_int, bytes: u64, watch: &mut Watch) -> Result<(Copies, Entered), Code> {
    let entered = driver().enter(live_contexts::on(device).ok_or(Code::INVALID_VALUE)?)?;
    let copies = Copies::begin(driver(), bytes, watch)?;
    Ok((copies, entered))
}

fn no_stream(code: Code) {
    notice::once(
        "swap",
        format_args!("failed to make a stream to swap in ({code})"),
    );
}

/// Brings all that can leave the device to the host: the extents, and their bytes.
pub fn save_all(device: c_int, watch: &mut Watch) -> (Vec<u64>, u64) {
    let leaves = |extent: &Extent| extent.device == device && !extent.stays;
    let mut leaving = Leaving {
        device,
        extents: Vec::new(),
        hosts: Vec::new(),
        budget: Budget::now(),
        left: (Vec::new(), 0),
        watch,
    };
    for (&start, extent) in allocations::lock()
        .extents
        .iter()
        .filter(|(_, extent)| leaves(extent))
    {
        if let Backing::Device(handle) = extent.backing {
            leaving.extents.push((start, extent.length, handle));
        }
    }
    let bytes = leaving.extents.iter().map(|(_, length, _)| length).sum();
    if bytes == 0 {
        return leaving.left;
    }
    let Some((copies, _entered)) = measured_copies(device, bytes, leaving.watch) else {
        return leaving.left;
    };
    if let Err(code) = copies.out(&mut leaving) {
        notice::once("swap", format_args!("failed to swap out ({code})"));
    }
    leaving.watch.book(Spent::Copy);
    leaving.left
}

/// Host memory for so many bytes.
pub fn host_memory(length: u64, budget: &mut Budget) -> Option<HostBytes> {
    let bytes = budget.take(length as usize);
    if bytes.is_none() {
        notice::once("host-memory", format_args!("{}", host_bytes::too_little(length)));
    }
    bytes
}

/// Extents on their way to the host.
struct Leaving<'a> {
    device: c_int,
    /// Start, length and handle.
    extents: Vec<(u64, u64, u64)>,
    /// The host memory of those that have begun; `None` where it is theirs already.
    hosts: Vec<Option<HostBytes>>,
    budget: Budget,
    /// Which are there, and their bytes.
    left: (Vec<u64>, u64),
    watch: &'a mut Watch,
}

// SAFETY: the gate is closed and the GPU at rest, so nobody uses the device memory, which is freed once it is
// copied. The host memory is this value's own until then.
unsafe impl Pieces for Leaving<'_> {
    fn next(&mut self) -> Option<Piece> {
        self.watch.book(Spent::Copy);
        let &(start, length, _) = self.extents.get(self.hosts.len())?;
        let mut bytes = host_memory(length, &mut self.budget)?;
        let piece = Piece {
            device: start,
            host: bytes.as_mut_ptr(),
            bytes: bytes.len(),
        };
        self.hosts.push(Some(bytes));
        self.watch.book(Spent::Host);
        Some(piece)
    }

    fn done(&mut self, index: usize) {
        self.watch.book(Spent::Copy);
        let (start, length, handle) = self.extents[index];
        let Some(bytes) = self.hosts[index].take() else {
            return;
        };
        room::unmapping(self.device, length);
        if let Some(extent) = allocations::lock().extents.get_mut(&start) {
            extent.backing = Backing::Host(bytes);
        }
        mapping::take_away(start, length, handle);
        self.left.0.push(start);
        self.left.1 += length;
        self.watch.book(Spent::Map);
    }
}

/// Brings extents' bytes back; how many came. There is room for them; where another process has taken the
/// memory that is granted, this waits, since the program cannot go on without its bytes.
pub fn load_all(device: c_int, starts: &[u64], watch: &mut Watch) -> u64 {
    let lengths: u64 = {
        let store = allocations::lock();
        let extents = starts.iter().filter_map(|start| store.extents.get(start));
        extents.map(|extent| extent.length).sum()
    };
    if lengths == 0 {
        return 0;
    }
    let Ok((copies, _entered)) = copies_back(device, lengths, watch) else {
        return 0;
    };
    let mut coming = Coming {
        device,
        starts: starts.iter(),
        begun: Vec::new(),
        gone: Vec::new(),
        came: 0,
        watch,
    };
    if let Err(code) = copies.back(&mut coming) {
        // The context is broken, as the program's own next call will say.
        notice::once(
            "swap-in",
            format_args!("failed to copy swapped bytes back ({code})"),
        );
    }
    coming.watch.book(Spent::Copy);
    // Those too that were not copied: their memory is mapped.
    for index in 0..coming.begun.len() {
        coming.settle(index);
    }
    host_bytes::free(coming.gone);
    coming.watch.book(Spent::Host);
    coming.came
}

/// As [`measured_copies`], for bytes that the program cannot go on without: waits for what that takes.
///
/// # Errors
/// The driver's.
pub fn copies_back(device: c_int, bytes: u64, watch: &mut Watch) -> Result<(Copies, Entered), Code> {
    loop {
        match begin(device, bytes, watch) {
            Err(Code::MEMORY_ALLOCATION) => {
                notice::taken_by_others();
                std::thread::sleep(GRANTED_MEMORY_INTERVAL);
            }
            begun => return begun.inspect_err(|code| no_stream(*code)),
        }
    }
}

/// Extents on their way back.
struct Coming<'a> {
    device: c_int,
    starts: std::slice::Iter<'a, u64>,
    /// Those that have memory: start, its handle and their bytes in the host; `None` once these are back.
    begun: Vec<(u64, u64, Option<HostBytes>)>,
    /// Host memory that is not needed any more.
    gone: Vec<HostBytes>,
    came: u64,
    watch: &'a mut Watch,
}

impl Coming<'_> {
    fn settle(&mut self, index: usize) {
        let (start, handle, bytes) = &mut self.begun[index];
        let Some(bytes) = bytes.take() else { return };
        if let Some(extent) = allocations::lock().extents.get_mut(start) {
            extent.backing = Backing::Device(*handle);
        }
        room::mapped(self.device, bytes.len() as u64);
        self.came += bytes.len() as u64;
        self.gone.push(bytes);
    }
}

// SAFETY: the gate is closed, so nobody uses the new device memory; the host memory is this value's own until
// its bytes are copied.
unsafe impl Pieces for Coming<'_> {
    fn next(&mut self) -> Option<Piece> {
        self.watch.book(Spent::Copy);
        let piece = loop {
            let Some(&start) = self.starts.next() else {
                break None;
            };
            let Some(handle) = memory(start) else { continue };
            let mut store = allocations::lock();
            let Some(extent) = store.extents.get_mut(&start) else {
                continue;
            };
            // What an extent has is its own again before the gate opens.
            let before = std::mem::replace(&mut extent.backing, Backing::Device(handle));
            if let Backing::Host(mut bytes) = before {
                let piece = Piece {
                    device: start,
                    host: bytes.as_mut_ptr(),
                    bytes: bytes.len(),
                };
                self.begun.push((start, handle, Some(bytes)));
                break Some(piece);
            }
        };
        self.watch.book(Spent::Map);
        piece
    }

    fn done(&mut self, index: usize) {
        self.settle(index);
    }
}

/// Memory behind an extent that has none.
fn memory(start: u64) -> Option<u64> {
    loop {
        // Not in the condition below: the lock would be held through the pause.
        let backed = allocations::lock().back(start);
        match backed {
            Ok(handle) => return Some(handle),
            Err(Code::MEMORY_ALLOCATION) => {
                notice::taken_by_others();
                std::thread::sleep(GRANTED_MEMORY_INTERVAL);
            }
            Err(code) => {
                notice::once(
                    "back",
                    format_args!("failed to put memory behind swapped bytes ({code})"),
                );
                return None;
            }
        }
    }
}
