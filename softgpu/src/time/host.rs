//! The host's side of device time: when work is asked for.
//!
//! Usually that is the wall clock's business, so how soon work follows on work depends on how fast the host
//! is, as on a real node. With `SOFTGPU_SEED` it is modelled too, and the same program sees the same times at
//! every run, on every host: each piece of work costs the host 2 us to ask for, a host function in a stream
//! takes 5 us, waiting takes the host to the end of what it waits for, and nothing else takes time. Work is
//! then done in the order in which it was asked for, whatever stream it is in ([`WorkOrder`]), and lengths vary
//! by up to a twentieth, as the seed has it. That holds for programs with one host thread, and among
//! processes for those that do not share a device; what device code reads from its clocks stays the host's.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Condvar, Mutex};

use super::settings::settings;
use crate::clock;

/// Nanoseconds that the host takes to ask for a piece of work.
const ASKING: u64 = 2_000;

/// Nanoseconds that a function of the program's takes in a stream.
const FUNCTION: u64 = 5_000;

/// The modelled host's clock; zero before it is first asked.
static NOW: AtomicU64 = AtomicU64::new(0);

/// Whether the host's time is modelled.
pub fn modelled() -> bool {
    settings().seed.is_some()
}

/// The moment at which the host asks for work.
pub fn asks() -> u64 {
    if !modelled() {
        return clock::now();
    }
    // The first caller starts the time; later ones find it started.
    let _ = NOW.compare_exchange(0, clock::now(), Relaxed, Relaxed);
    NOW.fetch_add(ASKING, Relaxed) + ASKING
}

/// The host has waited for something that ended then.
pub fn waited(end: u64) {
    if modelled() {
        NOW.fetch_max(end, Relaxed);
    }
}

/// When a function of the program's has ended that began at `ready`.
pub fn called(ready: u64) -> u64 {
    if modelled() {
        ready + FUNCTION
    } else {
        clock::now().max(ready)
    }
}

/// A length as the seed has it: the same for the same work on the same device, within a twentieth of the
/// model's.
pub fn varied(length: u64, device: usize, work: u64) -> u64 {
    match settings().seed {
        Some(seed) => vary(length, mixed(seed ^ mixed(work ^ mixed(device as u64)))),
        None => length,
    }
}

fn vary(length: u64, chance: u64) -> u64 {
    /// Parts of the length, of which up to as many as a tenth are added to 95 %.
    const PARTS: u64 = 1 << 20;
    let part = PARTS * 95 / 100 + chance % (PARTS / 10);
    (u128::from(length) * u128::from(part) / u128::from(PARTS)) as u64
}

/// Spreads bits: what differs in one bit differs in half of them after.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// The order in which all streams' work is done where the host's time is modelled: that in which it was asked
/// for. Work only waits for what was asked for before, so nothing waits in a ring.
#[derive(Debug, Default)]
pub struct WorkOrder {
    given: AtomicU64,
    done: Mutex<u64>,
    changed: Condvar,
}

/// The order of this process.
pub static ORDER: WorkOrder = WorkOrder {
    given: AtomicU64::new(0),
    done: Mutex::new(0),
    changed: Condvar::new(),
};

impl WorkOrder {
    /// The number of a piece of work that is asked for now.
    pub fn number(&self) -> u64 {
        self.given.fetch_add(1, Relaxed)
    }

    /// Whether a piece of work's turn has come.
    pub fn due(&self, number: u64) -> bool {
        *self.done.lock() == number
    }

    /// Does a piece of work when its turn has come.
    pub fn run<T>(&self, number: u64, work: impl FnOnce() -> T) -> T {
        let mut done = self.done.lock();
        while *done < number {
            self.changed.wait(&mut done);
        }
        drop(done);
        let result = work();
        *self.done.lock() += 1;
        self.changed.notify_all();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_vary_within_a_twentieth_and_by_everything() {
        let lengths: std::collections::BTreeSet<u64> =
            (0..100).map(|chance| vary(1_000_000, mixed(chance))).collect();
        assert!(lengths.len() > 90);
        assert!(
            lengths
                .iter()
                .all(|length| (950_000..=1_050_000).contains(length))
        );
        assert_eq!(vary(0, 5), 0);
    }

    #[test]
    fn work_is_done_in_the_order_of_its_numbers() {
        let order = WorkOrder::default();
        let numbers: Vec<u64> = (0..8).map(|_| order.number()).collect();
        let seen = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for &number in numbers.iter().rev() {
                let (order, seen) = (&order, &seen);
                scope.spawn(move || order.run(number, || seen.lock().push(number)));
            }
        });
        assert_eq!(seen.into_inner(), numbers);
    }
}
