//! Memory that a program maps by itself ([`crate::program_memory`]) on its way to the host and back: its bytes are
//! copied by a mapping of the front's own, since the program may have mapped only a part of it, or none at all. It
//! comes back as other physical memory at the same addresses. The gate is closed meanwhile.

use std::ffi::c_int;
use std::time::Duration;

use mgb_core::host_bytes::{Budget, HostBytes};
use mgb_core::staged_copy::{Piece, Pieces};
use mgb_core::swaps::{Spent, Watch};

use crate::calls::{Code, driver};
use crate::program_memory::{self, Made};
use crate::{live_contexts, notice, range, room, swap_transfer};

/// Between two tries to get memory that mgbd granted and another process holds.
const GRANTED_MEMORY_INTERVAL: Duration = Duration::from_millis(100);

/// Memory that leaves.
struct Leaver {
    name: u64,
    native: u64,
    bytes: u64,
    /// Handles that the driver counts.
    handles: u32,
    /// Nothing was ever in it.
    is_new: bool,
}

/// A mapping of the front's own.
struct Window {
    start: u64,
    bytes: u64,
}

impl Window {
    /// Over the memory of a handle, for its device.
    fn open(native: u64, bytes: u64, device: c_int) -> Result<Window, Code> {
        let start = driver().reserve(bytes, 0)?;
        let mut code = driver().map(start, bytes, native);
        if code == Code::SUCCESS {
            code = driver().allow(start, bytes, device);
            if code == Code::SUCCESS {
                return Ok(Window { start, bytes });
            }
            driver().unmap(start, bytes);
        }
        driver().unreserve(start, bytes);
        Err(code)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        driver().unmap(self.start, self.bytes);
        driver().unreserve(self.start, self.bytes);
    }
}

/// Whether memory that network cards may reach could be known to one: then a library for them is loaded.
fn has_cards() -> bool {
    // SAFETY: a name with its end; nothing is loaded.
    let found = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if !found.is_null() {
        // SAFETY: opened just now, once.
        unsafe { libc::dlclose(found) };
    }
    !found.is_null()
}

/// What can leave the device.
fn leavers(device: c_int) -> Vec<Leaver> {
    let (has_cards, has_context) = (has_cards(), live_contexts::on(device).is_some());
    let table = program_memory::lock();
    let leaves = table.memory.iter().filter(|(_, memory)| {
        memory.device == device
            && memory.in_host.is_none()
            && !memory.stays
            && !(memory.made.is_for_cards() && has_cards)
            && (has_context || !memory.was_mapped)
    });
    let leaver = |(&name, memory): (&u64, &program_memory::Memory)| Leaver {
        name,
        native: memory.native,
        bytes: memory.bytes,
        handles: if memory.is_renamed {
            memory.handles.min(1)
        } else {
            memory.handles
        },
        is_new: !memory.was_mapped,
    };
    leaves.map(leaver).collect()
}

/// Brings all that can leave the device to the host; the names of what did, and the bytes.
pub fn save_all(device: c_int, watch: &mut Watch) -> (Vec<u64>, u64) {
    if !program_memory::is_used() || !range::may_swap() {
        return (Vec::new(), 0);
    }
    let (new, used): (Vec<Leaver>, Vec<Leaver>) =
        leavers(device).into_iter().partition(|leaver| leaver.is_new);
    let mut left = (Vec::new(), 0);
    for leaver in &new {
        take_away(device, leaver, None);
        left.0.push(leaver.name);
        left.1 += leaver.bytes;
    }
    let bytes = used.iter().map(|leaver| leaver.bytes).sum();
    let mut leaving = Leaving {
        device,
        leavers: used,
        begun: Vec::new(),
        budget: Budget::now(),
        left,
        watch,
    };
    if bytes == 0 {
        return leaving.left;
    }
    let Some((copies, _entered)) = swap_transfer::measured_copies(device, bytes, leaving.watch) else {
        return leaving.left;
    };
    if let Err(code) = copies.out(&mut leaving) {
        notice::once("swap", format_args!("failed to swap out ({code})"));
    }
    leaving.watch.book(Spent::Copy);
    leaving.left
}

/// Frees memory whose bytes are in the host, at all its addresses.
fn take_away(device: c_int, leaver: &Leaver, bytes: Option<HostBytes>) {
    let mut table = program_memory::lock();
    room::unmapping(device, leaver.bytes);
    for (start, mapping) in table.mappings_of(leaver.name) {
        note_failure(driver().unmap(start, mapping.bytes));
    }
    for _ in 0..leaver.handles {
        note_failure(driver().release(leaver.native));
    }
    if let Some(memory) = table.memory.get_mut(&leaver.name) {
        memory.in_host = bytes;
    }
}

fn note_failure(code: Code) {
    if code != Code::SUCCESS {
        notice::once("release", format_args!("failed to free device memory ({code})"));
    }
}

/// Memory on its way to the host.
struct Leaving<'a> {
    device: c_int,
    leavers: Vec<Leaver>,
    /// What is copied by now: the window, and the host's memory; `None` once it is done.
    begun: Vec<Option<(Window, HostBytes)>>,
    budget: Budget,
    left: (Vec<u64>, u64),
    watch: &'a mut Watch,
}

impl Leaving<'_> {
    fn begin(&mut self, at: usize) -> Option<(Window, HostBytes)> {
        let leaver = &self.leavers[at];
        let host = swap_transfer::host_memory(leaver.bytes, &mut self.budget)?;
        let mut native = leaver.native;
        if leaver.handles == 0 {
            // Only its addresses are left of it.
            let (start, _) = program_memory::lock()
                .mappings_of(leaver.name)
                .into_iter()
                .next()?;
            native = driver().retain(start).ok()?;
        }
        let window = Window::open(native, leaver.bytes, self.device);
        if leaver.handles == 0 {
            driver().release(native);
        }
        Some((window.ok()?, host))
    }
}

// SAFETY: the gate is closed and the GPU at rest, so nobody uses the device memory, which is mapped by a window until
// it is copied. The host memory is this value's own until then.
unsafe impl Pieces for Leaving<'_> {
    fn next(&mut self) -> Option<Piece> {
        self.watch.book(Spent::Copy);
        let at = self.begun.len();
        if at == self.leavers.len() {
            return None;
        }
        let (window, mut host) = self.begin(at)?;
        let piece = Piece {
            device: window.start,
            host: host.as_mut_ptr(),
            bytes: host.len(),
        };
        self.begun.push(Some((window, host)));
        self.watch.book(Spent::Host);
        Some(piece)
    }

    fn done(&mut self, index: usize) {
        self.watch.book(Spent::Copy);
        let Some((window, host)) = self.begun[index].take() else {
            return;
        };
        drop(window);
        let leaver = &self.leavers[index];
        take_away(self.device, leaver, Some(host));
        self.left.0.push(leaver.name);
        self.left.1 += leaver.bytes;
        self.watch.book(Spent::Map);
    }
}

/// Brings it back; the bytes that came. There is room for it; where another process has taken the memory that is
/// granted, this waits, since the program cannot go on without it.
pub fn load_all(device: c_int, names: &[u64], watch: &mut Watch) -> u64 {
    if names.is_empty() {
        return 0;
    }
    let bytes = {
        let table = program_memory::lock();
        let memory = names.iter().filter_map(|name| table.memory.get(name));
        memory
            .filter(|memory| memory.in_host.is_some())
            .map(|memory| memory.bytes)
            .sum()
    };
    let mut coming = Coming {
        device,
        names: names.iter(),
        begun: Vec::new(),
        came: 0,
        watch,
    };
    if bytes > 0 {
        let begun = swap_transfer::copies_back(device, bytes, coming.watch);
        let copied = begun.and_then(|(copies, _entered)| copies.back(&mut coming));
        if let Err(code) = copied {
            // The context is broken, as the program's own next call will say.
            notice::once(
                "swap-in",
                format_args!("failed to copy swapped bytes back ({code})"),
            );
        }
        coming.watch.book(Spent::Copy);
    }
    for index in 0..coming.begun.len() {
        coming.settle(index);
    }
    // What had nothing in it, and where copying has failed.
    while coming.next().is_some() {}
    for index in 0..coming.begun.len() {
        coming.settle(index);
    }
    coming.came
}

/// Its name, the driver's handle, and the window and the bytes, which are gone once they are back.
type Comer = (u64, u64, Option<(Window, HostBytes)>);

/// Memory on its way back.
struct Coming<'a> {
    device: c_int,
    names: std::slice::Iter<'a, u64>,
    /// What has memory again.
    begun: Vec<Comer>,
    came: u64,
    watch: &'a mut Watch,
}

impl Coming<'_> {
    fn settle(&mut self, index: usize) {
        let (name, native, rest) = &mut self.begun[index];
        if rest.take().is_some() {
            put_back(self.device, *name, *native);
            self.came += program_memory::lock()
                .memory
                .get(name)
                .map_or(0, |memory| memory.bytes);
        }
    }
}

// SAFETY: the gate is closed, so nobody uses the new device memory, which the window maps; the host memory is this
// value's own until its bytes are copied.
unsafe impl Pieces for Coming<'_> {
    fn next(&mut self) -> Option<Piece> {
        self.watch.book(Spent::Copy);
        let piece = loop {
            let Some(&name) = self.names.next() else {
                break None;
            };
            let found = {
                let mut table = program_memory::lock();
                let memory = table.memory.get_mut(&name);
                memory.map(|memory| (memory.made, memory.bytes, memory.in_host.take()))
            };
            let Some((made, bytes, host)) = found else {
                continue;
            };
            let Some(native) = create(&made, bytes) else {
                continue;
            };
            let Some(mut host) = host else {
                // There was never anything in it.
                put_back(self.device, name, native);
                self.came += bytes;
                continue;
            };
            match Window::open(native, bytes, self.device) {
                Ok(window) => {
                    let piece = Piece {
                        device: window.start,
                        host: host.as_mut_ptr(),
                        bytes: host.len(),
                    };
                    self.begun.push((name, native, Some((window, host))));
                    break Some(piece);
                }
                Err(code) => {
                    lost(code);
                    put_back(self.device, name, native);
                }
            }
        };
        self.watch.book(Spent::Map);
        piece
    }

    fn done(&mut self, index: usize) {
        self.settle(index);
    }
}

/// Memory like that which left.
fn create(made: &Made, bytes: u64) -> Option<u64> {
    loop {
        match driver().create_as(&made.prop(), bytes) {
            Ok(handle) => return Some(handle),
            Err(Code::MEMORY_ALLOCATION) => {
                notice::taken_by_others();
                std::thread::sleep(GRANTED_MEMORY_INTERVAL);
            }
            Err(code) => {
                lost(code);
                return None;
            }
        }
    }
}

fn lost(code: Code) {
    notice::once(
        "back",
        format_args!("failed to put memory behind swapped bytes ({code})"),
    );
}

/// Maps memory where that which left was, for whom it was, and has the program's name mean it.
fn put_back(device: c_int, name: u64, native: u64) {
    let mut table = program_memory::lock();
    for (start, mapping) in table.mappings_of(name) {
        let mut code = driver().map_at(start, mapping.bytes, mapping.offset, native);
        if code == Code::SUCCESS && !mapping.access.is_empty() {
            code = driver().set_access(start, mapping.bytes, &mapping.access);
        }
        if code != Code::SUCCESS {
            lost(code);
        }
    }
    table.rename(name, native);
    let Some(memory) = table.memory.get(&name) else {
        return;
    };
    if memory.handles == 0 {
        // Its addresses keep it.
        driver().release(native);
    }
    room::mapped(device, memory.bytes);
}
