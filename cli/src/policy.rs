//! What the commands make of a policy; the policies themselves are the scheduler's.

use mgb_scheduler::Policy;

use crate::parallel::Parallel;

/// Whether whole processes are placed by device mask, instead of tasks by their probes.
pub fn places_processes(policy: Policy) -> bool {
    matches!(policy, Policy::Sa | Policy::Cg(_))
}

/// How many jobs a batch runs at once on `gpus` GPUs when the user does not say: as many as the node can use,
/// where the policy sees to it that they fit.
pub fn default_parallel(policy: Policy, gpus: usize) -> Parallel {
    let each = match policy {
        Policy::Sa => 1,
        Policy::Cg(each) => each as usize,
        Policy::Mgb | Policy::Alg2 | Policy::Alg3 | Policy::SchedGpu(_) => return Parallel::Auto,
    };
    Parallel::Count((gpus * each).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_numbers_of_jobs() {
        assert_eq!(default_parallel(Policy::Sa, 2), Parallel::Count(2));
        assert_eq!(default_parallel(Policy::Cg(3), 2), Parallel::Count(6));
        assert_eq!(default_parallel(Policy::Mgb, 2), Parallel::Auto);
    }

    #[test]
    fn only_the_baselines_place_processes() {
        assert!(places_processes(Policy::Sa) && places_processes(Policy::Cg(4)));
        assert!(!places_processes(Policy::Mgb) && !places_processes(Policy::Alg3));
    }
}
