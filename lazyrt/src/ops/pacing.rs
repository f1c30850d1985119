//! Which GPU an op is likely to be on, asked before it is held there and before its task is known.

use crate::state;

/// The GPU that the thread's next op is likely to be on: that of its current device. `None`: none is bound.
pub fn current_gpu() -> Option<u32> {
    let lazy = state::lazy_shared().filter(|lazy| lazy.is_bound());
    lazy.map(|lazy| lazy.placement().0)
        .or_else(|| state::lock().bound_gpu(state::current()))
}
