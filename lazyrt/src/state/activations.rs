//! Activations in the state: which task gathers what an activation allocates before it begins, and which it
//! began last.

use super::extent::Key;
use super::store::ProcessState;
use crate::task::{OwnSite, Task};
use crate::thread::{self, Activation, current_device as current};

impl ProcessState {
    /// The task that gathers what an activation allocates before its task begins, whose number in its module's
    /// report is `id`.
    pub(super) fn gathering(&mut self, activation: Activation, id: u32) -> Key {
        if let Some(&key) = self.pending.get(&activation) {
            return key;
        }
        // Its names are not known here; they come with its begin.
        let site = OwnSite {
            key: activation.site,
            id,
            module: String::new(),
            function: String::new(),
        };
        let key = self.new_task(Some(site), Some(activation), false);
        self.pending.insert(activation, key);
        thread::with(|thread| thread.note_gathering());
        key
    }

    /// Takes the pending task of an activation for the current device, at its begin. What was gathered while
    /// another device was current becomes part of the lazy task of that device: the pass did not see
    /// that the device changed.
    pub fn take_gathered(&mut self, activation: Activation) -> Option<Key> {
        let key = self.pending.remove(&activation)?;
        let device = self.tasks.get(&key)?.device;
        if device == current() {
            return Some(key);
        }
        let lazy = self.lazy_task_of(device);
        self.merge(key, lazy);
        None
    }

    /// Whether the task only gathers, on no GPU.
    pub(super) fn only_gathers(&self, key: Key, task: &Task) -> bool {
        let is_pending = |activation| self.pending.get(&activation) == Some(&key);
        task.is_unbound() && task.activation.is_some_and(is_pending)
    }

    /// An activation begins a task; the earlier tasks of it whose objects the new one may use.
    ///
    /// The pass has a task begin several times in an activation only where no object of it is used from one
    /// begin to the next, and ends it between. That is not so where control came back by `longjmp`, which shows
    /// in a task that has not ended. Of an activation that only its thread stands for, no more is known than
    /// that tasks which have ended are not another's.
    pub fn begins(&mut self, activation: Activation, key: Key) -> Vec<Key> {
        if !activation.is_known() {
            let is_older = |(&other, task): (&Key, &Task)| {
                let is_own = task.activation == Some(activation) && task.ended && task.objects > 0;
                (is_own && other != key).then_some(other)
            };
            return self.tasks.iter().filter_map(is_older).collect();
        }
        let before = self.begun.insert(activation, key);
        let is_used = |older: &Key| {
            let task = self.tasks.get(older);
            *older != key && task.is_some_and(|task| task.objects > 0 && !task.ended)
        };
        // One that became part of another task is gone, and no activation's.
        before.filter(is_used).into_iter().collect()
    }

    /// A task that is over and owns nothing runs again, in this activation.
    pub fn give_to(&mut self, key: Key, activation: Activation) {
        let Some(task) = self.tasks.get_mut(&key) else {
            return;
        };
        let before = task.activation.replace(activation);
        if before != Some(activation) {
            self.leave_activation(key, before);
        }
    }

    /// The task is gone, or part of another.
    pub(super) fn leave_activation(&mut self, key: Key, activation: Option<Activation>) {
        let Some(activation) = activation else { return };
        if self.pending.get(&activation) == Some(&key) {
            self.pending.remove(&activation);
        }
        if self.begun.get(&activation) == Some(&key) {
            self.begun.remove(&activation);
        }
    }
}

#[cfg(test)]
mod tests {
    use mgb_probe::TaskId;

    use super::*;

    const SITE: usize = 4096;

    fn activation(number: u64) -> Activation {
        Activation::new(SITE, number)
    }

    /// A task that the activation begins, with as many objects.
    fn begun(state: &mut ProcessState, activation: Activation, objects: u64) -> (Key, Vec<Key>) {
        let key = state
            .take_gathered(activation)
            .unwrap_or_else(|| state.new_task(None, Some(activation), false));
        let id = TaskId::from_raw(key).unwrap();
        let task = state.task(key).unwrap();
        task.objects = objects;
        task.bind(id, 0, 0, 0);
        let older = state.begins(activation, key);
        (key, older)
    }

    fn end(state: &mut ProcessState, key: Key) {
        state.task(key).unwrap().ended = true;
    }

    #[test]
    fn activations_of_a_site_gather_for_themselves() {
        let mut state = ProcessState::default();
        let (one, other) = (activation(1), activation(2));
        let first = state.gathering(one, 1);
        assert_ne!(state.gathering(other, 1), first);
        assert_eq!(state.gathering(one, 1), first);
        assert_eq!(state.take_gathered(one), Some(first));
        assert_eq!(state.take_gathered(one), None);
    }

    #[test]
    fn an_activation_that_frees_all_before_its_begin_leaves_nothing() {
        let mut state = ProcessState::default();
        let key = state.gathering(activation(1), 1);
        state.task(key).unwrap().objects = 1;
        state.drop_if_over(key);
        assert!(state.task(key).is_some());
        state.task(key).unwrap().objects = 0;
        state.drop_if_over(key);
        assert!(state.task(key).is_none() && state.pending.is_empty());
    }

    #[test]
    fn objects_of_a_task_that_has_not_ended_are_those_of_the_next() {
        let mut state = ProcessState::default();
        let own = activation(1);
        let (first, older) = begun(&mut state, own, 1);
        assert!(older.is_empty());
        end(&mut state, first);
        // None is used, by the pass's proof.
        let (second, older) = begun(&mut state, own, 1);
        assert!(older.is_empty());
        // Control came back from behind the begin.
        let (_, older) = begun(&mut state, own, 1);
        assert_eq!(older, [second]);
        // Another activation has nothing to do with it.
        assert!(begun(&mut state, activation(2), 1).1.is_empty());
    }

    #[test]
    fn of_a_thread_no_more_is_known_than_what_has_ended() {
        let mut state = ProcessState::default();
        let own = activation(0);
        let (running, _) = begun(&mut state, own, 1);
        let (ended, older) = begun(&mut state, own, 1);
        assert!(older.is_empty());
        end(&mut state, ended);
        let (third, older) = begun(&mut state, own, 1);
        assert_eq!(older, [ended]);
        end(&mut state, running);
        end(&mut state, third);
        assert_eq!(begun(&mut state, own, 1).1, [running, ended, third]);
    }
}
