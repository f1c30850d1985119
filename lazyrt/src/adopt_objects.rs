//! When an activation begins a task again while objects of an earlier one may still be used: they go to the new
//! task, since its launches may touch them.

use crate::session;
use crate::state::{self, CHANGED, Key};
use crate::swap;

/// How often an earlier task is asked to leave its GPU, where its memory cannot stay.
const MAX_SWAP_TRIES: u32 = 8;

/// Moves what the task `older` owns to the task `into`. Waits for threads that are changing either. The caller
/// holds no lock. False: its memory does not fit where `into` is, and cannot leave where it is.
pub fn older(older: Key, into: Key) -> bool {
    let mut tries = 0;
    let mut state = state::lock();
    loop {
        let (from, to) = (state.resolve(older), state.resolve(into));
        let (Some(old), Some(new)) = (state.task_at(from), state.task_at(to)) else {
            return true;
        };
        if from == to || old.device != new.device || new.refused {
            return true;
        }
        if old.is_held() || new.is_held() {
            CHANGED.wait(&mut state);
            continue;
        }
        let (id, has_ended, reserved) = (old.id, old.ended, old.reserved);
        let room = new.reserved.saturating_sub(new.committed());
        let stays = old.gpu == new.gpu && new.id.is_some() && old.mapped <= room;
        if old.mapped == 0 || stays {
            // The new reservation covers the memory where it is: only the old reservation is given back.
            state.merge(from, to);
            drop(state);
            match id {
                Some(id) if has_ended => session::give_back(id, reserved),
                Some(id) => session::end(id, 0),
                None => {}
            }
            return true;
        }
        drop(state);
        // By way of the host, to wherever the new task is.
        if !swap::out_task(from) {
            tries += 1;
            if tries == MAX_SWAP_TRIES {
                return false;
            }
        }
        state = state::lock();
    }
}
