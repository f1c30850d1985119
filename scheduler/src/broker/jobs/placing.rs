//! Chooses the GPUs of a job that uses several: as one, before the job's program starts, and answered in the order
//! of their numbers, which all such jobs take their devices in. So no two of them wait for each other.

use mgb_probe::wire::{Reply, Request};

use super::Jobs;
use crate::broker::answer::bad;
use crate::broker::books::Books;
use crate::broker::clients::ClientState;
use crate::client::ClientId;
use crate::gpu_set::GpuSet;

/// Most jobs of a user whose GPUs are kept.
const MAX_JOBS_OF_USER: usize = 1024;

/// The `count` GPUs with the least load, the first among equals; `None`: there are fewer.
fn best<L: Ord>(mut gpus: Vec<(L, usize)>, count: usize) -> Option<GpuSet> {
    if count == 0 || gpus.len() < count {
        return None;
    }
    gpus.sort();
    Some(gpus[..count].iter().map(|(_, gpu)| *gpu).collect())
}

impl Jobs {
    /// Chooses GPUs for a job that uses several, for a program of a user who may use `usable`.
    pub(in crate::broker) fn place(
        &mut self,
        books: &Books,
        usable: GpuSet,
        client: ClientId,
        request: &Request,
    ) -> Placing {
        let Some(uid) = books.clients.get(client).map(ClientState::uid) else {
            return Placing::Answered(Reply::Unknown);
        };
        let (job, count) = ((uid, request.task), request.bytes);
        if request.task == 0 {
            return Placing::Answered(bad("the job has no number"));
        }
        if let Some(gpus) = self.placements.of(job) {
            return Placing::Answered(Reply::Placed { gpus: gpus.bits() });
        }
        if self.placements.count_of(uid) >= MAX_JOBS_OF_USER {
            return Placing::Answered(bad("the user has too many jobs of several GPUs at once"));
        }
        let asked = GpuSet::from_bits(request.gpus) & !books.control.closed();
        let load = |gpu| ((self.placements.jobs_on(gpu), self.next_load(books, gpu)), gpu);
        let loads = books.among(asked & usable).map(load).collect();
        let Some(gpus) = best(loads, usize::try_from(count).unwrap_or(0)) else {
            let is_kept = !(asked & !usable).is_empty() && usable != GpuSet::ALL;
            return if is_kept {
                Placing::OthersGpus
            } else {
                Placing::NoGpu
            };
        };
        self.placements.give(job, gpus, client);
        Placing::Answered(Reply::Placed { gpus: gpus.bits() })
    }
}

/// What comes of a request to place a job.
#[derive(Debug)]
pub(in crate::broker) enum Placing {
    /// The request has this answer.
    Answered(Reply),
    /// There are fewer GPUs than the job is to have.
    NoGpu,
    /// There are fewer, since some are kept for others.
    OthersGpus,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::placements::Placements;
    use super::*;

    #[test]
    fn the_least_loaded_are_chosen_as_one() {
        assert_eq!(
            best(vec![(3, 0), (1, 1), (2, 2), (1, 3)], 2),
            Some(GpuSet::from_bits(0b1010))
        );
        assert_eq!(
            best(vec![(1, 0), (1, 1), (1, 2)], 2),
            Some(GpuSet::from_bits(0b011))
        );
        assert_eq!(best(vec![(1, 0)], 2), None);
        assert_eq!(best(Vec::<(u8, usize)>::new(), 0), None);
    }

    /// A job: its GPUs in the order of their numbers, what it takes on each, and how many it has by now.
    #[derive(Clone, Debug)]
    struct PlacedJob {
        gpus: GpuSet,
        bytes: Vec<u64>,
        has: usize,
    }

    impl PlacedJob {
        fn gpu(&self, at: usize) -> usize {
            self.gpus.iter().nth(at).expect("one of its GPUs")
        }
    }

    proptest! {
        /// Jobs that take memory on their devices one after another, hold all, and then end: whatever is granted
        /// first, all end, and nobody is refused.
        #[test]
        fn all_jobs_of_several_gpus_end(
            gpus in 1usize..8,
            jobs in prop::collection::vec((1usize..5, prop::collection::vec(1u64..=100, 4)), 1..12),
            order in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
        ) {
            let mut places = Placements::default();
            let mut running: Vec<PlacedJob> = Vec::new();
            for (number, (count, bytes)) in jobs.into_iter().enumerate() {
                let count = count.min(gpus);
                let load = (0..gpus).map(|gpu| (places.jobs_on(gpu), gpu)).collect();
                let gpus = best(load, count).expect("there are as many");
                places.give((0, number as u64), gpus, number as u64);
                running.push(PlacedJob { gpus, bytes: bytes[..count].to_vec(), has: 0 });
            }
            let mut free = vec![100u64; gpus];
            let mut order = order.iter().cycle();
            while !running.is_empty() {
                let can: Vec<usize> = (0..running.len())
                    .filter(|at| {
                        let job = &running[*at];
                        job.has == job.bytes.len() || job.bytes[job.has] <= free[job.gpu(job.has)]
                    })
                    .collect();
                prop_assert!(!can.is_empty(), "they wait for each other: {running:?}");
                let at = *order.next().expect("it never ends").get(&can);
                let job = &mut running[at];
                if job.has < job.bytes.len() {
                    free[job.gpu(job.has)] -= job.bytes[job.has];
                    job.has += 1;
                } else {
                    for has in 0..job.has {
                        free[job.gpu(has)] += job.bytes[has];
                    }
                    running.swap_remove(at);
                }
            }
        }
    }
}
