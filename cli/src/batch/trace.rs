//! Where a job's tasks ran and how long they waited, as its processes wrote it down.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use super::outcome::Stretch;

#[derive(Deserialize)]
struct Process {
    job: Option<String>,
    #[serde(default)]
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
struct Task {
    site: Option<Site>,
    label: Option<String>,
    gpu: Option<u32>,
    #[serde(default)]
    wait_ns: u64,
    seen_peak: Option<u64>,
    #[serde(default)]
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Site {
    function: String,
}

/// In nanoseconds of the machine's monotonic clock.
#[derive(Deserialize)]
struct Span {
    gpu: u32,
    from_ns: u64,
    to_ns: u64,
}

/// The GPUs of the tasks of the job's processes, the sum of what they waited, and when they held room,
/// counted from `began`. A process that was killed has left nothing.
pub fn of_job(trace: &Path, job: &str, began: Instant) -> (Vec<u32>, Duration, Vec<Stretch>) {
    let text = fs::read_to_string(trace).unwrap_or_default();
    of_text(&text, job, monotonic(began))
}

/// What the machine's monotonic clock showed then: `Instant` is that clock, but does not say so.
fn monotonic(instant: Instant) -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32).saturating_sub(instant.elapsed())
}

fn of_text(text: &str, job: &str, began: Duration) -> (Vec<u32>, Duration, Vec<Stretch>) {
    let processes = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Process>(line).ok());
    let its = processes.filter(|process| process.job.as_deref() == Some(job));
    let tasks: Vec<Task> = its.flat_map(|process| process.tasks).collect();
    let mut gpus: Vec<u32> = tasks.iter().filter_map(|task| task.gpu).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let waited = tasks.iter().map(|task| task.wait_ns).sum();
    let stretches = tasks.iter().flat_map(|task| stretches(task, began));
    (gpus, Duration::from_nanos(waited), stretches.collect())
}

fn stretches(task: &Task, began: Duration) -> impl Iterator<Item = Stretch> {
    task.spans.iter().map(move |span| Stretch {
        gpu: span.gpu,
        task: match (&task.site, &task.label) {
            (Some(site), _) => site.function.clone(),
            (None, Some(label)) => label.clone(),
            (None, None) => "lazy".to_owned(),
        },
        from: Duration::from_nanos(span.from_ns).saturating_sub(began),
        to: Duration::from_nanos(span.to_ns).saturating_sub(began),
        peak_bytes: task.seen_peak,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_processes_of_a_job_count() {
        let text = "{\"pid\":7,\"job\":\"a\",\"tasks\":[{\"gpu\":3,\"wait_ns\":9}]}\nno json\n\
                    {\"pid\":7,\"job\":null,\"tasks\":[{\"gpu\":4}]}\n{\"pid\":8,\"job\":\"b\",\"tasks\":[]}\n\
                    {\"pid\":8,\"job\":\"a\",\"tasks\":[{\"gpu\":1,\"wait_ns\":5},{\"gpu\":0,\"wait_ns\":6},\
                    {\"gpu\":null},{\"gpu\":1}]}\n";
        let (gpus, waited, stretches) = of_text(text, "a", Duration::ZERO);
        assert_eq!((gpus, waited), (vec![0, 1, 3], Duration::from_nanos(20)));
        assert_eq!(stretches, []);
        for none in ["b", "c"] {
            assert_eq!(
                of_text(text, none, Duration::ZERO),
                (vec![], Duration::ZERO, vec![])
            );
        }
    }

    #[test]
    fn stretches_count_from_the_start_of_the_batch() {
        let text = r#"{"pid":7,"job":"a","tasks":[
            {"site":{"id":1,"module":"a.cu","function":"main"},"gpu":2,"seen_peak":4096,
             "spans":[{"gpu":1,"from_ns":5000000000,"to_ns":6000000000},{"gpu":2,"from_ns":7000000000,"to_ns":7500000000}]},
            {"site":null,"label":"python train.py","gpu":1,"seen_peak":9,
             "spans":[{"gpu":1,"from_ns":4000000000,"to_ns":5000000000}]},
            {"site":null,"gpu":0,"seen_peak":8,"spans":[{"gpu":0,"from_ns":4000000000,"to_ns":9000000000}]}]}"#;
        let (_, _, stretches) = of_text(&text.replace('\n', ""), "a", Duration::from_secs(4));
        let seen: Vec<_> = stretches
            .iter()
            .map(|s| {
                (
                    s.gpu,
                    s.task.as_str(),
                    s.from.as_millis(),
                    s.to.as_millis(),
                    s.peak_bytes,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (1, "main", 1000, 2000, Some(4096)),
                (2, "main", 3000, 3500, Some(4096)),
                (1, "python train.py", 0, 1000, Some(9)),
                (0, "lazy", 0, 5000, Some(8)),
            ]
        );
    }
}
