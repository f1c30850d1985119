//! Each distinct job alone, as its plain binary: for the bound, for slow-down, and for the right result.
//! These first runs also warm what every later one finds warm: the programs and CUDA's libraries in the page
//! cache.

use std::collections::HashSet;
use std::fs;

use anyhow::{Context, Result, bail};

use super::memory_pressure;
use super::profile;
use super::results::AloneEntry;
use crate::batch::jobfile::FileJob;
use crate::batch::outcome::{BatchOutcome, JobOutcome, JobState};
use crate::measure::sampler::MeasuredSample;

/// The jobs among these that are not known yet, once each, numbered anew.
pub fn distinct(jobs: &[FileJob], known: impl Fn(&str) -> bool) -> Vec<FileJob> {
    let mut seen = HashSet::new();
    let new = jobs
        .iter()
        .filter(|job| !known(&job.text) && seen.insert(job.text.clone()));
    new.enumerate()
        .map(|(index, job)| FileJob {
            number: index + 1,
            ..job.clone()
        })
        .collect()
}

/// What they took.
///
/// # Errors
/// When one fails that has the node to itself: no comparison is worth anything then.
pub fn entries(batch: &BatchOutcome, samples: &[MeasuredSample]) -> Result<Vec<AloneEntry>> {
    batch.jobs.iter().map(|job| entry(job, samples)).collect()
}

fn entry(job: &JobOutcome, samples: &[MeasuredSample]) -> Result<AloneEntry> {
    let log = job.log.as_deref().context("a job was never started")?;
    if job.state != JobState::Done {
        let why = job.cause.as_ref().map(|cause| cause.short()).unwrap_or_default();
        bail!(
            "{} fails alone on a GPU ({why}); its log is {}",
            job.command,
            log.display()
        );
    }
    let said = fs::read_to_string(log).with_context(|| format!("failed to read {}", log.display()))?;
    Ok(AloneEntry {
        command: job.command.clone(),
        wall_s: job.ran.as_secs_f64(),
        cpu_s: job.cpu.as_secs_f64(),
        host_peak_bytes: job.host_peak_bytes,
        gpu_peak_bytes: memory_pressure::peak_alone(job, samples),
        profile: profile::of_log(&said),
        checksum: profile::checksums(&said),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::MixRun;
    use crate::bench::results::tests::run;

    #[test]
    fn each_job_once() {
        let job = |text: &str| FileJob {
            number: 9,
            text: text.to_owned(),
            need: None,
            gpus: None,
            deadline: None,
            program: "train".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
        };
        let jobs = ["a", "b", "a", "c", "b"].map(job);
        let found = distinct(&jobs, |text| text == "c");
        let texts: Vec<(usize, &str)> = found.iter().map(|job| (job.number, job.text.as_str())).collect();
        assert_eq!(texts, [(1, "a"), (2, "b")]);
    }

    #[test]
    fn one_that_fails_alone_is_named_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, "{\"start_s\":1,\"host_s\":2,\"copies_s\":3,\"kernels_s\":4,\"bytes_in\":5,\"bytes_out\":6}\nx: ok, checksum AB\n").unwrap();
        let MixRun {
            mut batch, samples, ..
        } = run("W", "sa", 1, &[1.0], 0);
        batch.jobs[0].log = Some(log);
        let entries = entries(&batch, &samples).unwrap();
        assert_eq!(
            (entries[0].wall_s, entries[0].checksum.as_deref()),
            (0.9, Some("AB"))
        );
        assert_eq!(entries[0].profile.unwrap().kernels_s, 4.0);
        assert_eq!(entries[0].gpu_peak_bytes, Some(9 << 30));
        batch.jobs[0].state = JobState::Failed;
        let error = super::entries(&batch, &samples).unwrap_err().to_string();
        assert!(error.contains("train 0 fails alone"), "{error}");
    }
}
