//! What the processes of a user share about the devices: how much memory each holds, which have a
//! context, and how far the engines are booked.

pub mod file;
pub mod layout;
mod lease;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::{Mutex, MutexGuard};

use crate::config::spec::{MAX_DEVICES, Spec};
use crate::error::{Error, Result, say_once};
use layout::{Clock, Layout, ProcessSlot, SLOTS};

/// The shared state, as one process sees it.
pub struct SharedState {
    path: PathBuf,
    devices: Vec<Spec>,
    layout: &'static Layout,
    identity: (u64, u64),
    own: Mutex<ProcessSide>,
}

/// This process's side: record locks belong to a process, so threads exclude each other here.
struct ProcessSide {
    file: File,
    /// The slot, and the process that took it: after a fork it is the parent's.
    slot: Option<(usize, u32)>,
    /// What this process holds, to write its slot again should it have been lost.
    bytes: [u64; MAX_DEVICES],
    contexts: u64,
}

/// What one process holds on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The process that holds the memory.
    pub pid: u32,
    /// Its bytes on the device, context included.
    pub bytes: u64,
    /// Whether it has a context there.
    pub context: bool,
}

impl SharedState {
    /// Opens the shared state of these devices.
    pub fn open(devices: Vec<Spec>) -> std::result::Result<SharedState, file::OpenError> {
        let path = file::path(&devices);
        let mapped = file::open(&path, &devices)?;
        let own = ProcessSide {
            file: mapped.file,
            slot: None,
            bytes: [0; MAX_DEVICES],
            contexts: 0,
        };
        Ok(SharedState {
            path,
            devices,
            layout: mapped.layout,
            identity: mapped.identity,
            own: Mutex::new(own),
        })
    }

    /// The devices, as configured.
    pub fn devices(&self) -> &[Spec] {
        &self.devices
    }

    /// Takes `bytes` of a device's memory, and a context there if `context`.
    ///
    /// # Errors
    /// `MEMORY_ALLOCATION` if the device does not have so much left.
    pub fn charge(&self, device: usize, bytes: u64, context: bool) -> Result {
        let mut locked = self.lock()?;
        let slot = locked.slot()?;
        let total = self.devices[device].memory;
        let fits = |locked: &LockedState| {
            locked
                .used(device)
                .checked_add(bytes)
                .is_some_and(|sum| sum <= total)
        };
        if !fits(&locked) {
            locked.reap();
            if !fits(&locked) {
                return Err(Error::MEMORY_ALLOCATION);
            }
        }
        locked.own.bytes[device] += bytes;
        locked.own.contexts |= u64::from(context) << device;
        locked.publish(slot);
        Ok(())
    }

    /// Gives `bytes` of a device's memory back, and the context there if `context`.
    pub fn uncharge(&self, device: usize, bytes: u64, context: bool) {
        // Without the lock the file is unusable and nothing was charged.
        let Ok(mut locked) = self.lock() else { return };
        let Ok(slot) = locked.slot() else { return };
        locked.own.bytes[device] = locked.own.bytes[device].saturating_sub(bytes);
        locked.own.contexts &= !(u64::from(context) << device);
        locked.publish(slot);
    }

    /// The living processes that hold memory of a device.
    pub fn holdings(&self, device: usize) -> Vec<Holding> {
        let Ok(mut locked) = self.lock() else {
            return Vec::new();
        };
        locked.reap();
        let holding = |slot: &ProcessSlot| Holding {
            pid: slot.pid.load(Relaxed),
            bytes: slot.bytes[device].load(Relaxed),
            context: slot.contexts.load(Relaxed) >> device & 1 == 1,
        };
        locked
            .slots()
            .map(holding)
            .filter(|holding| holding.bytes > 0 || holding.context)
            .collect()
    }

    /// Bytes of a device that are in use.
    pub fn used(&self, device: usize) -> u64 {
        self.holdings(device).iter().map(|holding| holding.bytes).sum()
    }

    /// Runs `book` on the devices' clocks, alone among all processes; it gets this process's slot.
    pub fn with_clocks<T>(&self, book: impl FnOnce(&[Clock], u64) -> T) -> Result<T> {
        let mut locked = self.lock()?;
        let slot = locked.slot()?;
        Ok(book(&self.layout.clocks, slot as u64))
    }

    /// Runs `look` on a device's clock as it stands, without the lock.
    pub fn look_at_clock<T>(&self, device: usize, look: impl FnOnce(&Clock) -> T) -> T {
        look(&self.layout.clocks[device])
    }

    fn lock(&self) -> Result<LockedState<'_>> {
        let fail = |error: std::io::Error| {
            say_once(&format!(
                "failed to lock the shared state {}: {error}",
                self.path.display()
            ));
            Error::OPERATING_SYSTEM
        };
        let mut own = self.own.lock();
        // A program that closes all descriptors, as daemons do, closes ours too: locks and lease are gone.
        let same = own
            .file
            .metadata()
            .is_ok_and(|now| (now.dev(), now.ino()) == self.identity);
        if !same {
            let file = file::open_file(&self.path).map_err(fail)?;
            // The old number may be another open file by now, so it must not be closed.
            std::mem::forget(std::mem::replace(&mut own.file, file));
            own.slot = None;
        }
        lease::wait(&own.file, lease::CONTENTS).map_err(fail)?;
        Ok(LockedState { state: self, own })
    }
}

/// The state while this process has the lock on its contents.
struct LockedState<'a> {
    state: &'a SharedState,
    own: MutexGuard<'a, ProcessSide>,
}

impl LockedState<'_> {
    fn slots(&self) -> impl Iterator<Item = &'static ProcessSlot> + use<> {
        let layout = self.state.layout;
        let used = (layout.slots_used.load(Relaxed) as usize).min(SLOTS);
        layout.slots[..used]
            .iter()
            .filter(|slot| slot.pid.load(Relaxed) != 0)
    }

    fn used(&self, device: usize) -> u64 {
        self.slots().map(|slot| slot.bytes[device].load(Relaxed)).sum()
    }

    /// This process's slot; takes one at the first call.
    fn slot(&mut self) -> Result<usize> {
        let pid = std::process::id();
        if let Some((slot, owner)) = self.own.slot {
            if owner == pid {
                return Ok(slot);
            }
            // A forked child holds nothing of its parent's.
            self.own.bytes = [0; MAX_DEVICES];
            self.own.contexts = 0;
        }
        let layout = self.state.layout;
        for index in 0..SLOTS {
            if lease::try_take(&self.own.file, lease::slot_byte(index)) {
                if layout.slots_used.load(Relaxed) as usize <= index {
                    layout.slots_used.store(index as u32 + 1, Relaxed);
                }
                wipe(layout, index);
                layout.slots[index].pid.store(pid, Relaxed);
                self.own.slot = Some((index, pid));
                self.publish(index);
                return Ok(index);
            }
        }
        say_once(&format!(
            "more than {SLOTS} processes use the software devices at once"
        ));
        Err(Error::MEMORY_ALLOCATION)
    }

    fn publish(&self, slot: usize) {
        let slot = &self.state.layout.slots[slot];
        slot.contexts.store(self.own.contexts, Relaxed);
        for (shared, own) in slot.bytes.iter().zip(&self.own.bytes) {
            shared.store(*own, Relaxed);
        }
    }

    /// Frees the slots of the dead.
    fn reap(&mut self) {
        let layout = self.state.layout;
        let used = (layout.slots_used.load(Relaxed) as usize).min(SLOTS);
        let pid = std::process::id();
        let mine = self
            .own
            .slot
            .filter(|&(_, owner)| owner == pid)
            .map(|(slot, _)| slot);
        for (index, slot) in layout.slots[..used].iter().enumerate() {
            let taken = slot.pid.load(Relaxed) != 0 && Some(index) != mine;
            if taken && !lease::held_elsewhere(&self.own.file, lease::slot_byte(index)) {
                wipe(layout, index);
            }
        }
    }
}

impl Drop for LockedState<'_> {
    fn drop(&mut self) {
        lease::release(&self.own.file, lease::CONTENTS);
    }
}

/// Frees a slot; if this process is killed half-way, no process has the lease and the next one frees it
/// again.
fn wipe(layout: &Layout, index: usize) {
    let now = crate::clock::now();
    let kernels = layout.clocks.iter().flat_map(|clock| &clock.kernels);
    for span in kernels.filter(|span| span.slot.load(Relaxed) == index as u64) {
        // What has run was run; what was still to run never will.
        let start = span.start.load(Relaxed);
        let end = span.end.load(Relaxed).min(now);
        span.end.store(if start < end { end } else { 0 }, Relaxed);
    }
    let slot = &layout.slots[index];
    for bytes in &slot.bytes {
        bytes.store(0, Relaxed);
    }
    slot.contexts.store(0, Relaxed);
    slot.pid.store(0, Relaxed);
}

/// The state of the devices that the environment names, opened at the first call.
///
/// # Errors
/// `INITIALIZATION`, after a line on stderr, if the configuration or the file cannot be used.
pub fn shared() -> Result<&'static SharedState> {
    static STATE: OnceLock<Result<SharedState>> = OnceLock::new();
    let open = || {
        let text = std::env::var("SOFTGPU_DEVICES").unwrap_or_default();
        let text = if text.is_empty() {
            crate::config::spec::DEFAULT
        } else {
            &text
        };
        let devices = crate::config::spec::parse(text).map_err(|error| say_once(&error.to_string()));
        let state = devices
            .and_then(|devices| SharedState::open(devices).map_err(|error| say_once(&error.to_string())));
        state.map_err(|()| Error::INITIALIZATION)
    };
    STATE.get_or_init(open).as_ref().map_err(|&error| error)
}
