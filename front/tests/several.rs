//! Jobs of several GPUs: placed as one by `mgb run --gpus`, and without a word. Real processes on software GPUs.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use mgb_tests::node::Node;
use mgb_tests::process::run;
use mgb_tests::wait;

use common::{folder, program, view};

/// A job that takes memory on one device after another, each once it is told to.
struct Job {
    child: Child,
    output: BufReader<ChildStdout>,
    /// The GPUs that it has memory on.
    gpus: Vec<String>,
}

impl Job {
    fn start(node: &Node, pairs: &Path, mib: u64) -> Job {
        Job::start_with(&["run", "--gpus", "2"], node, pairs, mib)
    }

    fn start_with(words: &[&str], node: &Node, pairs: &Path, mib: u64) -> Job {
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

/// Four jobs of two GPUs on eight have all eight, though all start at once: placed as one, and without a word.
#[test]
fn jobs_of_two_gpus_spread() {
    let pairs = program("pairs.c", &folder("several-spread"));
    for words in [["run", "--gpus", "2"].as_slice(), &["run"]] {
        spread(words, &pairs);
    }
}

fn spread(words: &[&str], pairs: &Path) {
    let node = Node::start("8x64MiB", "mgb");
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
    let node = Node::start("4x64MiB", "mgb");
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

/// One that has its first device waits for its second; another one that came meanwhile waits for the first one's
/// first, and has nothing that is waited for.
#[test]
fn no_job_waits_for_one_that_waits_for_it() {
    let pairs = program("pairs.c", &folder("several-circle"));
    let node = Node::start("2x64MiB", "mgb");
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

#[test]
fn more_gpus_than_there_are_are_refused() {
    let node = Node::start("2x64MiB", "mgb");
    let ended = run(&mut node.mgb(&["run", "--gpus", "3", "/bin/true"]));
    ended.failure(&["failed to place the job on 3 GPUs"]);
}
