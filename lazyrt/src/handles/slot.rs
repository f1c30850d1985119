//! Slots: what a handle of lazyrt's own points to.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use mgb_probe::clock;

use crate::code::{Code, Own, fail};
use crate::{session, thread};

/// A handle as the program has it.
pub type Handle = *mut c_void;

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleKind {
    /// A `cudaStream_t` of the program.
    Stream,
    /// A `cudaEvent_t` of the program.
    Event,
}

/// One stream or event, and after its end the next one that gets this place. Other threads may look at it at
/// any time, by a handle that has ended: so all that changes is atomic or behind a lock.
#[repr(align(128))]
pub struct Slot {
    /// Whether it is an event.
    is_event: AtomicBool,
    pub alive: AtomicBool,
    /// As it was made.
    flags: AtomicU32,
    /// The priority that the program asked for, of a stream, or [`NO_PRIORITY`].
    priority: AtomicI64,
    /// Device of the program that it was made for.
    device: AtomicUsize,
    /// Where it was used last, and one more; or [`NOWHERE`], [`BEFORE`].
    pub last: AtomicU32,
    /// The runtime's own object on each GPU. Written under `moving`.
    real: OnceLock<Box<[AtomicPtr<c_void>]>>,
    /// Locked while the handle changes GPUs, and while an object of the runtime is made or destroyed.
    pub moving: Mutex<()>,
    /// Of a stream: events recorded on it before it was on a GPU.
    pub early: Mutex<Vec<&'static Slot>>,
    /// Of such an event: when that was, in nanoseconds of the machine's monotonic clock.
    pub when: AtomicU64,
}

/// [`Slot::priority`]: the runtime's default.
const NO_PRIORITY: i64 = i64::MIN;

/// [`Slot::last`]: not used yet.
pub const NOWHERE: u32 = 0;
/// [`Slot::last`] of an event: recorded before its stream was on any GPU.
pub const BEFORE: u32 = u32::MAX;

/// Slots, in all; addresses only, until they are used.
const SLOTS: usize = 1 << 20;
/// A slot is reused when this many others have been freed after it, so that a handle that is used after
/// its end is recognised and not taken for a new one.
const REST: usize = 1024;

/// Start of the slots, 0 before there is one; and how many were ever used.
static BASE: AtomicUsize = AtomicUsize::new(0);
static USED: AtomicUsize = AtomicUsize::new(0);
static FREE: Mutex<std::collections::VecDeque<&'static Slot>> = Mutex::new(std::collections::VecDeque::new());

fn base() -> Option<usize> {
    match BASE.load(Ordering::Acquire) {
        0 => {}
        base => return Some(base),
    }
    let bytes = SLOTS * size_of::<Slot>();
    // SAFETY: new addresses, with nothing behind them until they are written.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return None;
    }
    match BASE.compare_exchange(0, address as usize, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(address as usize),
        Err(other) => {
            // SAFETY: mapped above, and no other thread has the address.
            unsafe { libc::munmap(address, bytes) };
            Some(other)
        }
    }
}

/// A new slot.
pub fn make(kind: HandleKind, flags: u32, priority: Option<i32>) -> Result<&'static Slot, Own> {
    let mut free = FREE.lock();
    let rested = if free.len() > REST { free.pop_front() } else { None };
    let slot = match rested {
        Some(slot) => slot,
        None => new_slot()?,
    };
    drop(free);
    slot.begin(kind, flags, priority);
    Ok(slot)
}

/// A place that was never used, with a slot that is not alive. The caller holds the lock of [`FREE`].
fn new_slot() -> Result<&'static Slot, Own> {
    let used = USED.load(Ordering::Relaxed);
    let Some(base) = base().filter(|_| used < SLOTS) else {
        return fail(Code::MEMORY_ALLOCATION);
    };
    let place = (base as *mut Slot).wrapping_add(used);
    // SAFETY: the address is in the mapping and aligned, and no thread reads slots from `USED` on.
    let slot = unsafe {
        place.write(Slot {
            is_event: AtomicBool::new(false),
            alive: AtomicBool::new(false),
            flags: AtomicU32::new(0),
            priority: AtomicI64::new(NO_PRIORITY),
            device: AtomicUsize::new(0),
            last: AtomicU32::new(NOWHERE),
            real: OnceLock::new(),
            moving: Mutex::new(()),
            early: Mutex::new(Vec::new()),
            when: AtomicU64::new(0),
        });
        &*place
    };
    USED.store(used + 1, Ordering::Release);
    Ok(slot)
}

/// The slot of a handle; `None`: the handle is the runtime's.
#[inline]
pub fn slot(handle: Handle) -> Option<&'static Slot> {
    let base = BASE.load(Ordering::Acquire);
    let offset = handle.addr().wrapping_sub(base);
    if base == 0 || offset >= USED.load(Ordering::Acquire) * size_of::<Slot>() {
        return None;
    }
    // SAFETY: a slot that was written, and stays.
    offset
        .is_multiple_of(size_of::<Slot>())
        .then(|| unsafe { &*(handle as *const Slot) })
}

/// Whether lazyrt made the handle.
pub fn is_own(handle: Handle) -> bool {
    slot(handle).is_some()
}

/// The living slot of a handle, which must be of that kind. `Ok(None)`: the handle is the runtime's.
#[inline]
pub fn find(handle: Handle, kind: HandleKind) -> Result<Option<&'static Slot>, Own> {
    match slot(handle) {
        None => Ok(None),
        Some(slot) if slot.alive.load(Ordering::Acquire) && slot.kind() == kind => Ok(Some(slot)),
        Some(_) => fail(Code::INVALID_HANDLE),
    }
}

impl Slot {
    /// Becomes a new stream or event. No thread has its handle yet; what the previous one held was
    /// released when it ended.
    fn begin(&'static self, kind: HandleKind, flags: u32, priority: Option<i32>) {
        let device = thread::with(|thread| thread.device());
        self.is_event.store(kind == HandleKind::Event, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.priority
            .store(priority.map_or(NO_PRIORITY, i64::from), Ordering::Relaxed);
        self.device.store(device, Ordering::Relaxed);
        self.when.store(0, Ordering::Relaxed);
        self.early.lock().clear();
        self.last.store(NOWHERE, Ordering::Release);
        // A thread that sees that the slot is alive also sees the other fields.
        self.alive.store(true, Ordering::Release);
    }

    pub fn kind(&self) -> HandleKind {
        if self.is_event.load(Ordering::Relaxed) {
            HandleKind::Event
        } else {
            HandleKind::Stream
        }
    }

    /// As it was made.
    pub fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// The priority that the program asked for, of a stream; `None`: the runtime's default.
    pub fn priority(&self) -> Option<i32> {
        i32::try_from(self.priority.load(Ordering::Relaxed)).ok()
    }

    /// Device of the program that it was made for.
    pub fn device(&self) -> usize {
        self.device.load(Ordering::Relaxed)
    }

    pub fn handle(&'static self) -> Handle {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// What the runtime made of it on that GPU; null if nothing.
    pub fn real(&self, gpu: u32) -> &AtomicPtr<c_void> {
        let all = self.real.get_or_init(|| {
            let gpus = session::gpus().len();
            (0..gpus.max(1))
                .map(|_| AtomicPtr::new(std::ptr::null_mut()))
                .collect()
        });
        &all[(gpu as usize).min(all.len() - 1)]
    }

    /// The GPU where it was used last.
    pub fn at(&self) -> Option<u32> {
        match self.last.load(Ordering::Acquire) {
            NOWHERE | BEFORE => None,
            last => Some(last - 1),
        }
    }

    /// What the runtime made of it on that GPU; null: nothing. Stays so while `moving` is locked.
    pub fn real_if_any(&self, gpu: u32) -> Handle {
        let all = self.real.get();
        all.map_or(std::ptr::null_mut(), |all| {
            all[gpu as usize].load(Ordering::Acquire)
        })
    }

    /// All that the runtime made of it; it has none any more.
    pub fn take_real(&self) -> Vec<Handle> {
        let _moving = self.moving.lock();
        let all = self.real.get().map_or(&[][..], |all| &all[..]);
        all.iter()
            .map(|real| real.swap(std::ptr::null_mut(), Ordering::AcqRel))
            .filter(|real| !real.is_null())
            .collect()
    }

    /// What the runtime made of it on that GPU is gone. An event stays recorded.
    fn context_gone(&self, gpu: u32) {
        if self.real.get().is_none() {
            return;
        }
        let _moving = self.moving.lock();
        self.real(gpu).store(std::ptr::null_mut(), Ordering::Release);
        if self.at() == Some(gpu) {
            self.note_now();
            let last = match self.kind() {
                HandleKind::Stream => NOWHERE,
                HandleKind::Event => BEFORE,
            };
            self.last.store(last, Ordering::Release);
        }
    }

    /// The event is done by now.
    pub fn note_now(&self) {
        self.when.store(clock::now().as_nanos() as u64, Ordering::Relaxed);
    }

    /// Ends the handle. False: it was not alive.
    pub fn retire(&'static self) -> bool {
        if !self.alive.swap(false, Ordering::AcqRel) {
            return false;
        }
        FREE.lock().push_back(self);
        true
    }
}

/// The program's handle for one of the runtime's: the reverse of `translate`.
pub fn program_handle(kind: HandleKind, real: Handle) -> Handle {
    let has_it = |all: &[AtomicPtr<c_void>]| all.iter().any(|one| one.load(Ordering::Acquire) == real);
    let is_it = |slot: &&Slot| {
        slot.alive.load(Ordering::Acquire)
            && slot.kind() == kind
            && slot.real.get().is_some_and(|all| has_it(all))
    };
    all().find(is_it).map_or(real, Slot::handle)
}

/// All slots that were ever used.
pub fn all() -> impl Iterator<Item = &'static Slot> {
    let base = BASE.load(Ordering::Acquire) as *const Slot;
    // SAFETY: slots below USED were written, and stay.
    (0..USED.load(Ordering::Acquire)).map(move |at| unsafe { &*base.wrapping_add(at) })
}

/// The program's device is reset, and all handles made for it are gone.
pub fn forget(device: usize) {
    for slot in all().filter(|slot| slot.device() == device) {
        slot.take_real();
        slot.retire();
    }
}

/// The context on that GPU is gone, with all that the runtime made there; what it had to do was done before.
pub fn context_gone(gpu: u32) {
    for slot in all() {
        slot.context_gone(gpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_told_from_others_and_end() {
        let one = make(HandleKind::Event, 0, None).unwrap();
        let two = make(HandleKind::Stream, 1, Some(-2)).unwrap();
        assert!(find(one.handle(), HandleKind::Event).unwrap().is_some());
        assert_eq!(
            find(one.handle(), HandleKind::Stream).err(),
            Some(Own(Code::INVALID_HANDLE))
        );
        assert!(
            find(two.handle().wrapping_byte_add(8), HandleKind::Stream)
                .unwrap()
                .is_none()
        );
        assert!(find(std::ptr::null_mut(), HandleKind::Stream).unwrap().is_none());
        assert!(find(2 as Handle, HandleKind::Stream).unwrap().is_none());
        assert!(one.retire() && !one.retire());
        assert_eq!(
            find(one.handle(), HandleKind::Event).err(),
            Some(Own(Code::INVALID_HANDLE))
        );
        // Nothing is left of it where a context is gone.
        two.real(0).store(two.handle(), Ordering::Release);
        two.last.store(1, Ordering::Release);
        two.context_gone(0);
        assert!(two.at().is_none() && two.take_real().is_empty());
        // Its place is not used again at once.
        assert_ne!(make(HandleKind::Event, 0, None).unwrap().handle(), one.handle());
    }

    #[test]
    fn a_place_that_is_used_again_leaks_nothing() {
        let own: Vec<_> = (0..=2 * REST)
            .map(|_| {
                let slot = make(HandleKind::Event, 0, None).unwrap();
                let held = slot.real(0) as *const _;
                slot.early.lock().push(slot);
                slot.last.store(BEFORE, Ordering::Release);
                (slot.handle(), held)
            })
            .collect();
        assert!(own.iter().all(|(handle, _)| slot(*handle).unwrap().retire()));
        let mut again = 0;
        for _ in 0..=2 * REST {
            let slot = make(HandleKind::Stream, 1, Some(-3)).unwrap();
            assert_eq!(
                (slot.kind(), slot.flags(), slot.priority()),
                (HandleKind::Stream, 1, Some(-3))
            );
            assert!(slot.early.lock().is_empty() && slot.at().is_none());
            if let Some((_, held)) = own.iter().find(|(handle, _)| *handle == slot.handle()) {
                assert!(
                    std::ptr::eq(slot.real(0), *held),
                    "the memory of the last one was lost"
                );
                again += 1;
            }
        }
        assert!(again > 0);
    }
}
