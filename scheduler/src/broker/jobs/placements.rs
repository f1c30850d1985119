//! What jobs of several GPUs were given ([why](../../../../docs/design/several-gpus.md)). It counts from the
//! moment it is chosen, and as long as the process that asked for it lives, or one of the job.

use std::collections::{BTreeMap, BTreeSet};

use crate::broker::clients::JobOfUser;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::journal::Placed;

/// The GPUs that a job was given, and its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct JobPlacement {
    /// The GPUs of the job.
    gpus: GpuSet,
    /// Who asked for it, and the job's processes.
    members: BTreeSet<ClientId>,
}

/// The GPUs of jobs that use several.
#[derive(Debug, Default)]
pub(super) struct Placements {
    jobs: BTreeMap<JobOfUser, JobPlacement>,
    /// Whether a choice was made or ended, or has other members, since it was last asked.
    changed: bool,
}

impl Placements {
    /// The GPUs that a job was given; `None`: none yet.
    pub(super) fn of(&self, job: JobOfUser) -> Option<GpuSet> {
        self.jobs.get(&job).map(|place| place.gpus)
    }

    /// How many jobs of a user there are.
    pub(super) fn count_of(&self, uid: u32) -> usize {
        self.jobs.range((uid, 0)..=(uid, u64::MAX)).count()
    }

    /// A job was given GPUs, for which a process of it asked, or one that becomes it.
    pub(super) fn give(&mut self, job: JobOfUser, gpus: GpuSet, asker: ClientId) {
        let members = BTreeSet::from([asker]);
        self.jobs.insert(job, JobPlacement { gpus, members });
        self.changed = true;
    }

    /// How many jobs have the GPU.
    pub(super) fn jobs_on(&self, gpu: usize) -> usize {
        let on = |place: &&JobPlacement| place.gpus.contains(gpu);
        self.jobs.values().filter(on).count()
    }

    /// A process of the job connected.
    pub(super) fn join(&mut self, job: JobOfUser, client: ClientId) {
        if let Some(place) = self.jobs.get_mut(&job) {
            self.changed |= place.members.insert(client);
        }
    }

    /// The process is gone, or another program now.
    pub(super) fn leave(&mut self, client: ClientId) {
        let changed = &mut self.changed;
        self.jobs.retain(|_, place| {
            *changed |= place.members.remove(&client);
            !place.members.is_empty()
        });
    }

    /// Whether anything has changed since this was last called.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// All placements, as they are written down.
    pub(super) fn all(&self) -> Vec<Placed> {
        let placed = |(&(uid, job), place): (&JobOfUser, &JobPlacement)| Placed {
            uid,
            job,
            gpus: place.gpus.bits(),
            members: place.members.iter().copied().collect(),
        };
        self.jobs.iter().map(placed).collect()
    }

    /// The placements of an earlier broker's of which a process is there.
    pub(super) fn bring_in(&mut self, placed: &[Placed], is_there: impl Fn(ClientId) -> bool) {
        for Placed {
            uid,
            job,
            gpus,
            members,
        } in placed
        {
            let members: BTreeSet<ClientId> = members
                .iter()
                .copied()
                .filter(|client| is_there(*client))
                .collect();
            if !members.is_empty() {
                self.jobs.insert(
                    (*uid, *job),
                    JobPlacement {
                        gpus: GpuSet::from_bits(*gpus),
                        members,
                    },
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_keeps_its_gpus_as_long_as_it_lives() {
        let mut places = Placements::default();
        places.give((0, 7), GpuSet::from_bits(0b11), 1);
        assert_eq!(
            (places.of((0, 7)), places.of((0, 8)), places.count_of(0)),
            (Some(GpuSet::from_bits(0b11)), None, 1)
        );
        places.join((0, 7), 2);
        places.join((1, 7), 3);
        assert!(places.take_changed());
        places.leave(1);
        assert_eq!(
            (places.jobs_on(0), places.jobs_on(1)),
            (1, 1),
            "a process of it lives"
        );
        // Another mgbd goes on with it.
        let mut next = Placements::default();
        next.bring_in(&places.all(), |client| client == 2);
        assert_eq!(next.all(), places.all());
        next.leave(3);
        assert_eq!(next.jobs_on(1), 1, "another user's");
        next.leave(2);
        assert!(next.take_changed() && next.all().is_empty());
        next.bring_in(&places.all(), |_| false);
        assert!(next.all().is_empty(), "all have ended meanwhile");
    }
}
