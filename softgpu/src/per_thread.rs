//! State of each host thread that lasts as long as code of the program runs on it.
//!
//! The destructors of C++'s `thread_local` objects may call CUDA, and so may what `atexit` has on the main thread.
//! Rust's own thread locals are gone by then, if a call made them later than those objects. The C library ends the
//! values of its keys behind all of that.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value for each thread, made at its first use.
pub struct PerThread<T> {
    /// `None`: the process has no more keys.
    key: OnceLock<Option<libc::pthread_key_t>>,
    values: PhantomData<fn() -> T>,
}

unsafe extern "C" fn end<T>(value: *mut c_void) {
    // SAFETY: the thread's value, made by `with`; the C library has forgotten it.
    drop(unsafe { Box::from_raw(value.cast::<RefCell<T>>()) });
}

impl<T: Default + 'static> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        PerThread::new()
    }
}

impl<T: Default + 'static> PerThread<T> {
    /// No thread has a value yet.
    pub const fn new() -> PerThread<T> {
        PerThread {
            key: OnceLock::new(),
            values: PhantomData,
        }
    }

    /// Runs `body` with the calling thread's value. In a process without a key for it, with a new one.
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let Some(key) = *self.key.get_or_init(Self::make_key) else {
            return body(&mut T::default());
        };
        // SAFETY: a key of this process; its values are those that are set below.
        let mut value = unsafe { libc::pthread_getspecific(key) }.cast::<RefCell<T>>();
        if value.is_null() {
            value = Box::into_raw(Box::<RefCell<T>>::default());
            // SAFETY: as above. The value is a box of the key's type, which `end` takes.
            unsafe { libc::pthread_setspecific(key, value.cast()) };
        }
        // SAFETY: the thread's own value, which lives until the thread's end.
        let value = unsafe { &*value };
        body(&mut value.borrow_mut())
    }

    fn make_key() -> Option<libc::pthread_key_t> {
        let mut key = 0;
        // SAFETY: writes one key. The library is never unloaded (it is linked with `-z nodelete`), so the function
        // is there when threads end.
        (unsafe { libc::pthread_key_create(&mut key, Some(end::<T>)) } == 0).then_some(key)
    }
}

/// A number that no other thread of the process has had.
pub fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        // Without a destructor, so that it can be read until the very end of the thread.
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    static ENDED: AtomicUsize = AtomicUsize::new(0);

    #[derive(Default)]
    struct CountedDrop(u32);

    impl Drop for CountedDrop {
        fn drop(&mut self) {
            ENDED.fetch_add(self.0 as usize, Ordering::SeqCst);
        }
    }

    #[test]
    fn each_thread_has_its_own_until_it_ends() {
        static VALUES: PerThread<CountedDrop> = PerThread::new();
        VALUES.with(|value| value.0 = 100);
        for _ in 0..3 {
            let other = std::thread::spawn(|| {
                VALUES.with(|value| value.0 += 1);
                VALUES.with(|value| value.0)
            });
            assert_eq!(other.join().unwrap(), 1);
        }
        assert_eq!(ENDED.load(Ordering::SeqCst), 3);
        assert_eq!(VALUES.with(|value| value.0), 100);
        let other = std::thread::spawn(number).join().unwrap();
        assert!(number() == number() && number() != other);
    }
}
