use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::batch::cause::Cause;
use crate::batch::outcome::{Evictions, Stretch};
use crate::bench::bound::{Alone, Resources};
use crate::bench::facts::tests::facts;
use crate::parallel::Parallel;

fn profile(kernels_s: f64) -> Profile {
    Profile {
        host_s: 2.0,
        kernels_s,
        ..Profile::default()
    }
}

/// A run of two jobs that ended then, of which the first so many failed. Kernels take longer the more
/// policies differ from `sa`.
pub fn run(mix: &str, policy: &str, number: usize, ends: &[f64], failed: usize) -> MixRun {
    let at = Duration::from_secs_f64;
    let job = |(index, end): (usize, &f64)| JobOutcome {
        job: index + 1,
        command: format!("train {index}"),
        state: if index < failed {
            JobState::Failed
        } else {
            JobState::Done
        },
        exit_code: Some(i32::from(index < failed)),
        signal: None,
        cause: (index < failed).then(|| Cause::OutOfMemory {
            log_line: "out of memory".to_owned(),
        }),
        gpus: vec![index as u32 % 2],
        tasks: vec![Stretch {
            gpu: index as u32 % 2,
            task: "main".to_owned(),
            from: at(0.5),
            to: at(*end),
            peak_bytes: Some(1 << 30),
            away: Vec::new(),
        }],
        evictions: Evictions::default(),
        moves: 0,
        share: None,
        latency: None,
        queued: at(0.1),
        waited: Duration::ZERO,
        ran: at(end - 0.1),
        turnaround: at(*end),
        cpu: at(1.0),
        host_peak_bytes: 1 << 20,
        log: Some("a.log".into()),
        again: false,
        due: None,
    };
    let jobs: Vec<JobOutcome> = ends.iter().enumerate().map(job).collect();
    let makespan = at(ends.iter().copied().fold(0.0, f64::max));
    let kernels = if policy == "sa" { 1.0 } else { 1.1 };
    MixRun {
        mix: mix.to_owned(),
        arm: Arm {
            policy: policy.to_owned(),
            queue: None,
            mps: true,
            at_once: None,
        },
        run: number,
        host_memory_short: false,
        rehearsed: false,
        served: None,
        results: jobs
            .iter()
            .map(|_| JobResult {
                output: ResultMatch::Same,
                profile: Some(profile(kernels)),
            })
            .collect(),
        batch: BatchOutcome::new(policy.to_owned(), 2, Parallel::Count(2), jobs, makespan),
        samples: (0..10)
            .map(|step| MeasuredSample {
                at: Duration::from_millis(step * 100),
                used_bytes: vec![step << 30, 0],
                reserved_bytes: vec![0, step << 30],
                queue: 1,
            })
            .collect(),
    }
}

/// Two jobs, one after the other under `sa`, at once under `mgb`.
pub fn results() -> Results {
    let alone = |index: usize| AloneEntry {
        command: format!("train {index}"),
        wall_s: 3.0,
        cpu_s: 2.0,
        host_peak_bytes: 1 << 20,
        gpu_peak_bytes: Some(1 << 30),
        profile: Some(profile(1.0)),
        checksum: Some("00C0FFEE".to_owned()),
    };
    let bound = Bound::of(
        &[Alone {
            wall_s: 3.0,
            profile: Some(profile(1.0)),
        }; 2],
        Resources { gpus: 2, cores: 32 },
    );
    let mut results = Results::new(facts());
    results.alone = vec![alone(0), alone(1)];
    results.mixes.push(MixEntry {
        name: "W".to_owned(),
        about: "two jobs".to_owned(),
        jobs: vec!["train 0".to_owned(), "train 1".to_owned()],
        bound,
    });
    results.runs = vec![
        run("W", "sa", 1, &[3.0, 6.4], 0),
        run("W", "mgb", 1, &[3.1, 3.2], 0),
    ];
    results
}

#[test]
fn what_is_written_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let mut written = results();
    written.figures = crate::bench::compare::of(&written);
    written.write(&file).unwrap();
    let read = Results::read(&file).unwrap().go_on(&facts()).unwrap();
    assert!(read.has("W", &written.runs[0].arm, 1) && !read.has("W", &written.runs[0].arm, 2));
    assert_eq!(read.figures, written.figures);
    // Nothing is lost on the way.
    let again = folder.path().join("again.json");
    read.write(&again).unwrap();
    assert_eq!(fs::read(&file).unwrap(), fs::read(&again).unwrap());
}

#[test]
fn another_machine_commit_or_mix_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    results().write(&file).unwrap();
    let mut now = facts();
    now.commit = "decaf".to_owned();
    let error = Results::read(&file).unwrap().go_on(&now).unwrap_err().to_string();
    assert!(error.contains("commit: c0ffee there, decaf here"), "{error}");
    let mut read = Results::read(&file).unwrap().go_on(&facts()).unwrap();
    let mut mix = read.mixes[0].clone();
    read.add_mix(mix.clone()).unwrap();
    assert_eq!(read.mixes.len(), 1);
    mix.jobs.pop();
    assert!(
        read.add_mix(mix)
            .unwrap_err()
            .to_string()
            .contains("W has other jobs")
    );
    fs::write(&file, "{}").unwrap();
    assert!(Results::read(&file).is_err());
}

#[test]
fn another_result_is_a_failure() {
    let mut one = run("W", "mgb", 1, &[1.0, 2.0], 1);
    assert_eq!(one.failed(), 1);
    one.results[1].output = ResultMatch::Other;
    assert_eq!(one.failed(), 2);
    one.results[1].output = ResultMatch::Unchecked;
    assert_eq!(one.failed(), 1);
}

#[test]
fn samples_keep_their_peaks() {
    let samples = run("W", "mgb", 1, &[1.0], 0).samples;
    let thin = thinned(samples.clone(), 3);
    assert_eq!(thin.len(), 3);
    assert_eq!((thin[0].at, thin[1].at), (Duration::ZERO, samples[4].at));
    assert_eq!(
        (thin[0].used_bytes[0], thin[2].reserved_bytes[1]),
        (3 << 30, 9 << 30)
    );
    assert_eq!(thinned(samples.clone(), 100), samples);
}

/// Whether two documents say the same: numbers may differ by a thousandth, to which they are rounded.
fn is_close(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let same = |(key, value)| other.get(key).is_some_and(|other| is_close(value, other));
            one.len() == other.len() && one.iter().all(same)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_close(one, other))
        }
        (Value::Number(one), Value::Number(other)) => {
            let numbers = one.as_f64().zip(other.as_f64());
            numbers.is_some_and(|(one, other)| (one - other).abs() < 1.5e-3)
        }
        (one, other) => one == other,
    }
}

/// Of the documents that are kept: their bounds and figures follow from their runs.
#[test]
fn kept_documents_are_what_their_runs_say() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/results"));
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut count = 0;
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "json")) {
        let mut results = Results::read(&file).unwrap();
        let before = results.clone();
        let node = Resources {
            gpus: results.facts.machine.gpus.len(),
            cores: results.facts.machine.cores,
        };
        for mix in &mut results.mixes {
            let alone = mix.jobs.iter().map(|job| before.alone(job).unwrap());
            let alone: Vec<Alone> = alone
                .map(|entry| Alone {
                    wall_s: entry.wall_s,
                    profile: entry.profile,
                })
                .collect();
            mix.bound = Bound::of(&alone, node);
        }
        results.figures = crate::bench::compare::of(&results);
        let value = |results: &Results| serde_json::to_value((&results.mixes, &results.figures)).unwrap();
        assert!(is_close(&value(&results), &value(&before)), "{}", file.display());
        count += 1;
    }
    assert!(count > 0);
}
