//! Co-locates the lazy task with a static task, so that a launch of the static task can reach its objects.

use mgb_core::notice;

use crate::code::{Code, Own, fail};
use crate::launch_view::LaunchView;
use crate::task_binding::{self, Asked};
use crate::{device, mapping, state};

/// Binds and backs the lazy task, on the GPU of `shared` if it is free to choose, and lends its memory
/// otherwise. True: it is on another GPU and lent.
pub fn join(shared: &LaunchView) -> Result<bool, Own> {
    let (gpu, ordinal) = shared.placement();
    let key = state::lock().lazy_task();
    let lazy = task_binding::prepare(
        key,
        Asked {
            gpu: Some(gpu),
            ..Asked::default()
        },
    )?;
    let (other, other_ordinal) = lazy.placement();
    if other == gpu {
        return Ok(false);
    }
    // What was given to the other GPU before comes first, as it does on one.
    device::settle(other, other_ordinal)?;
    let lent = mapping::lend(&mut state::lock_task_still(key), key, gpu, ordinal);
    device::select(gpu, ordinal)?;
    match lent {
        Ok(()) => Ok(true),
        Err(failure) => {
            notice::once(
                "lend",
                format_args!(
                    "two tasks of this program share memory and are on GPUs that cannot reach each other: {failure}"
                ),
            );
            fail(Code::NOT_SUPPORTED)
        }
    }
}
