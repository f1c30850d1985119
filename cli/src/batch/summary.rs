//! The table at the end of a batch.

use std::fmt::Write;

use mgb_command::table::{Table, plural, seconds};
use mgb_probe::byte_size::Bytes;

use super::cause::Cause;
use super::outcome::{BatchOutcome, Evictions, JobOutcome, JobState};
use crate::status::latency_cells;

/// A line a job, then the figures of the batch, then what is known about failures.
pub fn text(batch: &BatchOutcome) -> String {
    // Where any has a deadline, and where any was there for long enough.
    let any_due = batch.jobs.iter().any(|job| job.due.is_some());
    let due = if any_due {
        &["expected", "deadline"][..]
    } else {
        &[]
    };
    let any_share = batch.jobs.iter().any(|job| job.share.is_some());
    let share = if any_share { &["share"][..] } else { &[] };
    let first = ["job", "state", "exit", "gpu", "queued", "waited", "ran"];
    let any_latency = batch.jobs.iter().any(|job| job.latency.is_some());
    let latency = if any_latency { &["p50", "p99"][..] } else { &[] };
    let any_evicted = batch.jobs.iter().any(|job| job.evictions.times > 0);
    let evicted = if any_evicted { &["evicted"][..] } else { &[] };
    let any_moved = batch.jobs.iter().any(|job| job.moves > 0);
    let moved = if any_moved { &["moves"][..] } else { &[] };
    let head = [
        &first[..],
        due,
        share,
        latency,
        evicted,
        moved,
        &["peak", "command"],
    ]
    .concat();
    let numbers = [
        "job", "exit", "queued", "waited", "ran", "expected", "share", "p50", "p99", "evicted", "moves",
        "peak",
    ];
    let any = AnyOf {
        due: any_due,
        share: any_share,
        latency: any_latency,
        evicted: any_evicted,
        moved: any_moved,
    };
    let mut table = Table::new(&head, &numbers);
    for job in &batch.jobs {
        table.row(row(job, any));
    }
    let mut text = table.to_string();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\n{} on {} under {}, at most {} at once{}: makespan {}, mean turnaround {}",
        plural(batch.jobs.len(), "job"),
        plural(batch.gpus, "GPU"),
        batch.policy,
        batch.parallel,
        if batch.auto { " (auto)" } else { "" },
        seconds(batch.makespan),
        seconds(batch.mean_turnaround)
    );
    if batch.failed > 0 {
        let _ = writeln!(
            text,
            "{} did not end well, {} of them for lack of GPU memory (as they or their logs say):",
            plural(batch.failed, "job"),
            batch.failed_for_memory
        );
        for job in batch.jobs.iter().filter(|job| job.state == JobState::Failed) {
            let _ = writeln!(text, "{}", failure(job));
        }
        let faults = batch
            .jobs
            .iter()
            .filter(|job| matches!(job.cause, Some(Cause::GpuFault { .. })));
        if faults.clone().any(|job| !job.again) {
            text.push_str("A fault of one job ends all on its GPU under MPS: mgb batch --again runs such jobs once more, one at a time.\n");
        }
    }
    text
}

/// Which columns say something of any job.
#[derive(Clone, Copy)]
struct AnyOf {
    due: bool,
    share: bool,
    latency: bool,
    evicted: bool,
    moved: bool,
}

fn row(job: &JobOutcome, any: AnyOf) -> Vec<String> {
    let state = match (job.state, &job.cause) {
        (JobState::Done, _) if job.again => "done again".to_owned(),
        (JobState::Done, _) => "done".to_owned(),
        (JobState::Failed, Some(cause)) => cause.short(),
        (JobState::Failed, None) => "failed".to_owned(),
        (JobState::Stopped, _) => "stopped".to_owned(),
        (JobState::NotStarted, _) => "not started".to_owned(),
    };
    let exit = job
        .exit_code
        .map_or_else(|| "-".to_owned(), |code| code.to_string());
    let gpus: Vec<String> = job.gpus.iter().map(u32::to_string).collect();
    let gpus = if gpus.is_empty() {
        "-".to_owned()
    } else {
        gpus.join(",")
    };
    let times = [job.queued, job.waited, job.ran].map(seconds);
    let [queued, waited, ran] = times;
    // Of one task: when several held theirs is known of stretches only.
    let peak = job.tasks.iter().filter_map(|task| task.peak_bytes).max();
    let share = any.share.then(|| {
        let percent = |share: f64| format!("{:.0}%", share * 100.0);
        job.share.map_or_else(|| "-".to_owned(), percent)
    });
    let peak = peak.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string());
    let first = [job.job.to_string(), state, exit, gpus, queued, waited, ran];
    first
        .into_iter()
        .chain(any.due.then(|| due_cells(job)).into_iter().flatten())
        .chain(share)
        .chain(
            any.latency
                .then(|| latency_cells(job.latency))
                .into_iter()
                .flatten(),
        )
        .chain(any.evicted.then(|| evicted_cell(job.evictions)))
        .chain(any.moved.then(|| job.moves.to_string()))
        .chain([peak, job.command.clone()])
        .collect()
}

/// How much left the GPUs for the host, and how often.
fn evicted_cell(evictions: Evictions) -> String {
    match evictions.times {
        0 => "-".to_owned(),
        times => format!("{times}: {}", Bytes(evictions.bytes)),
    }
}

/// When a job was expected to end, and its deadline, from the start of the batch.
fn due_cells(job: &JobOutcome) -> [String; 2] {
    let Some(due) = job.due else {
        return ["-", "-"].map(str::to_owned);
    };
    let expected = due
        .expected_end_s
        .map_or("-".to_owned(), |end| format!("{end:.2} s"));
    let deadline = format!("{:.2} s", due.deadline_s);
    let verdict = match job.lateness_s() {
        None => "not met".to_owned(),
        Some(late) if late > 0.0 => format!("missed by {late:.2} s"),
        Some(_) => "met".to_owned(),
    };
    [expected, format!("{deadline}, {verdict}")]
}

fn failure(job: &JobOutcome) -> String {
    let mut line = format!("  job {}", job.job);
    if let Some(evidence) = job.cause.as_ref().and_then(|cause| cause.evidence()) {
        let _ = write!(line, ": {evidence}");
    }
    if let Some(log) = &job.log {
        let _ = write!(line, " (log {})", log.display());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::outcome::{EvictedSpan, Stretch};
    use crate::parallel::Parallel;
    use mgb_probe::Bursts;
    use std::time::Duration;

    fn job(number: usize, state: JobState, cause: Option<Cause>) -> JobOutcome {
        let ms = |ms: u64| Duration::from_millis(ms * number as u64);
        let ended = matches!(state, JobState::Done | JobState::Failed);
        JobOutcome {
            job: number,
            command: format!("./vecadd {number}000"),
            state,
            exit_code: ended.then_some(if state == JobState::Done { 0 } else { 2 }),
            signal: (state == JobState::Stopped).then_some(15),
            cause,
            gpus: (0..number as u32 % 3).collect(),
            tasks: (1..number as u64 % 3 + 1)
                .map(|size| Stretch {
                    gpu: 0,
                    task: "main".to_owned(),
                    from: ms(260),
                    to: ms(1000),
                    peak_bytes: Some(size << 30),
                    away: (number == 2)
                        .then(|| EvictedSpan {
                            from: ms(300),
                            to: ms(900),
                            bytes: 1 << 30,
                        })
                        .into_iter()
                        .collect(),
                })
                .collect(),
            share: (number == 1).then_some(0.327),
            latency: (number == 3).then_some(Bursts {
                count: 5000,
                p50_us: 519,
                p99_us: 11_263,
            }),
            evictions: Evictions {
                times: u64::from(number == 2),
                bytes: u64::from(number == 2) << 30,
                copying: if number == 2 { ms(50) } else { Duration::ZERO },
            },
            moves: u64::from(number == 4),
            queued: ms(10),
            waited: ms(250),
            ran: ms(1000),
            turnaround: ms(1260),
            cpu: Duration::ZERO,
            host_peak_bytes: 0,
            log: ended.then(|| format!("jobs.logs/{number:03}-vecadd.log").into()),
            again: false,
            due: None,
        }
    }

    fn outcome() -> BatchOutcome {
        let memory = Cause::OutOfMemory {
            log_line: "vecadd.cu:30: out of memory".to_owned(),
        };
        let fault = Cause::GpuFault {
            log_line:
                "mgb: the GPU failed under this program (CUDA error 719): its results from then on are void"
                    .to_owned(),
        };
        let jobs = vec![
            job(1, JobState::Done, None),
            job(2, JobState::Failed, Some(memory)),
            job(3, JobState::Failed, Some(Cause::Exit { code: 2 })),
            job(4, JobState::Stopped, None),
            job(5, JobState::NotStarted, None),
            job(6, JobState::Failed, Some(fault)),
        ];
        BatchOutcome::new(
            "cg:4".to_owned(),
            2,
            Parallel::Count(8),
            jobs,
            Duration::from_millis(6300),
        )
    }

    #[test]
    fn people_see() {
        insta::assert_snapshot!(text(&outcome()));
    }

    #[test]
    fn scripts_see() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&outcome()).unwrap());
    }
}
