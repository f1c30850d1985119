//! The processes of a job have the same GPUs under the same numbers.

mod common;

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mgb_tests::node::Node;

use common::{folder, on, program};

/// A program of several processes that has said what its first devices are, and waits for its end.
struct Job {
    child: Child,
    _stdin: ChildStdin,
    _stdout: Lines<BufReader<ChildStdout>>,
    /// By the value of `CUDA_VISIBLE_DEVICES`; of the first process as `first`.
    said: Vec<(String, String)>,
}

impl Job {
    fn start(command: &mut Command) -> Job {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.env("MGB", "require").spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        loop {
            let line = lines.next().expect("it ended before all had spoken").unwrap();
            if line == "all" {
                break;
            }
            let (devices, uuid) = line.rsplit_once(' ').expect("two words");
            said.push((devices.to_owned(), uuid.to_owned()));
        }
        Job {
            child,
            _stdin: stdin,
            _stdout: lines,
            said,
        }
    }

    fn of(&self, devices: &str) -> Vec<&str> {
        let its = self.said.iter().filter(|(name, _)| name == devices);
        its.map(|(_, uuid)| uuid.as_str()).collect()
    }

    fn first(&self) -> &str {
        self.of("first")[0]
    }

    fn end(mut self) {
        drop(self._stdin);
        assert!(self.child.wait().unwrap().success());
    }
}

fn run(node: &Node, parts: &Path, arguments: &[&str]) -> Command {
    let parts = parts.display().to_string();
    node.mgb(&[&["run", &parts], arguments].concat())
}

#[test]
fn processes_of_a_job_share_a_gpu_and_jobs_spread() {
    let parts = program("parts.c", &folder("parts"));
    let node = Node::start("2x64MiB", "mgb");
    let jobs = [(); 2].map(|()| Job::start(&mut run(&node, &parts, &["8", "-", "-"])));
    for job in &jobs {
        assert_eq!(job.of("-"), [job.first(); 2]);
    }
    assert_ne!(jobs[0].first(), jobs[1].first());
    jobs.into_iter().for_each(Job::end);
    node.wait_until_empty();
}

#[test]
fn a_number_means_the_same_gpu_in_all_processes_of_a_job() {
    let parts = program("parts.c", &folder("numbers"));
    let node = Node::start("2x64MiB", "mgb");
    let other = Job::start(&mut on(&node, &parts, &["40"]));
    let job = Job::start(&mut run(&node, &parts, &["8", "0", "1", "1,0", "-"]));
    assert_ne!(
        other.first(),
        job.first(),
        "the job's first device is not the node's"
    );
    assert_eq!(job.of("0"), [job.first()]);
    assert_eq!(job.of("1"), [other.first()]);
    assert_eq!(job.of("1,0"), [other.first()]);
    assert_eq!(job.of("-"), [job.first()]);
    other.end();
    job.end();
    node.wait_until_empty();
}

#[test]
fn without_a_job_each_process_goes_where_room_is() {
    let parts = program("parts.c", &folder("alone"));
    let node = Node::start("2x64MiB", "mgb");
    let one = Job::start(&mut on(&node, &parts, &["40", "-"]));
    assert_ne!(one.of("-"), [one.first()]);
    // What is no number of a job is none.
    let two = Job::start(on(&node, &parts, &["1"]).env("MGB_JOB", "no such job"));
    assert_ne!(two.first(), one.first());
    one.end();
    two.end();
    node.wait_until_empty();
}
