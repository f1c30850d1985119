//! Where a job's tasks ran and how long they waited, as its processes wrote it down.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use mgb_probe::{Bursts, clock};

use super::outcome::{EvictedSpan, Evictions, Stretch};
use crate::traced::{self, TracedFailure, TracedKind, TracedSpan, TracedSwap, TracedTask};

/// What the processes of a job wrote down.
#[derive(Debug, Default, PartialEq)]
pub struct Traced {
    /// The GPUs of their tasks.
    pub gpus: Vec<u32>,
    /// The sum of what these waited.
    pub waited: Duration,
    /// When they held room, counted from the start of the batch.
    pub stretches: Vec<Stretch>,
    /// What left the GPUs.
    pub evictions: Evictions,
    /// How often a task of them moved to another GPU.
    pub moves: u64,
    /// When it was expected to end, in seconds since 1970.
    pub expected_end: Option<f64>,
    /// Their part of the time in which the GPUs had work, as
    /// [`JobOutcome::share`](super::outcome::JobOutcome::share).
    pub share: Option<f64>,
    /// What they did not get, or that their GPU failed.
    pub failures: Vec<TracedFailure>,
    /// The bursts of the process with most of them.
    pub latency: Option<Bursts>,
}

/// What the job's processes wrote down, counted from `began`. A process that was killed has left nothing.
pub fn of_job(trace: &Path, job: &str, began: Instant) -> Traced {
    let text = fs::read_to_string(trace).unwrap_or_default();
    of_text(&text, job, monotonic(began))
}

/// What the machine's monotonic clock showed then: `Instant` is that clock, but does not say so.
fn monotonic(instant: Instant) -> Duration {
    clock::now().saturating_sub(instant.elapsed())
}

fn of_text(text: &str, job: &str, began: Duration) -> Traced {
    let processes = traced::processes(text);
    let mut traced = Traced::default();
    let (mut part, mut busy) = (0u64, 0u64);
    for mut process in processes.filter(|process| process.job.as_deref() == Some(job)) {
        for task in &process.tasks {
            traced.gpus.extend(task.gpu);
            traced.waited += Duration::from_nanos(task.wait_ns);
            traced.stretches.extend(stretches(task, began));
            let is_move = |spans: &&[TracedSpan]| spans[0].gpu != spans[1].gpu;
            traced.moves += task.spans.windows(2).filter(is_move).count() as u64;
        }
        traced.failures.append(&mut process.failures);
        traced.expected_end = traced.expected_end.or(process.expected_end);
        let bursts = |latency: Option<Bursts>| latency.map(|bursts| bursts.count);
        if bursts(process.latency) > bursts(traced.latency) {
            traced.latency = process.latency;
        }
        for time in &process.gpu_times {
            part = part.saturating_add(time.part_ns);
            busy = busy.saturating_add(time.gpu_busy_ns);
        }
        if let Some(swapped) = process.swapped {
            traced.evictions.times += swapped.evicted;
            traced.evictions.bytes += swapped.evicted_bytes;
            traced.evictions.copying += Duration::from_nanos(swapped.copy_ns);
        }
    }
    traced.share = (busy > 0).then(|| part as f64 / busy as f64);
    traced.gpus.sort_unstable();
    traced.gpus.dedup();
    traced
}

fn stretches(task: &TracedTask, began: Duration) -> impl Iterator<Item = Stretch> {
    task.spans.iter().map(move |span| Stretch {
        gpu: span.gpu,
        task: task.name(),
        from: Duration::from_nanos(span.from_ns).saturating_sub(began),
        to: Duration::from_nanos(span.to_ns).saturating_sub(began),
        peak_bytes: task.seen_peak,
        away: away(task, span, began),
    })
}

/// When memory of the task was in the host during one of its spans.
fn away(task: &TracedTask, span: &TracedSpan, began: Duration) -> Vec<EvictedSpan> {
    let since_began = |ns: u64| Duration::from_nanos(ns).saturating_sub(began);
    let here =
        |swap: &&TracedSwap| swap.gpu == span.gpu && (span.from_ns..=span.to_ns).contains(&swap.from_ns);
    let mut swaps: Vec<&TracedSwap> = task.swaps.iter().filter(here).collect();
    swaps.sort_by_key(|swap| swap.from_ns);
    let mut away: Vec<EvictedSpan> = Vec::new();
    let mut is_open = false;
    for swap in swaps {
        match (swap.kind, away.last_mut()) {
            // More of it left.
            (TracedKind::Evicted, Some(last)) if is_open => last.bytes += swap.bytes,
            (TracedKind::Evicted, _) => away.push(EvictedSpan {
                from: since_began(swap.from_ns),
                to: since_began(span.to_ns),
                bytes: swap.bytes,
            }),
            (TracedKind::Restored, Some(last)) => last.to = since_began(swap.to_ns.min(span.to_ns)),
            (TracedKind::Restored, None) | (TracedKind::Moved, _) => {}
        }
        is_open = swap.kind == TracedKind::Evicted;
    }
    away
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
        let traced = of_text(text, "a", Duration::ZERO);
        let expected = Traced {
            gpus: vec![0, 1, 3],
            waited: Duration::from_nanos(20),
            ..Traced::default()
        };
        assert_eq!(traced, expected);
        for none in ["b", "c"] {
            assert_eq!(of_text(text, none, Duration::ZERO), Traced::default());
        }
    }

    #[test]
    fn the_share_is_of_all_processes_and_gpus() {
        let text = r#"{"pid":7,"job":"a","gpu_times":[{"gpu":0,"busy_ns":40,"part_ns":20,"gpu_busy_ns":100,"share":0.2},
            {"gpu":1,"busy_ns":80,"part_ns":80,"gpu_busy_ns":80,"share":1.0}]}
{"pid":8,"job":"a","gpu_times":[{"gpu":0,"busy_ns":20,"part_ns":20,"gpu_busy_ns":20,"share":1.0}]}
{"pid":9,"job":"b","gpu_times":[]}"#;
        let text = text.replace(",\n ", ", ");
        assert_eq!(of_text(&text, "a", Duration::ZERO).share, Some(0.6));
        assert_eq!(of_text(&text, "b", Duration::ZERO).share, None);
    }

    #[test]
    fn memory_is_away_until_it_is_back() {
        let swap = |kind, gpu, bytes, from: u64, to: u64| {
            format!(
                r#"{{"kind":"{kind}","gpu":{gpu},"bytes":{bytes},"from_ns":{from}000000000,"to_ns":{to}000000000}}"#
            )
        };
        let swaps = [
            swap("evicted", 1, 7, 6, 7),
            swap("restored", 1, 7, 9, 10),
            // In two parts, of which the second never comes back.
            swap("evicted", 1, 5, 12, 13),
            swap("evicted", 1, 3, 13, 14),
            swap("evicted", 2, 2, 31, 32),
        ];
        let text = format!(
            r#"{{"pid":7,"job":"a","swapped":{{"evicted":4,"evicted_bytes":17,"restored":1,"restored_bytes":7,"copy_ns":2500000000,"left_out":0}},"tasks":[{{"gpu":2,"spans":[{{"gpu":1,"from_ns":5000000000,"to_ns":20000000000}},{{"gpu":2,"from_ns":30000000000,"to_ns":40000000000}}],"swaps":[{}]}}]}}"#,
            swaps.join(",")
        );
        let traced = of_text(&text, "a", Duration::from_secs(4));
        let away: Vec<Vec<_>> = traced
            .stretches
            .iter()
            .map(|stretch| {
                let spans = stretch.away.iter();
                spans
                    .map(|away| (away.from.as_secs(), away.to.as_secs(), away.bytes))
                    .collect()
            })
            .collect();
        assert_eq!(away, [vec![(2, 6, 7), (8, 16, 8)], vec![(27, 36, 2)]]);
        let expected = Evictions {
            times: 4,
            bytes: 17,
            copying: Duration::from_millis(2500),
        };
        assert_eq!(traced.evictions, expected);
    }

    #[test]
    fn stretches_count_from_the_start_of_the_batch() {
        let text = r#"{"pid":7,"job":"a","tasks":[
            {"site":{"id":1,"module":"a.cu","function":"main"},"gpu":2,"seen_peak":4096,
             "spans":[{"gpu":1,"from_ns":5000000000,"to_ns":6000000000},{"gpu":2,"from_ns":7000000000,"to_ns":7500000000}]},
            {"site":null,"label":"python train.py","gpu":1,"seen_peak":9,
             "spans":[{"gpu":1,"from_ns":4000000000,"to_ns":5000000000}]},
            {"site":null,"gpu":0,"seen_peak":8,"spans":[{"gpu":0,"from_ns":4000000000,"to_ns":9000000000}]}]}"#;
        let traced = of_text(&text.replace('\n', ""), "a", Duration::from_secs(4));
        assert_eq!(traced.moves, 1);
        let seen: Vec<_> = traced
            .stretches
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
