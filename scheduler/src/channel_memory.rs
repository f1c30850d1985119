//! The memory of channels, which clients make. It cannot be made shorter, but a client may take pages out of
//! it at any time (`FALLOC_FL_PUNCH_HOLE`: no seal forbids that as long as others are to write). Who touches such
//! a page has the kernel find another one, and where it has none to give (`vm.overcommit_memory=2`, a control
//! group's limit), it sends SIGBUS. Then a page of ours takes the missing one's place: the client has spoilt its
//! own channel, where any bits are a request or a refusal, and nobody else notices.

use std::ops::Deref;
use std::os::fd::{AsFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use mgb_probe::mapping::Mapping;
use mgb_probe::wire::{CHANNEL_BYTES, Channel};
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::io::Errno;

/// Channels that are mapped at once: there are fewer clients and guests.
const MAX_CHANNELS: usize = 1 << 13;

/// Where channels are mapped; 0: nowhere.
static MAPPED: [AtomicUsize; MAX_CHANNELS] = [const { AtomicUsize::new(0) }; MAX_CHANNELS];
/// Where to look for room for the next one.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// The page that takes a missing one's place.
static SPARE: AtomicI32 = AtomicI32::new(-1);

/// The memory of a client's channel, mapped here.
pub(crate) struct ChannelMemory {
    mapping: Mapping,
    place: usize,
}

impl ChannelMemory {
    /// Maps a channel's memory, for reading and, if `writable`, for writing.
    pub(crate) fn new(memory: impl AsFd, writable: bool) -> Result<ChannelMemory, Errno> {
        let mapping = Mapping::new(memory, CHANNEL_BYTES, writable)?;
        let channel: &Channel = mapping.shared().ok_or(Errno::INVAL)?;
        let at = std::ptr::from_ref(channel).addr();
        let first = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = (0..MAX_CHANNELS)
            .map(|step| first.wrapping_add(step) % MAX_CHANNELS)
            .find(|place| {
                let (order, otherwise) = (Ordering::Release, Ordering::Relaxed);
                MAPPED[*place].compare_exchange(0, at, order, otherwise).is_ok()
            });
        let place = place.ok_or(Errno::NOMEM)?;
        Ok(ChannelMemory { mapping, place })
    }
}

impl Deref for ChannelMemory {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

impl Drop for ChannelMemory {
    fn drop(&mut self) {
        MAPPED[self.place].store(0, Ordering::Release);
    }
}

/// Has missing pages of channels replaced in this process from now on. Before the process is confined.
pub(crate) fn guard() -> Result<(), Errno> {
    if SPARE.load(Ordering::Relaxed) >= 0 {
        return Ok(());
    }
    let spare = rustix::fs::memfd_create("mgb-spare", MemfdFlags::CLOEXEC)?;
    rustix::fs::fallocate(&spare, FallocateFlags::empty(), 0, page() as u64)?;
    SPARE.store(spare.into_raw_fd(), Ordering::Relaxed);
    // SAFETY: zeros are a valid `sigaction`, whose handler is set below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    action.sa_sigaction = is_missing as extern "C" fn(_, _, _) as usize;
    // SAFETY: `is_missing` is a handler as SA_SIGINFO has them, and async-signal-safe.
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

fn page() -> usize {
    rustix::param::page_size()
}

/// Puts a page where a channel has lost one: the handler of SIGBUS.
extern "C" fn is_missing(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a whole `siginfo_t`, of a fault.
    let at = unsafe { (*info).si_addr() }.addr();
    let is_there = |base: &AtomicUsize| match base.load(Ordering::Acquire) {
        0 => false,
        base => at.wrapping_sub(base) < CHANNEL_BYTES,
    };
    if MAPPED.iter().any(is_there) {
        let place = std::ptr::without_provenance_mut(at & !(page() - 1));
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
        );
        let spare = SPARE.load(Ordering::Relaxed);
        // SAFETY: a page of a channel's mapping, which nobody unmaps while it is touched, is replaced by another
        // one; what lies there is atomics, of which any bits are valid.
        if unsafe { libc::mmap(place, page(), protection, flags, spare, 0) } == place {
            return;
        }
    }
    // SAFETY: anything else is a fault of this program, which ends by it.
    unsafe { libc::abort() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_gone_harms_nobody() {
        guard().unwrap();
        let memory = || {
            let memory = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
            rustix::fs::ftruncate(&memory, CHANNEL_BYTES as u64).unwrap();
            memory
        };
        let (lost, whole) = (memory(), memory());
        let (channel, reader) = (ChannelMemory::new(&lost, true), ChannelMemory::new(&lost, false));
        let (channel, reader) = (channel.unwrap(), reader.unwrap());
        let other = ChannelMemory::new(&whole, true).unwrap();
        let wanted =
            |memory: &ChannelMemory| memory.shared::<Channel>().unwrap().wanted.load(Ordering::Relaxed);
        other
            .shared::<Channel>()
            .unwrap()
            .wanted
            .store(7, Ordering::Relaxed);
        // As where the kernel has no page to give.
        rustix::fs::ftruncate(&lost, 0).unwrap();
        let _ = wanted(&reader);
        channel
            .shared::<Channel>()
            .unwrap()
            .wanted
            .store(1, Ordering::Relaxed);
        assert_eq!(wanted(&channel), 1);
        assert_eq!(wanted(&other), 7);
    }
}
