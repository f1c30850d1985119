//! Copies between a GPU and ordinary host memory, as fast as the link allows.
//!
//! The driver copies pageable memory through a small buffer of its own, with one thread, at a fifth of the
//! link's speed. So bytes go through a ring of pinned slots: while the GPU fills or empties some, threads copy
//! the others from or to the host memory, where new pages are paid by these threads as well.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

/// Bytes of a slot.
pub const SLOT: usize = 8 << 20;
/// Slots of the ring.
pub const SLOTS: usize = 8;
/// Threads that copy in the host, at most.
const THREADS: usize = 6;

/// The calls of CUDA's that such a copy takes, on one GPU. A slot has a stream of its own.
pub trait Link {
    /// Why a call failed.
    type Failure: Copy;

    /// Begins to copy from the GPU to host memory, in the slot's stream.
    ///
    /// # Errors
    /// The call's.
    fn begin_out(&self, slot: usize, to: *mut u8, from: u64, bytes: usize) -> Result<(), Self::Failure>;

    /// Begins to copy from host memory to the GPU, in the slot's stream.
    ///
    /// # Errors
    /// The call's.
    fn begin_back(&self, slot: usize, to: u64, from: *const u8, bytes: usize) -> Result<(), Self::Failure>;

    /// Waits until the slot's copy is done.
    ///
    /// # Errors
    /// The call's, or that of the copy.
    fn wait(&self, slot: usize) -> Result<(), Self::Failure>;
}

/// Pinned memory of `SLOTS * SLOT` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Ring(usize);

impl Ring {
    /// # Safety
    /// `start` is the start of so much pinned memory, which nobody else uses, and which
    /// outlives all uses of the ring.
    pub unsafe fn new(start: *mut u8) -> Ring {
        Ring(start as usize)
    }

    fn slot(self, slot: usize) -> *mut u8 {
        (self.0 + slot * SLOT) as *mut u8
    }
}

/// A copy within host memory, and the slot that it is of.
struct Job {
    to: usize,
    from: usize,
    bytes: usize,
    slot: usize,
}

/// A ring with its threads, for one thread's copies.
pub struct Pump<L: Link> {
    link: L,
    ring: Ring,
    /// `None` as the pump ends.
    jobs: Option<Sender<Job>>,
    done: Receiver<usize>,
    threads: Vec<JoinHandle<()>>,
}

impl<L: Link> Pump<L> {
    /// Starts the threads. `None`: the system has none.
    pub fn new(link: L, ring: Ring) -> Option<Pump<L>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (jobs, queue) = channel();
        let (finished, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let start = |_| {
            let (queue, finished) = (queue.clone(), finished.clone());
            let thread = std::thread::Builder::new().name("mgb-copy".to_owned());
            thread.spawn(move || work(&queue, &finished)).ok()
        };
        let threads: Vec<JoinHandle<()>> = (0..(cores / 2).clamp(1, THREADS)).filter_map(start).collect();
        (!threads.is_empty()).then_some(Pump {
            link,
            ring,
            jobs: Some(jobs),
            done,
            threads,
        })
    }

    /// Copies from the GPU to host memory.
    ///
    /// # Errors
    /// The link's; what is in `to` is undefined then.
    pub fn out(&self, to: &mut [u8], from: u64) -> Result<(), L::Failure> {
        let start = to.as_mut_ptr() as usize;
        let mut failed = Ok(());
        let mut next = 0;
        let mut free: Vec<usize> = (0..SLOTS).collect();
        // What the GPU fills: slot, place and bytes. And what threads empty.
        let mut filling: VecDeque<(usize, usize, usize)> = VecDeque::new();
        let mut emptying = 0;
        loop {
            while failed.is_ok()
                && next < to.len()
                && let Some(slot) = free.pop()
            {
                let bytes = SLOT.min(to.len() - next);
                failed = self
                    .link
                    .begin_out(slot, self.ring.slot(slot), from + next as u64, bytes);
                filling.push_back((slot, next, bytes));
                next += bytes;
            }
            if let Some((slot, place, bytes)) = filling.pop_front() {
                let filled = self.link.wait(slot);
                failed = failed.and(filled);
                if failed.is_ok() {
                    self.give(Job {
                        to: start + place,
                        from: self.ring.slot(slot) as usize,
                        bytes,
                        slot,
                    });
                    emptying += 1;
                }
            } else if emptying > 0 {
                emptying -= self.collect(&mut free, true);
            } else if failed.is_err() || next == to.len() {
                return failed;
            }
            emptying -= self.collect(&mut free, false);
        }
    }

    /// Copies from host memory to the GPU.
    ///
    /// # Errors
    /// The link's; what is at `to` is undefined then.
    pub fn back(&self, to: u64, from: &[u8]) -> Result<(), L::Failure> {
        let start = from.as_ptr() as usize;
        let mut failed = Ok(());
        let mut next = 0;
        let mut free: Vec<usize> = (0..SLOTS).collect();
        let mut places = [(0, 0); SLOTS];
        // What threads fill, and what the GPU empties.
        let mut filling = 0;
        let mut emptying: VecDeque<usize> = VecDeque::new();
        loop {
            while failed.is_ok()
                && next < from.len()
                && let Some(slot) = free.pop()
            {
                let bytes = SLOT.min(from.len() - next);
                places[slot] = (next, bytes);
                self.give(Job {
                    to: self.ring.slot(slot) as usize,
                    from: start + next,
                    bytes,
                    slot,
                });
                filling += 1;
                next += bytes;
            }
            if filling > 0 {
                let mut filled = Vec::new();
                filling -= self.collect(&mut filled, true);
                for slot in filled {
                    let (place, bytes) = places[slot];
                    if failed.is_ok() {
                        failed = self
                            .link
                            .begin_back(slot, to + place as u64, self.ring.slot(slot), bytes);
                    }
                    emptying.push_back(slot);
                }
            }
            // A slot that may be used again, or all of them at the end.
            let is_last = next == from.len() || failed.is_err();
            if (free.is_empty() || is_last && filling == 0)
                && let Some(slot) = emptying.pop_front()
            {
                let emptied = self.link.wait(slot);
                failed = failed.and(emptied);
                free.push(slot);
            }
            if is_last && filling == 0 && emptying.is_empty() {
                return failed;
            }
        }
    }

    fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The threads live as long as the pump.
            let _ = jobs.send(job);
        }
    }

    /// Takes the slots whose copies in the host are done; waits for one if `waits`. How many.
    fn collect(&self, slots: &mut Vec<usize>, waits: bool) -> usize {
        let before = slots.len();
        if waits && let Ok(slot) = self.done.recv() {
            slots.push(slot);
        }
        slots.extend(self.done.try_iter());
        slots.len() - before
    }
}

impl<L: Link> Drop for Pump<L> {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(queue: &Mutex<Receiver<Job>>, finished: &Sender<usize>) {
    loop {
        let job = queue.lock().recv();
        let Ok(Job {
            to,
            from,
            bytes,
            slot,
        }) = job
        else {
            return;
        };
        // SAFETY: a slot of the ring, which is used by this job alone until it is reported, and a part of the
        // memory that the caller of `out` or `back` has lent until all jobs are reported.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
        if finished.send(slot).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A GPU whose memory is the host's, and whose calls fail from one on.
    struct Near {
        calls: Cell<u32>,
        fails_at: u32,
    }

    impl Near {
        fn call(&self) -> Result<(), u32> {
            self.calls.set(self.calls.get() + 1);
            if self.calls.get() >= self.fails_at {
                Err(self.calls.get())
            } else {
                Ok(())
            }
        }
    }

    impl Link for Near {
        type Failure = u32;

        fn begin_out(&self, _: usize, to: *mut u8, from: u64, bytes: usize) -> Result<(), u32> {
            self.call()?;
            // SAFETY: the test's memory.
            unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to, bytes) };
            Ok(())
        }

        fn begin_back(&self, _: usize, to: u64, from: *const u8, bytes: usize) -> Result<(), u32> {
            self.call()?;
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(from, to as *mut u8, bytes) };
            Ok(())
        }

        fn wait(&self, _: usize) -> Result<(), u32> {
            self.call()
        }
    }

    fn pump(fails_at: u32) -> Pump<Near> {
        let memory = Box::leak(vec![0u8; SLOTS * SLOT].into_boxed_slice());
        // SAFETY: leaked.
        let ring = unsafe { Ring::new(memory.as_mut_ptr()) };
        let calls = Cell::new(0);
        Pump::new(Near { calls, fails_at }, ring).expect("there are threads")
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| ((at * 31) >> 7) as u8 ^ at as u8).collect()
    }

    #[test]
    fn all_bytes_arrive() {
        let pump = pump(u32::MAX);
        for count in [0, 1, SLOT - 1, SLOT, SLOT + 1, 3 * SLOT, (SLOTS + 3) * SLOT + 5] {
            let gpu = bytes(count);
            let mut host = vec![0; count];
            assert_eq!(pump.out(&mut host, gpu.as_ptr() as u64), Ok(()));
            assert!(host == gpu, "{count} out");
            let back = vec![0u8; count];
            assert_eq!(pump.back(back.as_ptr() as u64, &host), Ok(()));
            assert!(back == gpu, "{count} back");
        }
    }

    #[test]
    fn a_failure_ends_it_with_nothing_under_way() {
        let count = (SLOTS + 2) * SLOT;
        let gpu = bytes(count);
        for fails_at in 1..=2 * (SLOTS as u32 + 2) {
            let mut host = vec![0; count];
            assert!(
                pump(fails_at).out(&mut host, gpu.as_ptr() as u64).is_err(),
                "{fails_at}"
            );
            let back = vec![0u8; count];
            assert!(
                pump(fails_at).back(back.as_ptr() as u64, &gpu).is_err(),
                "{fails_at}"
            );
        }
        assert_eq!(
            pump(2 * (SLOTS as u32 + 2) + 1).out(&mut vec![0; count], gpu.as_ptr() as u64),
            Ok(())
        );
    }
}
