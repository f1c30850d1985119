//! The processes of a job have the same GPUs under the same numbers.

mod common;

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::softgpu_libraries;

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

fn run(node: &PrivateNode, parts: &Path, arguments: &[&str]) -> Command {
    let parts = parts.display().to_string();
    node.mgb(&[&["run", &parts], arguments].concat())
}

#[test]
fn processes_of_a_job_share_a_gpu_and_jobs_spread() {
    let parts = program("parts.c", &folder("parts"));
    let node = PrivateNode::start("2x64MiB", "mgb");
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
    let node = PrivateNode::start("2x64MiB", "mgb");
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
    let node = PrivateNode::start("2x64MiB", "mgb");
    let one = Job::start(&mut on(&node, &parts, &["40", "-"]));
    assert_ne!(one.of("-"), [one.first()]);
    // What is no number of a job is none.
    let two = Job::start(on(&node, &parts, &["1"]).env("MGB_JOB", "no such job"));
    assert_ne!(two.first(), one.first());
    one.end();
    two.end();
    node.wait_until_empty();
}

/// The GPUs by NVML, in the order of its numbers: what `looks` prints in a process of the job.
fn by_nvml(node: &PrivateNode, looks: &Path, set: &[(&str, &str)]) -> Vec<String> {
    let mut command = on(node, looks, &[]);
    let front = common::front();
    let path = std::env::join_paths([front.clone(), front.join("nvml"), softgpu_libraries()]).unwrap();
    command.env("LD_LIBRARY_PATH", path);
    let said = mgb_tests::process::run(command.envs(set.iter().copied())).success();
    let lines: Vec<&str> = said.lines().collect();
    let (last, gpus) = lines.split_last().expect("lines");
    assert_eq!(
        *last, "2 13",
        "an invalid argument, and a function that is not there"
    );
    let uuid = |(number, line): (usize, &&str)| {
        let (index, uuid) = line.split_once(' ').expect("two words");
        assert_eq!(index, number.to_string(), "{lines:?}");
        uuid.to_owned()
    };
    gpus.iter().enumerate().map(uuid).collect()
}

/// The same digits as CUDA's 16 bytes.
fn digits(uuid: &str) -> String {
    uuid.trim_start_matches("GPU-").replace('-', "")
}

#[test]
fn nvml_counts_gpus_as_the_job_does() {
    let folder = folder("nvml");
    let parts = program("parts.c", &folder);
    let looks = folder.join("looks");
    common::compile("looks.c", &looks, &["-ldl"]);
    let node = PrivateNode::start("2x64MiB", "mgb");
    let in_job = [("MGB_JOB", "7")];
    let natively = by_nvml(&node, &looks, &[("MGB", "off")]);
    assert_eq!(by_nvml(&node, &looks, &in_job), natively, "it has no GPU yet");
    let neighbour = Job::start(&mut run(&node, &parts, &["8"]));
    let job = Job::start(on(&node, &parts, &["8"]).env("MGB_JOB", "7"));
    assert_eq!(
        digits(&natively[1]),
        job.first(),
        "the neighbour has the node's first"
    );
    let exchanged: Vec<String> = natively.iter().rev().cloned().collect();
    assert_eq!(by_nvml(&node, &looks, &in_job), exchanged);
    for other in [
        vec![("MGB_JOB", "8")],
        vec![],
        vec![("MGB_JOB", "7"), ("MGB", "off")],
        // CUDA's order is by names then, and stays.
        vec![("MGB_JOB", "7"), ("CUDA_VISIBLE_DEVICES", &natively[0])],
    ] {
        assert_eq!(by_nvml(&node, &looks, &other), natively, "{other:?}");
    }
    job.end();
    neighbour.end();
    node.wait_until_empty();
    assert_eq!(by_nvml(&node, &looks, &in_job), natively);
}

/// As nvidia-smi in a job's script.
#[test]
fn what_a_job_starts_beside_its_program_counts_gpus_like_it() {
    let folder = folder("beside");
    let parts = program("parts.c", &folder);
    let looks = folder.join("looks");
    common::compile("looks.c", &looks, &["-ldl"]);
    let node = PrivateNode::start("2x64MiB", "mgb");
    let natively = by_nvml(&node, &looks, &[("MGB", "off")]);
    let neighbour = Job::start(&mut run(&node, &parts, &["8"]));
    let script = "cd \"$1\"; rm -f stop; mkfifo stop; \"$2\" 8 <stop >said & exec 3>stop; \
                  until grep -q all said; do sleep 0.05; done; \"$3\"; echo >&3; wait";
    let folder = node.folder().display().to_string();
    let [parts, looks] = [&parts, &looks].map(|file| file.display().to_string());
    let arguments = ["run", "sh", "-c", script, "sh", &folder, &parts, &looks];
    let said = mgb_tests::process::run(&mut node.mgb(&arguments)).success();
    let expected = format!("0 {}\n1 {}\n2 13\n", natively[1], natively[0]);
    assert_eq!(said, expected);
    neighbour.end();
    node.wait_until_empty();
}

#[test]
fn without_nvidias_nvml_there_is_an_error() {
    let folder = folder("no-nvml");
    let looks = folder.join("looks");
    common::compile("looks.c", &looks, &["-ldl"]);
    let nvml = common::front().join("nvml");
    let ended = mgb_tests::process::run(Command::new(&looks).env("LD_LIBRARY_PATH", nvml));
    assert_eq!(ended.code(), 1);
    assert_eq!(ended.stdout, "12 NVIDIA's NVML library was not found\n");
}
