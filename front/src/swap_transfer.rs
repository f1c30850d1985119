//! The bytes of extents on their way to the host and back. One extent is mapped or freed while copies of
//! others are under way. The gate is closed meanwhile: nobody uses what is in extents, and none comes or
//! goes.

use std::ffi::c_int;

use mgb_core::host_bytes::HostBytes;
use mgb_core::memory::{self, Offload, Physical, Range, Restore, granted};
use mgb_core::notice;
use mgb_core::swaps::Watch;
use mgb_core::transfer::Copies;

use crate::allocations::{self, Backing, Extent};
use crate::calls::{Code, Entered, driver};
use crate::{live_contexts, mapping, room};

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
    let mut extents = Vec::new();
    for (&start, extent) in allocations::lock().extents.iter() {
        if matches!(extent.backing, Backing::Device(_)) && leaves(extent) {
            extents.push(Range::new(start, extent.length));
        }
    }
    let bytes = extents.iter().map(|range| range.bytes).sum();
    if bytes == 0 {
        return (Vec::new(), 0);
    }
    let Some((copies, _entered)) = measured_copies(device, bytes, watch) else {
        return (Vec::new(), 0);
    };
    let mut leaving = Leaving {
        device,
        extents,
        next: 0,
        left: Vec::new(),
    };
    let (bytes, copied) = memory::offload(&copies, &mut leaving, notice::host_memory, watch);
    if let Err(code) = copied {
        notice::once("swap", format_args!("failed to swap out ({code})"));
    }
    (leaving.left, bytes)
}

/// Extents on their way to the host.
struct Leaving {
    device: c_int,
    /// Where each is.
    extents: Vec<Range>,
    /// The first that has not begun.
    next: usize,
    /// The starts of those that are there.
    left: Vec<u64>,
}

// SAFETY: the gate is closed and the GPU at rest, so nobody uses the device memory.
unsafe impl Offload for Leaving {
    fn next(&mut self) -> Option<Range> {
        let &range = self.extents.get(self.next)?;
        self.next += 1;
        Some(range)
    }

    fn done(&mut self, index: usize, bytes: HostBytes) {
        let range = self.extents[index];
        room::unmapping(self.device, range.bytes);
        let before = {
            let mut store = allocations::lock();
            let extent = store.extents.get_mut(&range.start);
            extent.map(|extent| std::mem::replace(&mut extent.backing, Backing::Host(bytes)))
        };
        if let Some(Backing::Device(memory)) = before {
            mapping::release(range, memory);
        }
        self.left.push(range.start);
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
        lost: 0,
    };
    let (came, copied) = memory::restore(&copies, &mut coming, watch);
    if let Err(code) = copied {
        // The context is broken, as the program's own next call will say.
        notice::once(
            "swap-in",
            format_args!("failed to copy swapped bytes back ({code})"),
        );
    }
    came + coming.lost
}

/// As [`measured_copies`], for bytes that the program cannot go on without: waits for what that takes.
///
/// # Errors
/// The driver's.
pub fn copies_back(device: c_int, bytes: u64, watch: &mut Watch) -> Result<(Copies, Entered), Code> {
    granted::wait_for(|| begin(device, bytes, watch), notice::taken_by_others)
        .inspect_err(|code| no_stream(*code))
}

/// Extents on their way back.
struct Coming<'a> {
    device: c_int,
    starts: std::slice::Iter<'a, u64>,
    /// Those that have memory.
    begun: Vec<Range>,
    /// Bytes of those that have memory, and not what was in it.
    lost: u64,
}

// SAFETY: the gate is closed, so nobody uses the new device memory.
unsafe impl Restore for Coming<'_> {
    fn next(&mut self) -> Option<(Range, HostBytes)> {
        loop {
            let &start = self.starts.next()?;
            let Some(memory) = memory_behind(start) else {
                continue;
            };
            let mut store = allocations::lock();
            let Some(extent) = store.extents.get_mut(&start) else {
                continue;
            };
            // What an extent has is its own again before the gate opens.
            let before = std::mem::replace(&mut extent.backing, Backing::Device(memory));
            if let Backing::Host(bytes) = before {
                let range = Range::new(start, extent.length);
                // It counts before the bytes are in it: else it is memory that nobody granted, as mgbd sees
                // it.
                room::mapped(self.device, range.bytes);
                self.begun.push(range);
                return Some((range, bytes));
            }
        }
    }

    fn done(&mut self, _: usize) {}

    fn failed(&mut self, index: usize, _: HostBytes) {
        // Its memory is mapped all the same.
        self.lost += self.begun[index].bytes;
    }
}

/// Memory behind an extent that has none.
fn memory_behind(start: u64) -> Option<Physical> {
    // The lock is not held between two tries.
    let back = || allocations::lock().back(start);
    let report = |code: &Code| {
        notice::once(
            "back",
            format_args!("failed to put memory behind swapped bytes ({code})"),
        );
    };
    granted::wait_for(back, notice::taken_by_others)
        .inspect_err(report)
        .ok()
}
