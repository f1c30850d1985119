//! Jobs: all processes that one `mgb run` starts, known by a number that they inherit in their environment.
//! So a process stays in its job whoever its parent becomes.

use std::hash::{BuildHasher, RandomState};

/// The variable, with the number in hexadecimal digits.
pub const JOB: &str = "MGB_JOB";

/// The variable that says how many GPUs the job uses, if it was placed on several: they are what it sees, in this
/// order.
pub const GPUS: &str = "MGB_GPUS";

/// The variable by which mgbd knows what `mgb run --need` has started, also where its process tree has lost it.
pub const NEED_MARK: &str = "MGB_NEED_MARK";

/// Whether this process's job was placed on several GPUs.
pub fn has_several_gpus() -> bool {
    std::env::var_os(GPUS).is_some()
}

/// "SL", before the numbers of Slurm's steps.
const SLURM: u64 = 0x534c;
/// Set in the number of what a step has started: then follow Slurm's job in 32 bits, and random ones.
const INNER: u64 = 1 << 63;
/// The random bits of such a number. A job of thousands of steps' programs has no two alike but once in as many
/// such jobs.
const INNER_BITS: u32 = 31;

/// The job of this process; `None` where the variable names none.
pub fn job() -> Option<u64> {
    parse(&std::env::var(JOB).ok()?)
}

/// The number of a step of a Slurm job, in 16 digits that can be read: `534c`, the job in eight, the step in
/// four. A step of its own, since the GPUs of a job have one order for all its processes, and steps that run
/// side by side want different ones.
pub fn slurm_step(job: u32, step: u32) -> u64 {
    SLURM << 48 | u64::from(job) << 16 | u64::from(step & 0xffff)
}

/// Slurm's number of the job that a step's number, or one derived from it, belongs to.
pub fn slurm_job(job: u64) -> Option<u32> {
    if job & INNER != 0 {
        return Some((job >> INNER_BITS) as u32);
    }
    // A random number looks like one once in 32768 times; then it is counted for a job that asks nobody about
    // it.
    (job >> 48 == SLURM).then_some((job >> 16) as u32)
}

/// The number by which all steps of a Slurm job are meant together, and all that they have started; of any
/// number of these. `None`: it is none of Slurm's.
pub fn slurm_whole(job: u64) -> Option<u64> {
    // No step has that number.
    slurm_job(job).map(|job| slurm_step(job, 0xffff))
}

/// The number that a value of the variable stands for; `None`: it is none.
pub fn job_number(text: &str) -> Option<u64> {
    parse(text)
}

fn parse(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok().filter(|&job| job != 0)
}

/// A value of the variable for a new job: no other job has it. One that a step of a Slurm job starts is known
/// as that job's.
pub fn new_job() -> String {
    format!("{:016x}", new_in(job()))
}

fn new_in(outer: Option<u64>) -> u64 {
    // The standard library seeds it from the system's random numbers.
    let random = RandomState::new().hash_one(std::process::id());
    match outer.and_then(slurm_job) {
        Some(job) => INNER | u64::from(job) << INNER_BITS | (random & ((1 << INNER_BITS) - 1)),
        None => (random & !INNER).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_slurm_job_starts_is_known_as_its() {
        let step = slurm_step(4660, 3);
        assert_eq!(format!("{step:016x}"), "534c000012340003");
        assert_eq!(slurm_step(4660, 0xffff_fffb) & 0xffff, 0xfffb);
        let inner = new_in(Some(step));
        assert_ne!(inner, step);
        assert_eq!(slurm_job(inner), Some(4660));
        for job in [1, 4660, u32::MAX] {
            let inner = new_in(Some(slurm_step(job, 0)));
            assert_eq!(slurm_job(inner), Some(job));
            assert_eq!(slurm_job(new_in(Some(inner))), Some(job));
        }
        // With 14 random bits a hundred programs of a step mostly had two alike.
        let many: std::collections::BTreeSet<u64> = (0..1000).map(|_| new_in(Some(step))).collect();
        assert!(many.len() >= 999, "{}", many.len());
        assert!((0..100).all(|_| new_in(None) & INNER == 0));
        assert_eq!(slurm_job(7), None);
        assert_eq!(slurm_whole(inner), slurm_whole(step));
        assert_eq!(slurm_whole(7), None);
    }

    #[test]
    fn numbers_come_back() {
        let (one, other) = (new_job(), new_job());
        assert_ne!(one, other);
        assert!(parse(&one).is_some() && parse(&one) != parse(&other));
        for no_job in ["", "0", "job", "-1", "10000000000000000"] {
            assert_eq!(parse(no_job), None, "{no_job}");
        }
    }
}
