//! What the process has outside the arena, and which task is charged for it.

use std::collections::HashMap;

use super::charges::{Charge, Piece};
use super::extent::{Key, Returned};
use super::store::ProcessState;
use crate::launch_view::Device;
use crate::non_arena_memory::{NonArenaKind, Source};
use crate::task::Task;

impl ProcessState {
    /// Charges the device's lazy task. Whether it has the room is seen when it is prepared.
    pub fn charge(&mut self, key: Key, kind: NonArenaKind, bytes: u64) {
        if let Some(task) = self.task(key) {
            task.outside.add(kind, bytes);
            task.seen.mapped = task.seen.mapped.max(task.resident());
        }
    }

    /// Takes a charge back; the room to give back to mgbd.
    pub fn discharge(&mut self, key: Key, kind: NonArenaKind, bytes: u64) -> Option<Returned> {
        self.take_back(key, kind, bytes, Task::resident)
    }

    /// Takes back a charge that was refused. Its room was never granted, so that what is reserved is for the
    /// rest of the task; unless it was granted and something else failed.
    pub fn withdraw(&mut self, key: Key, kind: NonArenaKind, bytes: u64) -> Option<Returned> {
        self.take_back(key, kind, bytes, Task::committed)
    }

    /// Takes a charge back, and gives back what is reserved beyond the bytes that `keeps` says.
    fn take_back(
        &mut self,
        key: Key,
        kind: NonArenaKind,
        bytes: u64,
        keeps: fn(&Task) -> u64,
    ) -> Option<Returned> {
        let task = self.task(key)?;
        let before = task.committed();
        task.outside.remove(kind, bytes);
        let (id, after) = (task.id?, task.committed());
        let spare = before
            .saturating_sub(after)
            .min(task.reserved.saturating_sub(keeps(task)));
        if spare == 0 || !(task.is_loose() || task.ended) {
            return None;
        }
        task.reserved -= spare;
        Some(Returned { id, bytes: spare })
    }

    /// Notes what a charge was for.
    pub fn add_piece(&mut self, name: u64, owner: Key, kind: NonArenaKind, bytes: u64) {
        self.elsewhere.pieces.insert(name, Piece { owner, kind, bytes });
    }

    /// The piece is gone: its GPU and bytes, and the room to give back to mgbd.
    pub fn remove_piece(&mut self, name: u64) -> Option<(Option<u32>, u64, Option<Returned>)> {
        let piece = self.elsewhere.pieces.remove(&name)?;
        let gpu = self.task(piece.owner).and_then(|task| task.gpu);
        let returned = self.discharge(piece.owner, piece.kind, piece.bytes);
        Some((gpu, piece.bytes, returned))
    }

    /// The charge of a source; a new one is of the task.
    pub fn source(&mut self, source: Source, owner: Key) -> &mut Charge {
        self.elsewhere.sources.entry(source).or_insert(Charge {
            owner,
            ..Charge::default()
        })
    }

    /// The charge of a source that is known.
    pub fn known_source(&mut self, source: Source) -> Option<&mut Charge> {
        self.elsewhere.sources.get_mut(&source)
    }

    /// All sources that are known.
    pub fn sources(&self) -> Vec<Source> {
        self.elsewhere.sources.keys().copied().collect()
    }

    /// Sets the charge of a source; the GPU, and the room to give back to mgbd.
    pub fn set_source(&mut self, source: Source, bytes: u64) -> Option<(Option<u32>, Option<Returned>)> {
        let charge = self.elsewhere.sources.get_mut(&source)?;
        let (owner, before) = (charge.owner, std::mem::replace(&mut charge.bytes, bytes));
        let gpu = self.task(owner).and_then(|task| task.gpu);
        if bytes >= before {
            self.charge(owner, NonArenaKind::Pool, bytes - before);
            return Some((gpu, None));
        }
        Some((gpu, self.discharge(owner, NonArenaKind::Pool, before - bytes)))
    }

    /// The owner of a source's charge.
    pub fn owner_of_source(&self, source: Source) -> Option<Key> {
        self.elsewhere.sources.get(&source).map(|charge| charge.owner)
    }

    /// Forgets a source that has no charge.
    pub fn drop_source(&mut self, source: Source) {
        self.elsewhere.sources.remove(&source);
    }

    /// The device's contexts are gone, and all that was outside the arena with them; bytes by GPU.
    pub fn forget_outside(&mut self, device: Device) -> Vec<(u32, u64)> {
        let owners: HashMap<Key, u32> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.device == device)
            .filter_map(|(key, task)| Some((*key, task.gpu?)))
            .collect();
        let mut gone = Vec::new();
        self.elsewhere.pieces.retain(|_, piece| {
            let gpu = owners.get(&piece.owner);
            gone.extend(gpu.map(|&gpu| (gpu, piece.bytes)));
            gpu.is_none()
        });
        self.elsewhere.sources.retain(|_, charge| {
            let gpu = owners.get(&charge.owner);
            gone.extend(gpu.map(|&gpu| (gpu, charge.held)));
            gpu.is_none()
        });
        for task in self.tasks.values_mut().filter(|task| task.device == device) {
            task.outside = Default::default();
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use mgb_probe::TaskId;
    use mgb_probe::need::{GRANULE, LAZY};

    use super::*;

    #[test]
    fn a_charge_that_was_refused_takes_nothing_from_the_rest() {
        let mut state = ProcessState::default();
        let key = state.new_task(None, None, true);
        let id = TaskId::from_raw(7).unwrap();
        state.charge(key, NonArenaKind::Pool, 4 * GRANULE);
        let task = state.task(key).unwrap();
        task.need.flags |= LAZY;
        task.bind(id, 0, 0, 4 * GRANULE);
        // More, for which no room was granted.
        state.charge(key, NonArenaKind::Pool, 3 * GRANULE);
        assert_eq!(state.withdraw(key, NonArenaKind::Pool, 3 * GRANULE), None);
        assert_eq!(state.task(key).unwrap().reserved, 4 * GRANULE);
        // Nor does it take the room of an extent that has no memory yet.
        assert!(state.discharge(key, NonArenaKind::Pool, GRANULE).is_some());
        let task = state.task(key).unwrap();
        task.reserved += GRANULE;
        task.add_unbacked(GRANULE, GRANULE);
        state.charge(key, NonArenaKind::Pool, 3 * GRANULE);
        assert_eq!(state.withdraw(key, NonArenaKind::Pool, 3 * GRANULE), None);
        assert_eq!(state.task(key).unwrap().reserved, 4 * GRANULE);
        // The grant is given back.
        let bytes = GRANULE;
        assert_eq!(
            state.discharge(key, NonArenaKind::Pool, bytes),
            Some(Returned { id, bytes })
        );
        assert_eq!(state.task(key).unwrap().reserved, 3 * GRANULE);
    }
}
