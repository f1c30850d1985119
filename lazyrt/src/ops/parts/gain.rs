//! Whether it pays to launch a kernel's twin: one that is over soon need not be stopped, and one that
//! nobody may want to be stopped does without the twin's cost.

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
/// Kernels that are remembered. More are run as twins, and measured each time.
const MOST_KERNELS: usize = 4096;

/// What is known of a kernel with a grid of so many blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    launches: u64,
    /// The shortest of those that were measured: others may have shared the GPU.
    shortest: Option<Duration>,
}

static SEEN: Mutex<Option<HashMap<(usize, u64), Seen>>> = Mutex::new(None);

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
    (is_measured || seen.shortest.is_none_or(pays)).then_some(Paying { is_measured })
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
