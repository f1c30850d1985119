//! Holds at the launch: while others are to have a GPU, a thread that is about to launch on it sleeps; while
//! they may come to want it, what is in flight there is bounded (`window`).
//!
//! mgbd asks for it by a word in the channel. However long it asks, and whatever becomes of it, a thread
//! sleeps for [`HOLD_TIMEOUT`] at most unless mgbd says it anew, and the process has half of each second for
//! itself (`HoldBudget`). Asked before the gate, never inside: a thread that sleeps there would keep memory
//! from leaving its GPU. A process that captures is not held, since a capture in one thread may wait for
//! another.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use mgb_probe::wire::{MAX_GPUS, PaceWords};
use mgb_probe::{Bursts, Class, Client};
use parking_lot::Mutex;

use crate::driver::Driver;
use crate::{captures, urgent};

mod events;
mod in_flight;
mod times;
mod window;

use window::WINDOW_TIMEOUT;

/// How long a thread is held where mgbd says nothing anew.
pub const HOLD_TIMEOUT: Duration = Duration::from_millis(20);

/// The time for which a process may be held on a GPU. It grows by [`HoldBudget::RATE`] of the time, up to
/// [`HoldBudget::MOST`], and what holds last is taken from it: so in any second a process is held for half of
/// it at most, however the holds lie.
#[derive(Clone, Copy, Debug)]
struct HoldBudget {
    left: Duration,
    at: Option<Instant>,
}

impl HoldBudget {
    const MOST: Duration = Duration::from_millis(100);
    /// In thousandths: with what may be left from before, half a second in a second.
    const RATE: u32 = 400;

    /// What is left now. `held`: what it was held for since the last time that this was asked.
    fn take(&mut self, held: Duration, now: Instant) -> Duration {
        let since = self
            .at
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let grown = self.left + since * HoldBudget::RATE / 1000;
        self.left = grown.saturating_sub(held).min(HoldBudget::MOST);
        self.at = Some(now);
        self.left
    }
}

/// What is known of the holds of a GPU.
#[derive(Clone, Copy, Debug)]
struct GpuHold {
    budget: HoldBudget,
    /// The last word of mgbd's, and since when it stands.
    word: Option<(u64, Instant)>,
    /// Threads that are held, and until when their time is taken from the budget.
    held: u32,
    charged: Instant,
}

impl GpuHold {
    fn new(now: Instant) -> GpuHold {
        GpuHold {
            budget: HoldBudget {
                left: HoldBudget::MOST,
                at: None,
            },
            word: None,
            held: 0,
            charged: now,
        }
    }

    /// How long a thread may sleep by this word of mgbd's; zero: it goes on.
    fn limit(&mut self, word: u64, now: Instant) -> Duration {
        let since = match self.word {
            Some((known, since)) if known == word => since,
            _ => {
                self.word = Some((word, now));
                now
            }
        };
        let left = self.charge(now);
        HOLD_TIMEOUT
            .saturating_sub(now.saturating_duration_since(since))
            .min(left)
    }

    /// Takes the time that threads were held from the budget, once for all of them; what is left.
    fn charge(&mut self, now: Instant) -> Duration {
        let held = if self.held > 0 {
            now.saturating_duration_since(self.charged)
        } else {
            Duration::ZERO
        };
        self.charged = now;
        self.budget.take(held, now)
    }
}

static WORDS: AtomicPtr<PaceWords> = AtomicPtr::new(std::ptr::null_mut());
static GPUS: Mutex<[Option<GpuHold>; MAX_GPUS]> = Mutex::new([None; MAX_GPUS]);
/// How to find the driver, once it is there.
static DRIVER: OnceLock<fn() -> Option<&'static Driver>> = OnceLock::new();

/// From here on the client's words are obeyed. `driver` finds the driver, once there is a context.
pub fn obey(words: &'static PaceWords, driver: fn() -> Option<&'static Driver>) {
    let _ = DRIVER.set(driver);
    WORDS.store(std::ptr::from_ref(words).cast_mut(), Ordering::Release);
}

#[inline]
fn words() -> Option<&'static PaceWords> {
    // SAFETY: null, or what `obey` was given, which lives as long as the process.
    unsafe { WORDS.load(Ordering::Relaxed).as_ref() }
}

/// A launch is about to happen, on the GPU that `gpu` tells if it is asked. The caller is outside the gate
/// and holds no lock.
#[inline]
pub fn before_launch(gpu: impl FnOnce() -> Option<u32>) {
    urgent::approaches();
    hold(gpu);
}

#[inline]
fn hold(gpu: impl FnOnce() -> Option<u32>) {
    if let Some(words) = words()
        && words.is_any()
    {
        obeyed(words, gpu());
    }
}

/// Bytes from which a copy or set is held as a launch is: a smaller one is over before a hold would be.
pub const LARGE_COPY: u64 = 1 << 20;

/// A copy or set of so many bytes is about to happen. Outside the gate and without a lock, as
/// [`before_launch`].
#[inline]
pub fn before_copy(bytes: u64, gpu: impl FnOnce() -> Option<u32>) {
    if bytes >= LARGE_COPY {
        hold(gpu);
    }
}

#[cold]
fn obeyed(words: &PaceWords, gpu: Option<u32>) {
    let Some(gpu) = gpu.filter(|&gpu| words.is_paced(gpu) && (gpu as usize) < MAX_GPUS) else {
        return;
    };
    // A capture in one thread may wait for another, and an event in it would become a part of it.
    if captures::any() {
        return;
    }
    // That a thread was held says nothing of what is in flight.
    let mut until = None;
    loop {
        if wait_while_held(words, gpu) {
            until = None;
        }
        if !words.is_paced(gpu) || in_flight::has_room(gpu) || captures::any() {
            return;
        }
        let now = Instant::now();
        if in_flight::admits(gpu, now, now >= *until.get_or_insert(now + WINDOW_TIMEOUT)) {
            return;
        }
        // What is in flight is over within tens of microseconds: sleeping would take longer than that.
        std::thread::yield_now();
    }
}

/// What the trace is to say: the class of the process, the nanoseconds for which its launches were held,
/// and how long its bursts took.
pub fn for_trace(client: &Client) -> (Class, u64, Option<Bursts>) {
    let paused = client.pace().held().as_nanos();
    (
        client.class(),
        u64::try_from(paused).unwrap_or(u64::MAX),
        client.bursts().bursts(),
    )
}

/// Something was launched: `key` tells kernels and their grids apart, by the times that they take.
#[inline]
pub fn launched(gpu: u32, stream: usize, key: impl FnOnce() -> u64) {
    if let Some(words) = words()
        && words.is_any()
        && words.is_paced(gpu)
    {
        words.note_launch();
        note_launch(gpu, stream, key());
    }
}

#[cold]
fn note_launch(gpu: u32, stream: usize, key: u64) {
    if !captures::any() {
        in_flight::launched(gpu, stream, key, || DRIVER.get().and_then(|driver| driver()));
    }
}

/// Contexts of this process are about to end, and all that is in flight in them. The caller keeps other
/// threads from launching meanwhile.
pub fn contexts_end() {
    events::contexts_end();
}

/// What tells a kernel with a grid of so many blocks from others.
pub fn key(kernel: u64, blocks: u64) -> u64 {
    kernel.rotate_left(17) ^ blocks
}

/// Whether a program that others wait for is on one of the GPUs of this process.
pub fn is_any() -> bool {
    words().is_some_and(PaceWords::is_any)
}

/// Whether a launch on the GPU would be held now. Work that can stop half-way stops for it, and is held at
/// its next launch.
pub fn would_hold(gpu: u32) -> bool {
    let Some(words) = words().filter(|words| words.is_any() && (gpu as usize) < MAX_GPUS) else {
        return false;
    };
    let word = words
        .hold(gpu)
        .filter(|_| words.is_paced(gpu) && !captures::any());
    word.is_some_and(|word| !change(gpu, |hold, now| hold.limit(word, now)).is_zero())
}

/// Sleeps as long as it is to; whether it slept at all.
fn wait_while_held(words: &PaceWords, gpu: u32) -> bool {
    let mut began = None;
    while let Some(word) = words.hold(gpu) {
        let limit = change(gpu, |hold, now| {
            let limit = hold.limit(word, now);
            hold.held += u32::from(!limit.is_zero());
            limit
        });
        if limit.is_zero() {
            break;
        }
        began.get_or_insert_with(Instant::now);
        words.sleep(gpu, limit);
        change(gpu, |hold, now| {
            hold.charge(now);
            hold.held -= 1;
        });
    }
    if let Some(began) = began {
        words.note_held(began.elapsed());
    }
    began.is_some()
}

fn change<R>(gpu: u32, change: impl FnOnce(&mut GpuHold, Instant) -> R) -> R {
    let mut gpus = GPUS.lock();
    let now = Instant::now();
    change(gpus[gpu as usize].get_or_insert_with(|| GpuHold::new(now)), now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn half_of_any_second_is_the_processs_own() {
        // Holds of every length and distance; the time that is held in each second that begins with one.
        for length in [1, 3, 10, 19, 20] {
            for pause in [0, 1, 5, 40, 300] {
                let start = Instant::now();
                let mut hold = GpuHold::new(start);
                let (mut now, mut word, mut held) = (start, 0, Vec::new());
                while now < start + 2500 * MS {
                    word += 1;
                    let limit = hold.limit(word, now).min(length * MS);
                    if !limit.is_zero() {
                        hold.held = 1;
                        held.push((now - start, limit));
                        now += limit;
                        hold.charge(now);
                        hold.held = 0;
                    }
                    now += pause.max(u32::from(limit.is_zero())) * MS;
                }
                assert!(!held.is_empty());
                for (first, _) in &held {
                    let within = held
                        .iter()
                        .filter(|(at, _)| at >= first && *at < *first + 1000 * MS);
                    let sum: Duration = within.map(|(_, length)| *length).sum();
                    // The last one may end beyond the second.
                    assert!(
                        sum <= 500 * MS + HOLD_TIMEOUT,
                        "{length} ms, {pause} ms between: {sum:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn who_is_told_nothing_anew_goes_on() {
        let start = Instant::now();
        let mut hold = GpuHold::new(start);
        assert_eq!(hold.limit(1, start), HOLD_TIMEOUT);
        assert_eq!(hold.limit(1, start + 15 * MS), 5 * MS);
        assert_eq!(hold.limit(1, start + 20 * MS), Duration::ZERO);
        assert_eq!(hold.limit(1, start + 5000 * MS), Duration::ZERO);
        assert_eq!(hold.limit(2, start + 5000 * MS), HOLD_TIMEOUT);
    }

    #[test]
    fn threads_that_are_held_together_are_charged_once() {
        let start = Instant::now();
        let mut hold = GpuHold::new(start);
        hold.limit(1, start);
        hold.held = 32;
        let left = hold.charge(start + 10 * MS);
        assert_eq!(left, HoldBudget::MOST - 6 * MS);
        assert_eq!(hold.charge(start + 10 * MS), left);
    }
}
