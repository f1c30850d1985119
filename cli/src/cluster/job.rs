//! A step of a Slurm job as a job of mgbd: the number that all its processes share.
//!
//! It has 16 digits that can be read: `534c`, the job in eight, the step in four. A step of its own, since the GPUs
//! of a job of mgbd have one order for all its processes, and steps that run side by side want different ones.

use std::num::ParseIntError;

/// "SL": these are jobs of Slurm. The others are random.
const TAG: u64 = 0x534c;

/// What Slurm says of the batch script, which is a step without a number.
const BATCH: u32 = 0xffff_fffb;

/// A step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlurmStep {
    /// Slurm's number of the job; of an array's job its own, not the array's.
    pub job: u32,
    /// Slurm's number of the step; the last ones are not counted but name kinds.
    pub step: u32,
}

impl SlurmStep {
    /// What the environment of a task says. `None`: it is no task of Slurm's.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Result<SlurmStep, ParseIntError>> {
        let job = variable("SLURM_JOB_ID")?;
        let step = variable("SLURM_STEP_ID");
        let read = || {
            Ok(SlurmStep {
                job: job.parse()?,
                // The batch script has none, or that of the kind.
                step: step.map_or(Ok(BATCH), |step| step.parse())?,
            })
        };
        Some(read())
    }

    /// The value of `MGB_JOB`.
    pub fn number(self) -> u64 {
        TAG << 48 | u64::from(self.job) << 16 | u64::from(self.step & 0xffff)
    }

    /// The same as the variable has it.
    pub fn name(self) -> String {
        format!("{:016x}", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(job: &str, step: Option<&str>) -> Option<Result<SlurmStep, ParseIntError>> {
        SlurmStep::of(|name| match name {
            "SLURM_JOB_ID" => Some(job.to_owned()).filter(|job| !job.is_empty()),
            "SLURM_STEP_ID" => step.map(str::to_owned),
            _ => None,
        })
    }

    #[test]
    fn a_step_has_a_number_that_can_be_read() {
        assert_eq!(of("4660", Some("3")).unwrap().unwrap().name(), "534c000012340003");
        assert_eq!(of("4660", None).unwrap().unwrap().name(), "534c00001234fffb");
        assert_eq!(of("4660", Some("4294967291")).unwrap().unwrap().name(), "534c00001234fffb");
        assert!(of("", None).is_none());
        assert!(of("x", None).unwrap().is_err());
    }
}
