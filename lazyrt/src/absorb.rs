//! When a site begins anew while objects of its last run are still there: they go to the new task, since
//! the site's need counts them and its launches may touch them.

use parking_lot::MutexGuard;

use crate::session;
use crate::state::{Key, State};
use crate::swap;

/// Moves what ended tasks of the site, begun on the same thread, still own to the task `into`.
pub fn ended(mut state: MutexGuard<'static, State>, into: Key, site: usize) {
    let Some(task) = state.task(into) else { return };
    let (thread, device) = (task.thread, task.device);
    let (gpu, room) = (task.gpu, task.reserved.saturating_sub(task.committed()));
    let old: Vec<Key> = state
        .tasks()
        .filter(|(key, task)| {
            *key != into
                && task.ended
                && !task.is_held()
                && task.objects > 0
                && task.thread == thread
                && task.device == device
                && task.site.as_ref().is_some_and(|own| own.key == site)
        })
        .map(|(key, _)| key)
        .collect();
    for key in old {
        let Some(task) = state.task(key) else { continue };
        let (mapped, id) = (task.mapped, task.id);
        if mapped == 0 || (task.gpu == gpu && mapped <= room) {
            // The new reservation covers the memory where it is: only the old reservation is
            // given back.
            state.merge(key, into);
            drop(state);
            if let Some(id) = id {
                session::give_back(id, mapped);
            }
            state = crate::state::lock();
        } else {
            // By way of the host, to wherever the new task is.
            drop(state);
            let out = swap::out_task(key);
            state = crate::state::lock();
            if out {
                state.merge(key, into);
            }
        }
    }
}
