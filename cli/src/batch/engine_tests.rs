//! The engine with real processes; a script stands in for `mgb run`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mgb_command::machine::Machine;

use super::auto;
use super::cause::Cause;
use super::engine::{self, Observer};
use super::jobfile::FileJob;
use super::outcome::{JobOutcome, JobState};
use super::setup::Setup;
use crate::parallel::Parallel;
use crate::stop::StopSignals;

/// What `mgb run --placement FILE --job NAME [--need N] -- PROGRAM …` does, without GPUs.
const STAND_IN: &str = r#"#!/bin/sh
file=$3; export MGB_JOB="$5"; shift 5
if [ "$1" = --need ]; then
    if [ "$2" -gt 1000 ]; then echo '{"gpu":null,"waited_ns":0,"refused":"needs 2 KiB, the largest GPU has 1 KiB"}' > $file; exit 125; fi
    echo '{"gpu":3,"waited_ns":1000000,"refused":null}' > $file; shift 2
fi
shift; exec "$@"
"#;

fn setup(folder: &Path, parallel: usize) -> Setup {
    let mgb = folder.join("mgb");
    fs::write(&mgb, STAND_IN).unwrap();
    fs::set_permissions(&mgb, fs::Permissions::from_mode(0o755)).unwrap();
    Setup {
        mgb,
        machine: Machine::Real { gpus: 1 },
        environment: vec![("FOLDER".into(), folder.into())],
        parallel: Parallel::Count(parallel),
        auto: auto::AutoSettings {
            socket: folder.join("no.sock"),
            gpus: 1,
            peaks: auto::peaks::Peaks::default(),
        },
        logs: folder.to_owned(),
        trace: folder.join("trace.jsonl"),
        again: false,
    }
}

fn shell(scripts: &[&str]) -> Vec<FileJob> {
    let job = |(index, script): (usize, &&str)| FileJob {
        number: index + 1,
        text: (*script).to_owned(),
        need: None,
        gpus: None,
        deadline: None,
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".to_owned(), (*script).to_owned()],
        environment: Vec::new(),
    };
    scripts.iter().enumerate().map(job).collect()
}

/// Writes a byte, as a signal would, each time that many jobs have been started or have ended.
#[derive(Default)]
struct Watcher {
    running: usize,
    most: usize,
    started: usize,
    stop_at: Option<(usize, UnixStream)>,
}

impl Observer for Watcher {
    fn started(&mut self, _: &FileJob) {
        self.started += 1;
        self.running += 1;
        self.most = self.most.max(self.running);
        if let Some((at, write)) = &mut self.stop_at
            && *at == self.started
        {
            write.write_all(b"x").unwrap();
        }
    }

    fn ended(&mut self, outcome: &JobOutcome) {
        self.running -= usize::from(outcome.log.is_some());
    }

    fn postponed(&mut self, _: &JobOutcome) {
        self.running -= 1;
    }

    fn stopping(&mut self, _: bool) {}
}

/// The first and the second job find a GPU that failed under them, the second one the next time as well.
#[test]
fn jobs_whose_gpu_failed_run_once_more_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let fault = "echo 'mgb: the GPU failed under this program (CUDA error 719): void'";
    let once = format!("echo run >> $FOLDER/once; if [ $(wc -l < $FOLDER/once) = 1 ]; then {fault}; fi");
    let jobs = shell(&[
        &once,
        &format!("echo run >> $FOLDER/always; {fault}; exit 1"),
        "true",
    ]);
    for again in [false, true] {
        let mut setup = setup(folder.path(), 3);
        setup.again = again;
        let (stop, _write) = StopSignals::pretended();
        let mut watcher = Watcher::default();
        let (outcomes, _) = engine::run(&jobs, &setup, &stop, &mut watcher).unwrap();
        let runs = |name: &str| {
            fs::read_to_string(folder.path().join(name))
                .unwrap()
                .lines()
                .count()
        };
        assert_eq!(
            (runs("once"), runs("always")),
            if again { (2, 2) } else { (1, 1) }
        );
        let ended: Vec<_> = outcomes
            .iter()
            .map(|outcome| (outcome.state, outcome.again))
            .collect();
        let first = if again { JobState::Done } else { JobState::Failed };
        assert_eq!(
            ended,
            [(first, again), (JobState::Failed, again), (JobState::Done, false)]
        );
        assert!(matches!(outcomes[1].cause, Some(Cause::GpuFault { .. })));
        let log = outcomes[1].log.as_ref().unwrap().display().to_string();
        assert_eq!(log.ends_with("-again.log"), again, "{log}");
        assert_eq!(watcher.running, 0);
        fs::remove_file(folder.path().join("once")).unwrap();
        fs::remove_file(folder.path().join("always")).unwrap();
    }
}

#[test]
fn jobs_end_each_in_its_own_way() {
    let folder = tempfile::tempdir().unwrap();
    let mut jobs = shell(&[
        "echo out; echo err >&2",
        "echo 'cudaMalloc: out of memory'; exit 2",
        "exit 7",
        "kill -9 $$",
        "echo '{\"job\":\"'$MGB_JOB'\",\"tasks\":[{\"gpu\":1,\"wait_ns\":5}]}' >> $MGB_TRACE",
        "true",
        "true",
    ]);
    jobs[5].need = Some(10);
    jobs[6].need = Some(2000);
    let setup = setup(folder.path(), 2);
    let (stop, _write) = StopSignals::pretended();
    let mut watcher = Watcher::default();
    let (outcomes, makespan) = engine::run(&jobs, &setup, &stop, &mut watcher).unwrap();
    assert_eq!(watcher.most, 2);
    let numbers: Vec<usize> = outcomes.iter().map(|outcome| outcome.job).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    let states: Vec<bool> = outcomes
        .iter()
        .map(|outcome| outcome.state == JobState::Done)
        .collect();
    assert_eq!(states, [true, false, false, false, true, true, false]);
    assert_eq!(
        fs::read_to_string(outcomes[0].log.as_ref().unwrap()).unwrap(),
        "out\nerr\n"
    );
    assert!(matches!(outcomes[1].cause, Some(Cause::OutOfMemory { .. })));
    assert_eq!(outcomes[2].cause, Some(Cause::Exit { code: 7 }));
    assert_eq!(outcomes[3].cause, Some(Cause::Signal { signal: 9 }));
    assert_eq!(outcomes[4].gpus, [1]);
    assert_eq!(
        (outcomes[5].gpus.as_slice(), outcomes[5].waited),
        (&[3][..], Duration::from_millis(1))
    );
    assert!(
        matches!(&outcomes[6].cause, Some(Cause::NeverFits { log_line }) if log_line.starts_with("needs 2 KiB"))
    );
    assert!(outcomes.iter().all(|outcome| outcome.turnaround <= makespan));
}

#[test]
fn a_signal_stops_what_was_started_with_all_its_children() {
    let folder = tempfile::tempdir().unwrap();
    // The job's own child; its pid is there once it runs.
    let jobs = shell(&[
        "sleep 60 & echo $! > $FOLDER/child; echo x > $FOLDER/up; wait",
        "true",
        "true",
    ]);
    let setup = setup(folder.path(), 1);
    let (stop, mut write) = StopSignals::pretended();
    let up = folder.path().join("up");
    let signal = std::thread::spawn(move || {
        while !up.exists() {
            std::thread::sleep(Duration::from_millis(2));
        }
        write.write_all(b"x").unwrap();
        write
    });
    let began = Instant::now();
    let (outcomes, _) = engine::run(&jobs, &setup, &stop, &mut Watcher::default()).unwrap();
    drop(signal.join().unwrap());
    assert!(began.elapsed() < Duration::from_secs(30));
    let states: Vec<JobState> = outcomes.iter().map(|outcome| outcome.state).collect();
    assert_eq!(
        states,
        [JobState::Stopped, JobState::NotStarted, JobState::NotStarted]
    );
    assert_eq!(outcomes[0].signal, Some(15));
    let child = fs::read_to_string(folder.path().join("child")).unwrap();
    // Its signal is on the way; that it dies of it takes a moment.
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_gone(child.trim()) {
        assert!(Instant::now() < deadline, "the job's child still runs");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_second_signal_kills_what_does_not_heed_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = shell(&["trap '' TERM; echo x > $FOLDER/up; while :; do sleep 0.05; done"]);
    let setup = setup(folder.path(), 1);
    let (stop, mut write) = StopSignals::pretended();
    let up = folder.path().join("up");
    let signals = std::thread::spawn(move || {
        while !up.exists() {
            std::thread::sleep(Duration::from_millis(2));
        }
        write.write_all(b"x").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        write.write_all(b"x").unwrap();
        write
    });
    let began = Instant::now();
    let (outcomes, _) = engine::run(&jobs, &setup, &stop, &mut Watcher::default()).unwrap();
    drop(signals.join().unwrap());
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "killed before the patience was over"
    );
    assert_eq!(
        (outcomes[0].state, outcomes[0].signal),
        (JobState::Stopped, Some(9))
    );
}

#[test]
fn jobs_that_wait_are_not_started_after_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = shell(&["sleep 60", "sleep 60", "sleep 60", "sleep 60"]);
    let setup = setup(folder.path(), 2);
    let (stop, write) = StopSignals::pretended();
    let mut watcher = Watcher {
        stop_at: Some((2, write)),
        ..Watcher::default()
    };
    let (outcomes, _) = engine::run(&jobs, &setup, &stop, &mut watcher).unwrap();
    assert_eq!(watcher.started, 2);
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| outcome.state == JobState::NotStarted)
            .count(),
        2
    );
}

/// Whether a process has ended: its parent may not have waited for it yet.
fn is_gone(pid: &str) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => true,
    }
}
