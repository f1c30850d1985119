//! What the commands make of a policy; the policies themselves are the scheduler's.

use mgb_interface::Policy;

use crate::parallel::Parallel;

/// How many jobs a batch runs at once on `gpus` GPUs when the user does not say: as many as the node can use,
/// where the policy sees to it that they fit.
pub fn default_parallel(policy: Policy, gpus: usize) -> Parallel {
    match policy.processes_per_gpu() {
        Some(each) => Parallel::Count((gpus * each as usize).max(1)),
        None => Parallel::Auto,
    }
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
}
