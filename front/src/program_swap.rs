//! Memory that a program maps by itself ([`crate::program_memory`]) on its way to the host and back: its bytes are
//! copied by a mapping of the front's own, since the program may have mapped only a part of it, or none at all. It
//! comes back as other physical memory at the same addresses. The gate is closed meanwhile.

use std::ffi::c_int;

use mgb_core::host_bytes::HostBytes;
use mgb_core::memory::{self, Offload, Range, Restore, granted};
use mgb_core::notice;
use mgb_core::swaps::Watch;

use crate::calls::{Code, driver};
use crate::program_memory::{self, Made};
use crate::{live_contexts, range, room, swap_transfer};

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

impl Window {
    fn range(&self) -> Range {
        Range::new(self.start, self.bytes)
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
    if bytes == 0 {
        return left;
    }
    let Some((copies, _entered)) = swap_transfer::measured_copies(device, bytes, watch) else {
        return left;
    };
    let mut leaving = Leaving {
        device,
        leavers: used,
        windows: Vec::new(),
        left,
    };
    let (_, copied) = memory::offload(&copies, &mut leaving, notice::host_memory, watch);
    if let Err(code) = copied {
        notice::once("swap", format_args!("failed to swap out ({code})"));
    }
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
struct Leaving {
    device: c_int,
    leavers: Vec<Leaver>,
    /// The windows of those that have begun; `None` once they are done.
    windows: Vec<Option<Window>>,
    left: (Vec<u64>, u64),
}

impl Leaving {
    fn window(&self, leaver: &Leaver) -> Option<Window> {
        if leaver.handles > 0 {
            return Window::open(leaver.native, leaver.bytes, self.device).ok();
        }
        // Only its addresses are left of it.
        let mappings = program_memory::lock().mappings_of(leaver.name);
        let (start, _) = mappings.into_iter().next()?;
        let native = driver().retain(start).ok()?;
        let window = Window::open(native, leaver.bytes, self.device);
        driver().release(native);
        window.ok()
    }
}

// SAFETY: the gate is closed and the GPU at rest, so nobody uses the device memory, which is mapped by a window until
// it is copied.
unsafe impl Offload for Leaving {
    fn next(&mut self) -> Option<Range> {
        let window = self.window(self.leavers.get(self.windows.len())?)?;
        let range = window.range();
        self.windows.push(Some(window));
        Some(range)
    }

    fn done(&mut self, index: usize, bytes: HostBytes) {
        self.windows[index] = None;
        let leaver = &self.leavers[index];
        take_away(self.device, leaver, Some(bytes));
        self.left.0.push(leaver.name);
        self.left.1 += leaver.bytes;
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
    };
    if bytes > 0 {
        let begun = swap_transfer::copies_back(device, bytes, watch);
        let copied = begun.and_then(|(copies, _entered)| memory::restore(&copies, &mut coming, watch).1);
        if let Err(code) = copied {
            // The context is broken, as the program's own next call will say.
            notice::once(
                "swap-in",
                format_args!("failed to copy swapped bytes back ({code})"),
            );
        }
    }
    // What had nothing in it, and where copying has failed.
    while coming.next().is_some() {}
    for index in 0..coming.begun.len() {
        coming.done(index);
    }
    coming.came
}

/// Its name, the driver's handle, and the window, which is gone once the bytes are back.
type Comer = (u64, u64, Option<Window>);

/// Memory on its way back.
struct Coming<'a> {
    device: c_int,
    names: std::slice::Iter<'a, u64>,
    /// What has memory again.
    begun: Vec<Comer>,
    came: u64,
}

// SAFETY: the gate is closed, so nobody uses the new device memory, which the window maps.
unsafe impl Restore for Coming<'_> {
    fn next(&mut self) -> Option<(Range, HostBytes)> {
        loop {
            let &name = self.names.next()?;
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
            // It counts before the bytes are in it: else it is memory that nobody granted, as mgbd sees it.
            room::mapped(self.device, bytes);
            let Some(host) = host else {
                // There was never anything in it.
                put_back(name, native);
                self.came += bytes;
                continue;
            };
            match Window::open(native, bytes, self.device) {
                Ok(window) => {
                    let range = window.range();
                    self.begun.push((name, native, Some(window)));
                    return Some((range, host));
                }
                Err(code) => {
                    lost(code);
                    put_back(name, native);
                }
            }
        }
    }

    fn done(&mut self, index: usize) {
        let (name, native, window) = &mut self.begun[index];
        if window.take().is_some() {
            put_back(*name, *native);
            self.came += program_memory::lock()
                .memory
                .get(name)
                .map_or(0, |memory| memory.bytes);
        }
    }

    fn failed(&mut self, index: usize, _: HostBytes) {
        // Its memory is there all the same.
        self.done(index);
    }
}

/// Memory like that which left.
fn create(made: &Made, bytes: u64) -> Option<u64> {
    granted::wait_for(
        || driver().create_as(&made.prop(), bytes),
        notice::taken_by_others,
    )
    .inspect_err(|code| lost(*code))
    .ok()
}

fn lost(code: Code) {
    notice::once(
        "back",
        format_args!("failed to put memory behind swapped bytes ({code})"),
    );
}

/// Maps memory where that which left was, for whom it was, and has the program's name mean it.
fn put_back(name: u64, native: u64) {
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
}
