//! The gate: threads pass through it into native calls, and a swap closes it.
//!
//! Entering must cost next to nothing. So each thread has a slot of its own: it marks the slot and then
//! checks whether the gate is closed. A thread that closes the gate marks it closed and then checks the
//! slots. At least one side sees the other, because a fence stands between the two steps on both sides.
//! Where the system has `membarrier`, the closing thread puts that fence into all threads, and entering
//! is two plain instructions. No lock is shared on that path.
//!
//! A trampoline jumps into the real function and never comes back, so such a thread only leaves a note
//! that it may be inside ([`note_passing`]); its next call takes the note back. While another thread has
//! one, the gate cannot be closed.

use std::cell::{Cell, OnceCell};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence};
use std::time::{Duration, Instant};

use parking_lot::lock_api::RawMutex as _;
use parking_lot::{Condvar, Mutex, MutexGuard, RawMutex};

/// What one thread publishes for the thread that closes the gate. A cache line of its own: only its thread
/// writes it when it enters.
#[repr(align(64))]
struct ThreadSlot {
    /// The thread is in a native call.
    inside: AtomicBool,
    /// The thread has jumped into a native function, and nobody sees it return.
    passing: AtomicBool,
    /// The slot belongs to a living thread.
    taken: AtomicBool,
}

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED`, and the registration that it takes.
const FENCE_ALL: i32 = 1 << 3;
const REGISTER: i32 = 1 << 4;

/// Whether [`FENCE_ALL`] is available. Set before any thread relies on it, and never reset.
static FENCED_BY_CLOSER: AtomicBool = AtomicBool::new(false);
static CLOSED: AtomicU32 = AtomicU32::new(0);
static SLOTS: Mutex<Vec<&'static ThreadSlot>> = Mutex::new(Vec::new());
static CLOSERS: Mutex<()> = Mutex::new(());
/// How many threads wait for the gate to open, and what they wait on.
static OPENED: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());
/// A thread has come to wait.
static WANTED: Condvar = Condvar::new();

/// Gives the slot to another thread when this one ends.
struct Lease(&'static ThreadSlot);

impl Drop for Lease {
    fn drop(&mut self) {
        SLOT.set(None);
        self.0.passing.store(false, Ordering::SeqCst);
        self.0.taken.store(false, Ordering::Release);
    }
}

thread_local! {
    /// A plain cell, so that it can be read until the very end of the thread.
    static SLOT: Cell<Option<&'static ThreadSlot>> = const { Cell::new(None) };
    static LEASE: OnceCell<Lease> = const { OnceCell::new() };
}

fn membarrier(command: i32) -> bool {
    // SAFETY: a number, no flags, no CPU; it touches no memory of the process.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Whether the system has what [`prepare`] asks for. Changes nothing.
pub fn has_membarrier() -> bool {
    // SAFETY: the command 0 asks which commands there are; no flags, no CPU.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) };
    let wanted = i64::from(REGISTER | FENCE_ALL);
    commands >= 0 && commands & wanted == wanted
}

/// Before the process's first op, and so before the driver has made threads: with threads, to register takes
/// the system tens of milliseconds.
pub fn prepare() {
    static ONCE: Once = Once::new();
    // SAFETY: the handlers are functions of this library, which stays loaded, and allocate nothing.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before_fork), Some(after_fork_here), Some(after_fork));
    });
    if membarrier(REGISTER) && membarrier(FENCE_ALL) {
        FENCED_BY_CLOSER.store(true, Ordering::SeqCst);
    }
}

/// No other thread changes the slots as the process forks: the child could not take one.
extern "C" fn before_fork() {
    std::mem::forget(SLOTS.lock());
}

extern "C" fn after_fork_here() {
    // SAFETY: locked by this thread, in `before_fork`.
    unsafe { SLOTS.force_unlock() };
}

/// A child has no thread that could open the gate. Its lock is made anew instead of unlocked: where others
/// wait for it that takes a lock of parking_lot's own, which a thread may have had that the child has not.
extern "C" fn after_fork() {
    // SAFETY: the child's only thread has it locked, since `before_fork`; it is an atomic number.
    unsafe { std::ptr::from_ref(SLOTS.raw()).cast_mut().write(RawMutex::INIT) };
    CLOSED.store(0, Ordering::SeqCst);
}

#[cold]
fn new_slot() -> &'static ThreadSlot {
    let mut slots = SLOTS.lock();
    let free = slots.iter().copied().find(|slot| {
        slot.taken
            .compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    });
    let slot = free.unwrap_or_else(|| {
        let slot: &'static ThreadSlot = Box::leak(Box::new(ThreadSlot {
            inside: AtomicBool::new(false),
            passing: AtomicBool::new(false),
            taken: AtomicBool::new(true),
        }));
        slots.push(slot);
        slot
    });
    drop(slots);
    SLOT.set(Some(slot));
    // In a thread that is ending the lease cannot be kept any more; its slot then stays taken.
    let _ = LEASE.try_with(|lease| lease.set(Lease(slot)));
    slot
}

/// A thread inside the gate: nothing is unmapped under it.
pub struct Inside(&'static ThreadSlot);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.store(false, Ordering::Release);
    }
}

/// Enters; waits while the gate is closed. The caller holds no lock that the closing thread may need, and
/// takes none inside.
#[inline]
pub fn enter() -> Inside {
    let slot = SLOT.get().unwrap_or_else(new_slot);
    if slot.passing.load(Ordering::Relaxed) {
        slot.passing.store(false, Ordering::SeqCst);
    }
    if !try_enter(slot) {
        wait_and_enter(slot);
    }
    Inside(slot)
}

#[inline]
fn try_enter(slot: &ThreadSlot) -> bool {
    if FENCED_BY_CLOSER.load(Ordering::Relaxed) {
        slot.inside.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    } else {
        slot.inside.store(true, Ordering::SeqCst);
    }
    if CLOSED.load(Ordering::SeqCst) == 0 {
        return true;
    }
    slot.inside.store(false, Ordering::SeqCst);
    false
}

#[cold]
fn wait_and_enter(slot: &ThreadSlot) {
    loop {
        let mut waiting = OPENED.0.lock();
        *waiting += 1;
        WANTED.notify_all();
        while CLOSED.load(Ordering::SeqCst) != 0 {
            OPENED.1.wait(&mut waiting);
        }
        *waiting -= 1;
        drop(waiting);
        if try_enter(slot) {
            return;
        }
    }
}

/// Notes that this thread is about to jump into a function that looks at memory objects. Called inside.
pub fn note_passing(inside: &Inside) {
    inside.0.passing.store(true, Ordering::SeqCst);
}

/// Notes that this thread has returned.
pub fn note_return() {
    if let Some(slot) = SLOT.get()
        && slot.passing.load(Ordering::Relaxed)
    {
        slot.passing.store(false, Ordering::SeqCst);
    }
}

/// The closed gate: no other thread is inside.
pub struct Closed {
    _only: MutexGuard<'static, ()>,
}

impl Closed {
    /// Waits until another thread waits for the gate to open, `limit` at most. False: none does.
    pub fn is_wanted(&self, limit: Duration) -> bool {
        let mut waiting = OPENED.0.lock();
        *waiting > 0 || !WANTED.wait_for(&mut waiting, limit).timed_out()
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        let waiting = OPENED.0.lock();
        CLOSED.store(0, Ordering::SeqCst);
        OPENED.1.notify_all();
        drop(waiting);
    }
}

/// Why the gate is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Some thread may be in a call that cannot be waited for, or the system has come to refuse what it
    /// takes.
    ForGood,
    /// A thread was inside all the time, perhaps for work that waits for what another thread is to send.
    Still,
}

/// Closes the gate once every other thread has left it. The caller is outside and holds no lock that
/// threads inside may need.
pub fn close() -> Option<Closed> {
    close_until(None).ok()
}

/// Closes the gate as [`close`] does, but gives up after `limit`. Meanwhile no thread gets in.
pub fn close_within(limit: Duration) -> Result<Closed, Open> {
    close_until(Some(Instant::now() + limit))
}

fn close_until(until: Option<Instant>) -> Result<Closed, Open> {
    let own = SLOT.get();
    note_return();
    let only = match until {
        // Whoever has closed it may leave it so for long.
        Some(until) => CLOSERS.try_lock_until(until).ok_or(Open::Still)?,
        None => CLOSERS.lock(),
    };
    CLOSED.store(1, Ordering::SeqCst);
    let closed = Closed { _only: only };
    if FENCED_BY_CLOSER.load(Ordering::SeqCst) && !membarrier(FENCE_ALL) {
        return Err(Open::ForGood);
    }
    let others: Vec<&'static ThreadSlot> = SLOTS
        .lock()
        .iter()
        .copied()
        .filter(|slot| own.is_none_or(|own| !std::ptr::eq(own, *slot)))
        .collect();
    let mut rounds = 0u32;
    for slot in others {
        while slot.inside.load(Ordering::SeqCst) {
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(Open::Still);
            }
            rounds += 1;
            if rounds < 100 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        if slot.passing.load(Ordering::SeqCst) {
            return Err(Open::ForGood);
        }
    }
    Ok(closed)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn nobody_is_inside_while_it_is_closed() {
        static INSIDE: AtomicU64 = AtomicU64::new(0);
        static STOP: AtomicBool = AtomicBool::new(false);
        let (there, gone) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !STOP.load(Ordering::Relaxed) {
                        let _inside = enter();
                        INSIDE.fetch_add(1, Ordering::SeqCst);
                        std::hint::spin_loop();
                        INSIDE.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
            for _ in 0..200 {
                let closed = close().expect("nobody passes");
                assert_eq!(INSIDE.load(Ordering::SeqCst), 0);
                drop(closed);
            }
            // A thread that went on into a call of its own keeps the gate open until it is back.
            scope.spawn(|| {
                note_passing(&enter());
                there.wait();
                gone.wait();
                note_return();
                there.wait();
            });
            there.wait();
            assert!(close().is_none());
            let limit = Duration::from_secs(60);
            assert_eq!(close_within(limit).err(), Some(Open::ForGood));
            gone.wait();
            there.wait();
            assert!(close().is_some());
            // One that stays inside is not waited for any longer than that, and the gate is open afterwards.
            let stays = scope.spawn(|| {
                let inside = enter();
                there.wait();
                gone.wait();
                drop(inside);
            });
            there.wait();
            assert_eq!(close_within(Duration::from_millis(5)).err(), Some(Open::Still));
            assert_eq!(CLOSED.load(Ordering::SeqCst), 0);
            gone.wait();
            stays.join().expect("it ends");
            STOP.store(true, Ordering::Relaxed);
        });
        a_child_gets_through();
        children_get_through_while_others_wait_for_slots();
    }

    /// Whatever the other threads are about as they are forked.
    fn children_get_through_while_others_wait_for_slots() {
        static STOP: AtomicBool = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..24 {
                scope.spawn(|| {
                    while !STOP.load(Ordering::Relaxed) {
                        drop(SLOTS.lock());
                    }
                });
            }
            for _ in 0..2000 {
                // SAFETY: the child ends at once, without any clean-up.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: as above.
                    unsafe { libc::_exit(0) };
                }
                let until = Instant::now() + Duration::from_secs(30);
                // SAFETY: this process's own child.
                while unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) } == 0 {
                    if Instant::now() > until {
                        STOP.store(true, Ordering::Relaxed);
                        // SAFETY: as above; not waited for yet.
                        unsafe { libc::kill(child, libc::SIGKILL) };
                        panic!("a child hangs");
                    }
                    std::thread::yield_now();
                }
            }
            STOP.store(true, Ordering::Relaxed);
        });
    }

    /// Which was forked while the gate was closed: nobody would open it there.
    fn a_child_gets_through() {
        prepare();
        let _closed = close().expect("nobody passes");
        // Another thread that would close it gives up as well.
        let limit = Duration::from_millis(5);
        let other = std::thread::scope(|scope| scope.spawn(|| close_within(limit).err()).join());
        assert_eq!(other.expect("it ends"), Some(Open::Still));
        // SAFETY: the child only enters, and ends without any clean-up.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; the alarm ends a child that waits for ever.
            unsafe {
                libc::alarm(20);
                let _inside = enter();
                libc::_exit(0);
            }
        }
        let mut status = -1;
        // SAFETY: this process's own child.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
    }
}
