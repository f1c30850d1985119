//! Jobs of several GPUs: placed as one by `mgb run --gpus`, and without a word. Real processes on software
//! GPUs.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use mgb_tests::node::PrivateNode;
use mgb_tests::process::run;
use mgb_tests::{trace, wait};
use rustix::process::Signal;
use serde_json::Value;

use common::{folder, on, program, view};

/// A job that takes memory on one device after another, each once it is told to.
struct Job {
    child: Child,
    output: BufReader<ChildStdout>,
    /// The GPUs that it has memory on.
    gpus: Vec<String>,
}

impl Job {
    fn start(node: &PrivateNode, pairs: &Path, mib: u64) -> Job {
        Job::start_with(&["run", "--gpus", "2"], node, pairs, mib)
    }

    fn start_with(words: &[&str], node: &PrivateNode, pairs: &Path, mib: u64) -> Job {
        let (pairs, mib) = (pairs.display().to_string(), mib.to_string());
        let mut command = node.mgb(&[words, &[&pairs, "2", &mib]].concat());
        let command = command.env("MGB", "require").stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Job {
            child,
            output,
            gpus: Vec::new(),
        }
    }

    fn says(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// It has memory on its next device.
    #[track_caller]
    fn takes(&mut self) {
        let said = self.says();
        let (device, gpu) = said.split_once(' ').expect("a device and its GPU");
        assert_eq!(device, self.gpus.len().to_string(), "{said}");
        self.gpus.push(gpu.to_owned());
    }

    fn goes_on(&mut self) {
        self.child
            .stdin
            .as_mut()
            .expect("piped")
            .write_all(b"\n")
            .unwrap();
    }

    #[track_caller]
    fn ends(mut self) {
        self.goes_on();
        assert_eq!(self.says(), "PASS");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Four jobs of two GPUs on eight have all eight, though all start at once: placed as one, and without a
/// word.
#[test]
fn jobs_of_two_gpus_spread() {
    let pairs = program("pairs.c", &folder("several-spread"));
    for words in [["run", "--gpus", "2"].as_slice(), &["run"]] {
        spread(words, &pairs);
    }
}

fn spread(words: &[&str], pairs: &Path) {
    let node = PrivateNode::start("8x64MiB", "mgb");
    let mut jobs = [(); 4].map(|()| Job::start_with(words, &node, pairs, 40));
    for job in &mut jobs {
        job.takes();
        job.goes_on();
        job.takes();
    }
    let gpus: BTreeSet<&String> = jobs.iter().flat_map(|job| &job.gpus).collect();
    assert_eq!(gpus.len(), 8);
    jobs.into_iter().for_each(Job::ends);
    node.wait_until_empty();
}

/// Four jobs of two GPUs on four, where no two fit on one: two run, then the other two, and none is refused.
#[test]
fn jobs_of_two_gpus_wait_for_each_other_in_one_order() {
    let pairs = program("pairs.c", &folder("several-wait"));
    let node = PrivateNode::start("4x64MiB", "mgb");
    let jobs = [(); 4].map(|()| Job::start(&node, &pairs, 40));
    let all = jobs.map(|mut job| {
        std::thread::spawn(move || {
            job.takes();
            job.goes_on();
            job.takes();
            job.ends();
        })
    });
    for job in all {
        job.join().expect("it was not refused");
    }
    node.wait_until_empty();
    assert_eq!(node.view().counts.refused, 0);
}

/// Four jobs of two GPUs from a job file: on eight GPUs they have all eight, on two GPUs they take turns, and
/// some have said before how much they take.
#[test]
fn jobs_of_a_file_end_right() {
    let pairs = program("pairs.c", &folder("several-file")).display().to_string();
    for (gpus, word) in [("8x64MiB", ""), ("2x64MiB", ""), ("2x64MiB", "need=40MiB ")] {
        let node = PrivateNode::start(gpus, "mgb");
        let folder = node.folder().display().to_string();
        let has_all = gpus.starts_with('8');
        let waits = format!("until [ -e {folder}/go ]; do sleep 0.05; done;");
        let line = |at: usize| {
            let waits = if has_all { waits.as_str() } else { "" };
            format!("{word}gpus=2 sh: touch {folder}/{at}.there; {waits} printf '\\n\\n' | {pairs} 2 40\n")
        };
        let jobs = node.write("jobs.txt", &(0..4).map(line).collect::<String>());
        let mut batch = node.mgb(&["batch", "-j", "4", "--json"]);
        let batch = batch.arg(jobs).stdin(Stdio::null()).stdout(Stdio::piped());
        let batch = batch.spawn().unwrap();
        if has_all {
            let there = |at: usize| node.folder().join(format!("{at}.there")).exists();
            wait::until("all are there", || (0..4).all(there).then_some(()));
            node.write("go", "");
        }
        let ended = batch.wait_with_output().unwrap();
        let summary: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert!(ended.status.success(), "{summary}");
        let mut taken = BTreeSet::new();
        for job in summary["jobs"].as_array().expect("jobs") {
            let log = std::fs::read_to_string(job["log"].as_str().expect("a log")).unwrap();
            let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("mgb: ")).collect();
            assert_eq!((lines.len(), lines[2]), (3, "PASS"), "{log}");
            let of = |line: &str| line.split_once(' ').expect("a device and its GPU").1.to_owned();
            taken.extend([of(lines[0]), of(lines[1])]);
        }
        assert_eq!(taken.len(), if has_all { 8 } else { 2 });
        node.wait_until_empty();
        assert_eq!(node.view().counts.refused, 0);
    }
}

/// One that has its first device waits for its second; another one that came meanwhile waits for the first
/// one's first, and has nothing that is waited for.
#[test]
fn no_job_waits_for_one_that_waits_for_it() {
    let pairs = program("pairs.c", &folder("several-circle"));
    let node = PrivateNode::start("2x64MiB", "mgb");
    let mut first = Job::start(&node, &pairs, 40);
    first.takes();
    let mut second = Job::start(&node, &pairs, 40);
    wait::until("the second one waits for room", || {
        (!view(&node).queue.is_empty()).then_some(())
    });
    first.goes_on();
    first.takes();
    first.ends();
    second.takes();
    second.goes_on();
    second.takes();
    second.ends();
    node.wait_until_empty();
}

/// Two jobs without a word hold memory on one GPU each and wait for the other one's: the younger makes room,
/// and both have all in the end.
#[test]
fn jobs_that_wait_for_each_other_take_turns() {
    let pairs = program("pairs.c", &folder("several-turns"));
    let node = PrivateNode::start("2x64MiB", "mgb");
    let mut jobs = [(); 2].map(|()| Job::start_with(&["run"], &node, &pairs, 40));
    jobs.iter_mut().for_each(Job::takes);
    assert_ne!(jobs[0].gpus, jobs[1].gpus, "they spread");
    jobs.iter_mut().for_each(Job::goes_on);
    let all = jobs.map(|mut job| {
        std::thread::spawn(move || {
            job.takes();
            job.ends();
        })
    });
    for job in all {
        job.join().expect("it was not refused");
    }
    node.wait_until_empty();
    let counts = node.view().counts;
    assert!(counts.refused == 0 && counts.swapped_out > 0, "{counts:?}");
}

/// Where nobody's memory can leave, one of them is refused and told what to do; the other one goes on.
#[test]
fn who_is_refused_is_told_of_gpus() {
    let pairs = program("pairs.c", &folder("several-refused"));
    let node = PrivateNode::start("2x64MiB", "mgb");
    let pairs = pairs.display().to_string();
    let all = [(); 2].map(|()| {
        let mut command = node.mgb(&["run", &pairs, "2", "40", "export"]);
        let child = command.env("MGB", "require").stdin(Stdio::piped());
        child
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    wait::until("each has memory on its first", || {
        let has = |at: usize| view(&node).gpus[at].resident_bytes >= 40 << 20;
        (has(0) && has(1)).then_some(())
    });
    let mut said: Vec<(Option<i32>, String)> = all
        .into_iter()
        .map(|mut child| {
            std::thread::spawn(move || {
                child.stdin.take().expect("piped").write_all(b"\n\n").unwrap();
                let ended = child.wait_with_output().unwrap();
                (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
            })
        })
        .collect::<Vec<_>>()
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    said.sort();
    assert_eq!([said[0].0, said[1].0], [Some(0), Some(1)], "{said:?}");
    assert!(
        said[1]
            .1
            .contains("start such programs with `mgb run --gpus COUNT`"),
        "{said:?}"
    );
    node.wait_until_empty();
}

/// Memory that programs map by themselves comes back as it was, at the same addresses and by the same
/// handles.
#[test]
fn what_a_program_maps_by_itself_is_swapped() {
    let maps = program("maps.c", &folder("several-maps"));
    for (devices, gpus) in [("1", "1x128MiB"), ("2", "2x128MiB")] {
        let node = PrivateNode::start(gpus, "mgb");
        let file = node.folder().join("trace.jsonl");
        for seed in 1..=2 {
            let mut command = on(&node, &maps, &[devices, &seed.to_string(), "600"]);
            command.env("MGB", "require").env("MGB_EVICT_EVERY", "30");
            assert_eq!(
                run(command.env("MGB_TRACE", &file)).success(),
                "PASS\n",
                "seed {seed}"
            );
        }
        node.wait_until_empty();
        let tasks = trace::read(&file).expect("they have left lines");
        let tasks = tasks.iter().flat_map(|process| &process.tasks);
        let swaps: usize = tasks.map(|task| task.swaps.len()).sum();
        assert!(swaps > 0, "nothing was swapped");
    }
}

/// What cannot be had is said before the program starts.
#[test]
fn more_gpus_than_there_are_are_refused() {
    let node = PrivateNode::start("2x64MiB", "mgb");
    let there = node.folder().join("there").display().to_string();
    let refused = |words: &[&str], said: &[&str]| {
        let words = [&["run"], words, &["touch", &there]].concat();
        run(&mut node.mgb(&words)).failure(said);
        assert!(!node.folder().join("there").exists());
    };
    let all = [
        "failed to place the job on 3 GPUs: at most 2 are visible here",
        "`mgb status` lists all",
    ];
    refused(&["--gpus", "3"], &all);
    let mut seen = node.mgb(&["run", "--gpus", "2", "touch", &there]);
    run(seen.env("CUDA_VISIBLE_DEVICES", "1")).failure(&["at most 1 is visible"]);
    refused(&["--gpus", "2", "--need", "1GiB"], &["needs 1.0 GiB"]);
    refused(&["--gpus", "0"], &["0 is not in 1..=64"]);
    let blind = PrivateNode::start("2x64MiB", "sa");
    let words = ["run", "--gpus", "2", "/bin/true"];
    run(&mut blind.mgb(&words)).failure(&["policy sa gives each process one GPU"]);
}

/// Another mgbd goes on with a job's choice: newcomers have other GPUs.
#[test]
fn another_mgbd_goes_on_with_jobs_of_several_gpus() {
    let pairs = program("pairs.c", &folder("several-again"));
    let mut node = PrivateNode::start("4x64MiB", "mgb");
    let mut first = Job::start(&node, &pairs, 40);
    first.takes();
    node.replace_mgbd(Signal::KILL);
    let mut second = Job::start(&node, &pairs, 40);
    for job in [&mut first, &mut second] {
        if job.gpus.is_empty() {
            job.takes();
        }
        job.goes_on();
        job.takes();
    }
    let gpus: BTreeSet<&String> = first.gpus.iter().chain(&second.gpus).collect();
    assert_eq!(
        gpus.len(),
        4,
        "the second one keeps off the GPUs of the first one"
    );
    [first, second].into_iter().for_each(Job::ends);
    node.wait_until_empty();
}

/// Processes of one job that use a device each: whenever they start they have the job's GPUs, and a number
/// means the same GPU in all of them.
#[test]
fn ranks_have_the_gpus_of_their_job() {
    let parts = program("parts.c", &folder("several-ranks")).display().to_string();
    let node = PrivateNode::start("4x64MiB", "mgb");
    let script = "for rank in 0 1 2; do CUDA_VISIBLE_DEVICES=$(echo $CUDA_VISIBLE_DEVICES | cut -d, -f$((rank % 2 + 1))) \
                  \"$0\" 8 </dev/null; done; \"$0\" 8 1,0 </dev/null";
    let said = run(&mut node.mgb(&["run", "--gpus", "2", "sh", "-c", script, &parts])).success();
    let gpus: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("first "))
        .collect();
    assert_eq!(gpus.len(), 4, "{said}");
    assert!(
        gpus[0] == gpus[2] && gpus[0] != gpus[1] && gpus[3] == gpus[0],
        "{said}"
    );
    node.wait_until_empty();
}
