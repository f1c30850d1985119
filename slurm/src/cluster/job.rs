//! A step of a Slurm job as a job of mgbd.

use std::num::ParseIntError;

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

    /// All steps of the job together, as mgbd knows them.
    pub fn whole(self) -> Option<u64> {
        mgb_probe::slurm_whole(mgb_probe::slurm_step(self.job, self.step))
    }

    /// The value of `MGB_JOB`.
    pub fn name(self) -> String {
        format!("{:016x}", mgb_probe::slurm_step(self.job, self.step))
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
        assert_eq!(
            of("4660", Some("4294967291")).unwrap().unwrap().name(),
            "534c00001234fffb"
        );
        assert!(of("", None).is_none());
        assert!(of("x", None).unwrap().is_err());
    }
}
