//! Jobs: all processes that one `mgb run` starts, known by a number that they inherit in their environment.
//! So a process stays in its job whoever its parent becomes.

use std::hash::{BuildHasher, RandomState};

/// The variable, with the number in hexadecimal digits.
pub const JOB: &str = "MGB_JOB";

/// The job of this process; `None` where the variable names none.
pub fn job() -> Option<u64> {
    parse(&std::env::var(JOB).ok()?)
}

fn parse(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok().filter(|&job| job != 0)
}

/// A value of the variable for a new job: no other job has it.
pub fn new_job() -> String {
    // The standard library seeds it from the system's random numbers.
    let random = RandomState::new().hash_one(std::process::id());
    format!("{:016x}", random.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

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
