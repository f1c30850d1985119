//! Jobs that fail because their GPU is full but do not say so: many programs word the failure themselves, or
//! crash on the null pointer that they got. What each job takes alone tells them from other failures.

use std::time::Duration;

use mgb_probe::byte_size::Bytes;

use super::profile::ResultMatch;
use super::results::JobResult;
use crate::batch::cause::Cause;
use crate::batch::outcome::{BatchOutcome, JobOutcome};
use crate::measure::sampler::MeasuredSample;

/// The most bytes of GPU memory that a job had at once, its context included, in a batch that left it each
/// GPU for itself. Samples may miss a short peak, so it is a lower bound. `None`: no GPU, or no sample.
pub fn peak_alone(job: &JobOutcome, samples: &[MeasuredSample]) -> Option<u64> {
    let ran = |sample: &&MeasuredSample| job.queued + job.waited <= sample.at && sample.at <= job.turnaround;
    let used = |gpu: u32| {
        let on_it = samples.iter().filter(ran);
        on_it
            .filter_map(|sample| sample.used_bytes.get(gpu as usize).copied())
            .max()
    };
    job.gpus.iter().filter_map(|&gpu| used(gpu)).max()
}

/// Finds the failures for memory among a batch's failures that nothing else explains, and sets their cause.
/// `peak` is what a command takes alone ([`peak_alone`]), `capacity` the bytes of each GPU that the batch
/// could use, `results` what the jobs computed, in their order.
pub fn explain(
    batch: &mut BatchOutcome,
    results: &[JobResult],
    peak: impl Fn(&str) -> Option<u64>,
    capacity: u64,
) {
    let explained: Vec<Option<Cause>> = batch
        .jobs
        .iter()
        .zip(results)
        .map(|(job, result)| {
            let unexplained = match &job.cause {
                Some(cause) => matches!(cause, Cause::Exit { .. } | Cause::Signal { .. }),
                // A program that does not look at cudaMalloc's error ends well, with a wrong result.
                None => result.output == ResultMatch::Other && job.exit_code == Some(0),
            };
            let gpu = *job.gpus.first().filter(|_| unexplained)?;
            let wanted_bytes = most_wanted(job, gpu, &batch.jobs, &peak)?;
            (wanted_bytes > capacity).then(|| Cause::GpuFull {
                reason: format!(
                    "GPU {gpu} was full: its jobs then take {} alone, it has {}",
                    Bytes(wanted_bytes),
                    Bytes(capacity)
                ),
            })
        })
        .collect();
    for (job, cause) in batch.jobs.iter_mut().zip(explained) {
        if cause.is_some() {
            job.cause = cause;
        }
    }
    batch.count_failures();
}

/// The most that the jobs on this GPU would have held together at one moment of this job's run.
fn most_wanted(
    job: &JobOutcome,
    gpu: u32,
    jobs: &[JobOutcome],
    peak: impl Fn(&str) -> Option<u64>,
) -> Option<u64> {
    peak(&job.command)?;
    let run = |one: &JobOutcome| (one.queued + one.waited, one.turnaround);
    let (from, to) = run(job);
    let beside: Vec<&JobOutcome> = jobs.iter().filter(|one| one.gpus.contains(&gpu)).collect();
    let at = |moment: Duration| -> u64 {
        let there = beside.iter().filter(|one| {
            let (from, to) = run(one);
            from <= moment && moment < to
        });
        there.filter_map(|one| peak(&one.command)).sum()
    };
    // The sum grows only where a job begins.
    let begins = beside.iter().map(|one| run(one).0);
    begins.filter(|begin| (from..to).contains(begin)).map(at).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::tests::run;

    const GIB: u64 = 1 << 30;

    fn sample(at_ms: u64, used: &[u64]) -> MeasuredSample {
        MeasuredSample {
            at: Duration::from_millis(at_ms),
            used_bytes: used.to_vec(),
            reserved_bytes: Vec::new(),
            queue: 0,
        }
    }

    #[test]
    fn a_peak_is_that_of_the_job_and_its_gpu() {
        let job = &run("W", "sa", 1, &[1.0, 2.0], 0).batch.jobs[0];
        let samples = [
            sample(50, &[9 * GIB, 0]),
            sample(200, &[GIB, 7 * GIB]),
            sample(900, &[2 * GIB, 7 * GIB]),
            sample(1100, &[5 * GIB, 7 * GIB]),
        ];
        assert_eq!(peak_alone(job, &samples), Some(2 * GIB));
        assert_eq!(peak_alone(job, &[]), None);
    }

    #[test]
    fn a_failure_on_a_full_gpu_is_one_for_memory() {
        // Two jobs on GPU 0 and one on GPU 1; the first two fail.
        let mut done = run("W", "cg:2", 1, &[1.0, 2.0, 3.0], 2);
        let crash = Cause::Signal { signal: 11 };
        done.batch.jobs[0].cause = Some(Cause::Exit { code: 1 });
        done.batch.jobs[1].cause = Some(crash.clone());
        let explained = |capacity| {
            let mut batch = done.batch.clone();
            explain(&mut batch, &done.results, |_| Some(5 * GIB), capacity);
            batch
        };
        let full = explained(9 * GIB);
        assert!(matches!(full.jobs[0].cause, Some(Cause::GpuFull { .. })));
        assert_eq!(full.jobs[1].cause, Some(crash), "it was alone on GPU 1");
        assert_eq!(
            (full.failed, full.failed_for_memory),
            (2, 1),
            "job 3 shared the GPU, and ended well"
        );
        assert_eq!(explained(10 * GIB).failed_for_memory, 0, "both had room");
        let mut unknown = done.batch.clone();
        explain(&mut unknown, &done.results, |_| None, GIB);
        assert_eq!(unknown.failed_for_memory, 0);
    }

    #[test]
    fn a_wrong_result_on_a_full_gpu_is_one_for_memory() {
        let mut done = run("W", "cg:2", 1, &[1.0, 2.0, 3.0], 0);
        done.results[2].output = ResultMatch::Other;
        explain(&mut done.batch, &done.results, |_| Some(GIB), GIB);
        assert_eq!((done.batch.failed, done.batch.failed_for_memory), (0, 1));
        assert_eq!(done.failed(), 1);
    }
}
