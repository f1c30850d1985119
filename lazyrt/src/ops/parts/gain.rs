//! Whether it pays to launch a kernel's twin: one that is over soon need not be stopped, and one that
//! nobody may want to be stopped does without the twin's cost.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::time::Duration;

use mgb_abi::launch::Dim3;
use mgb_core::pace;
use parking_lot::Mutex;

/// From so long on a kernel is stopped for latency programs.
const SHORTEST: Duration = Duration::from_micros(200);
/// From so long on it is run as a twin whoever is there: somebody may come, or want it to leave.
const LONG: Duration = Duration::from_millis(10);
/// Kernels that are remembered. More are run as twins, and never measured.
const MOST_KERNELS: usize = 4096;

/// What is known of a kernel with a grid of so many blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    launches: u64,
    /// The shortest of those that were measured: others may have shared the GPU.
    shortest: Option<Duration>,
}

static SEEN: Mutex<Option<HashMap<(usize, u64), Seen>>> = Mutex::new(None);

/// Kernels that a thread remembers as short. One that finds its place taken takes it.
const PLACES: usize = 64;
/// How many launches a thread makes of one before it asks again.
const MOST_UNASKED: u64 = 1023;

/// A kernel with a grid that is launched as it is, so many times more.
#[derive(Clone, Copy)]
struct AsItIs {
    key: (usize, u64),
    left: u64,
}

thread_local! {
    /// What is launched as it is needs no lock for that. To launch so is always right, whatever the
    /// addresses mean by then.
    static AS_THEY_ARE: [Cell<AsItIs>; PLACES] = const {
        [const { Cell::new(AsItIs { key: (0, 0), left: 0 }) }; PLACES]
    };
}

fn place(key: (usize, u64)) -> usize {
    // Fibonacci hashing: the upper bits depend on all of the key's.
    let word = key.0 as u64 ^ key.1.rotate_left(32);
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % PLACES
}

/// Whether this thread knows that a launch is made as it is. Takes no lock.
pub fn is_as_it_is(kernel: *const c_void, grid: Dim3) -> bool {
    let key = (kernel as usize, grid.product());
    AS_THEY_ARE.with(|places| {
        let place = &places[place(key)];
        let known = place.get();
        let is_it = known.key == key && known.left > 0;
        if is_it {
            place.set(AsItIs {
                left: known.left - 1,
                ..known
            });
        }
        is_it
    })
}

/// So many of this thread's launches of it, of those to come, are made as they are.
pub fn note_as_it_is(kernel: *const c_void, grid: Dim3, left: u64) {
    let key = (kernel as usize, grid.product());
    AS_THEY_ARE.with(|places| places[place(key)].set(AsItIs { key, left }));
}

/// A launch that pays.
pub struct Paying {
    /// It is to be measured.
    pub is_measured: bool,
}

/// Whether a launch of this kernel pays as its twin. One that is not known does. It is measured the first
/// time, the second, the fourth, and so on, as a twin: what it does may depend on its arguments.
pub fn of(kernel: *const c_void, grid: Dim3) -> Option<Paying> {
    let mut seen = SEEN.lock();
    let seen = seen.get_or_insert_default();
    let key = (kernel as usize, grid.product());
    if seen.len() >= MOST_KERNELS && !seen.contains_key(&key) {
        return Some(Paying { is_measured: false });
    }
    let seen = seen.entry(key).or_default();
    seen.launches += 1;
    let is_measured = seen.launches.is_power_of_two();
    let pays = |time| time >= LONG || time >= SHORTEST && pace::is_any();
    let is_twin = is_measured || seen.shortest.is_none_or(pays);
    if !is_twin && seen.shortest.is_some_and(|time| time < SHORTEST) {
        // Until the next one that is measured, whoever comes.
        let left = (seen.launches.next_power_of_two() - seen.launches - 1).min(MOST_UNASKED);
        seen.launches += left;
        note_as_it_is(kernel, grid, left);
    }
    is_twin.then_some(Paying { is_measured })
}

/// How long one takes, if that is known.
pub fn known(kernel: *const c_void, grid: Dim3) -> Option<Duration> {
    let seen = SEEN.lock();
    seen.as_ref()?.get(&(kernel as usize, grid.product()))?.shortest
}

/// A launch of it took so long.
pub fn learn(kernel: *const c_void, grid: Dim3, time: Duration) {
    let mut seen = SEEN.lock();
    if let Some(seen) = seen
        .get_or_insert_default()
        .get_mut(&(kernel as usize, grid.product()))
    {
        seen.shortest = Some(seen.shortest.map_or(time, |shortest| shortest.min(time)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_kernels_are_launched_as_they_are() {
        let grid = |x| Dim3 { x, y: 1, z: 1 };
        let kernel = 0x1000 as *const c_void;
        let is_twin = |x| of(kernel, grid(x)).is_some();
        let measured = |x| of(kernel, grid(x)).is_some_and(|paying| paying.is_measured);
        assert!(measured(1));
        learn(kernel, grid(1), 50 * Duration::from_micros(1));
        // The second and the fourth are measured, the third is not, and runs as it is.
        assert!(measured(1) && !is_twin(1) && measured(1) && !is_twin(1));
        // The sixth and the seventh need not ask, the eighth does.
        let unasked = [(); 3].map(|()| is_as_it_is(kernel, grid(1)));
        assert_eq!(unasked, [true, true, false]);
        assert!(measured(1) && !is_as_it_is(kernel, grid(2)));
        // One that had to share the GPU does not count for ever.
        assert!(measured(2));
        learn(kernel, grid(2), Duration::from_secs(1));
        assert!(measured(2) && is_twin(2) && measured(2));
        learn(kernel, grid(2), Duration::from_millis(1));
        assert!(!is_twin(2));
        assert_eq!(known(kernel, grid(2)), Some(Duration::from_millis(1)));
        assert_eq!(known(kernel, grid(3)), None);
    }
}
