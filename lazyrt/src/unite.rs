//! Makes one task of those that one call needs at once.
//!
//! A call that touches objects of two tasks needs both on the GPU at the same time, and asks for one after the
//! other. Where there is no room for both while others hold memory, the second one's request can only be met by
//! the first one's memory, and each pushes the other out for ever. As one task they are one request: it is
//! granted as a whole, waits as a whole, or is refused as what no GPU holds.

use crate::session;
use crate::state::{self, Key, ProcessState};
use crate::swap;

/// Makes a static task part of its device's lazy task, by way of the host. False: it stays what it is, since it
/// is the lazy task, another thread changes it, it is on another GPU than that one, has memory outside the arena,
/// or could not be swapped out.
pub fn into_lazy(key: Key) -> bool {
    if target(&mut state::lock(), key).is_none() {
        return false;
    }
    swap::out_task(key);
    let mut state = state::lock();
    let Some((key, lazy)) = target(&mut state, key) else {
        return false;
    };
    let Some(task) = state.task(key).filter(|task| task.mapped == 0) else {
        return false;
    };
    let (id, reserved) = (task.id, task.reserved);
    state.merge(key, lazy);
    drop(state);
    // mgbd keeps the task, without room, until the program ends it.
    if let Some(id) = id {
        session::give_back(id, reserved);
    }
    true
}

/// The task itself, and the lazy task that it may become a part of.
fn target(state: &mut ProcessState, key: Key) -> Option<(Key, Key)> {
    let key = state.resolve(key);
    let task = state.task_at(key)?;
    let (device, gpu) = (task.device, task.gpu);
    let is_in_arena = task.committed() == task.mapped + task.unbacked_bytes;
    if state.is_lazy(key) || task.is_held() || task.is_unbound() || !is_in_arena {
        return None;
    }
    let lazy = state.lazy_task_of(device);
    let its = state.task_at(lazy)?.gpu;
    (its.is_none() || its == gpu).then_some((key, lazy))
}

#[cfg(test)]
mod tests {
    use mgb_probe::TaskId;

    use super::*;

    fn id(raw: u64) -> TaskId {
        TaskId::from_raw(raw).expect("it is not 0")
    }

    /// A static task of this thread's device, bound to a GPU.
    fn bound(raw: u64, gpu: u32) -> Key {
        let mut state = state::lock();
        let key = state.new_task(None, None, false);
        let task = state.task(key).expect("it is new");
        task.bind(id(raw), gpu, 0, 0);
        key
    }

    #[test]
    fn a_bound_task_becomes_part_of_the_lazy_one_where_that_can_be() {
        let (first, second) = (bound(7, 0), bound(8, 1));
        assert!(into_lazy(first));
        let lazy = state::lock().lazy_task();
        assert_eq!(state::lock().resolve(first), lazy);
        // It is the lazy task now.
        assert!(!into_lazy(first));
        // The lazy task is on another GPU than the second one.
        state::lock()
            .task(lazy)
            .expect("it is there")
            .bind(id(9), 0, 0, 0);
        assert!(!into_lazy(second));
        assert_eq!(state::lock().resolve(second), second);
        // One that was never bound keeps its begin.
        let unbound = state::lock().new_task(None, None, false);
        assert!(!into_lazy(unbound));
    }
}
