//! `mgb submit` and `mgb queue` with real processes: whoever dies, no job is lost, and none runs twice.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use mgb_tests::built;
use mgb_tests::node::PrivateNode;
use mgb_tests::prefix::prefix;
use mgb_tests::process::{Ended, run};
use mgb_tests::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A node with a queue of its own.
struct QueueNode {
    node: PrivateNode,
    folder: PathBuf,
}

impl QueueNode {
    fn start(gpus: &str) -> Self {
        let node = PrivateNode::start(gpus, "mgb");
        let folder = node.folder().join("queue");
        let queue = Self { node, folder };
        // However busy this machine is.
        queue.mgb(&["queue", "places", "6"]).success();
        queue
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.node.mgb(arguments);
        command
            .env("MGB_QUEUE", &self.folder)
            .current_dir(self.node.folder());
        command
    }

    fn mgb(&self, arguments: &[&str]) -> Ended {
        run(&mut self.command(arguments))
    }

    fn submit(&self, arguments: &[&str]) -> String {
        let ended = self.mgb(&[&["submit"], arguments].concat());
        assert_eq!(ended.code(), 0, "{ended:?}");
        ended.stdout.trim().to_owned()
    }

    fn listing(&self) -> Value {
        let ended = self.mgb(&["queue", "list", "--all", "--json"]);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    }

    /// What is known of one job.
    fn job(&self, id: &str) -> Value {
        let listing = self.listing();
        let jobs = listing["jobs"].as_array().expect("a list");
        let found = jobs.iter().find(|job| job["id"] == id);
        found
            .unwrap_or_else(|| panic!("no job {id} in {listing}"))
            .clone()
    }

    fn state(&self, id: &str) -> String {
        self.job(id)["state"].as_str().expect("a word").to_owned()
    }

    fn until(&self, id: &str, state: &str) {
        wait::until(&format!("job {id} is {state}"), || {
            (self.state(id) == state).then_some(())
        });
    }

    /// Kills the service, if one runs.
    fn kill_service(&self) {
        let listing = UnixStream::connect(self.folder.join("queue.sock"));
        let Ok(mut stream) = listing else { return };
        let mut pid = String::new();
        let asked = stream.write_all(b"{\"list\":{\"jobs\":[\"4294967295\"]}}\n");
        let mut byte = [0];
        while asked.is_ok() && stream.read_exact(&mut byte).is_ok() && byte[0] != b'\n' {
            pid.push(byte[0] as char);
        }
        let answer: Value = serde_json::from_str(&pid).unwrap_or_default();
        let pid = answer["listing"]["pid"]
            .as_i64()
            .and_then(|pid| Pid::from_raw(pid as i32));
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for QueueNode {
    fn drop(&mut self) {
        let _ = self.command(&["queue", "cancel", "--all"]).output();
        let _ = self.command(&["queue", "wait", "--quiet"]).output();
        let _ = self.command(&["queue", "stop"]).output();
    }
}

#[test]
fn jobs_of_all_kinds_end_as_they_should() {
    let queue = QueueNode::start("1x64MiB");
    let phases = built::program("phases");
    let phases = phases.to_str().expect("a path in text");
    // Three that do not fit together.
    let array = ["--array", "0-2", "--", phases, "30", "2", "20", "wait", "10", "8"];
    let on_gpu = queue.submit(&array);
    let words = queue.submit(&["--name", "said", "--", "/bin/echo", "a  b", "c"]);
    let fails = queue.submit(&["--retries", "2", "--", "/bin/sh", "-c", "echo x >> tries; exit 3"]);
    let after = queue.submit(&["--after-ok", &words, "--sh", "echo $MGB_JOB_ID > after; pwd"]);
    let skipped = queue.submit(&["--after-ok", &fails, "--", "/bin/echo"]);
    let follows_skipped = queue.submit(&["--after-ok", &skipped, "--", "/bin/echo"]);
    let anyway = queue.submit(&["--after", &fails, "--", "/bin/echo"]);
    let limited = queue.submit(&["--limit", "500ms", "--", "/bin/sleep", "100"]);
    let held = queue.submit(&["--hold", "--", "/bin/echo"]);

    let ended = queue.mgb(&["queue", "wait", &on_gpu, &words, &after, &anyway]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(queue.mgb(&["queue", "wait", &fails, &limited]).code(), 1);
    assert_eq!(queue.mgb(&["queue", "wait", "77"]).code(), 2);
    let states = |ids: &[&String]| ids.iter().map(|id| queue.state(id)).collect::<Vec<_>>();
    assert_eq!(states(&[&fails, &limited]), ["failed", "failed"]);
    assert_eq!(
        states(&[&skipped, &follows_skipped, &held]),
        ["skipped", "skipped", "held"]
    );
    let limit = queue.job(&limited)["attempts"][0]["failure"]["kind"].clone();
    assert_eq!(limit, "time-limit");
    let attempts = queue.job(&fails)["attempts"].as_array().map(Vec::len);
    assert_eq!(attempts, Some(3));
    let tries = fs::read_to_string(queue.node.folder().join("tries")).expect("it was tried");
    assert_eq!(tries, "x\nx\nx\n");
    assert_eq!(queue.mgb(&["queue", "logs", &words]).stdout, "a  b c\n");
    let folder = queue.node.folder().display().to_string();
    assert_eq!(
        queue.mgb(&["queue", "logs", &after]).stdout,
        format!("{folder}\n")
    );
    for index in 0..3 {
        let job = queue.job(&format!("{on_gpu}_{index}"));
        assert_eq!(job["attempts"][0]["gpus"], serde_json::json!([0]), "{job}");
    }

    queue.mgb(&["queue", "release", &held]).success();
    queue.until(&held, "done");
    let counts = |text: &str| {
        queue
            .mgb(&["queue", "clean", "--state", "done"])
            .stdout
            .contains(text)
    };
    assert!(counts("forgotten"));
    let listing = queue.listing();
    let left: Vec<&str> = listing["jobs"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|job| job["id"].as_str())
        .collect();
    assert_eq!(left, [&fails, &skipped, &follows_skipped, &limited]);
    assert!(!queue.folder.join("jobs").join(&words).exists());
}

#[test]
fn what_is_cancelled_ends_and_what_is_lost_is_said() {
    let queue = QueueNode::start("1x64MiB");
    let stubborn = queue.submit(&["--sh", "trap '' TERM; /bin/sleep 100 & wait; wait; wait"]);
    let waits = queue.submit(&["--after", &stubborn, "--", "/bin/echo"]);
    let lost = queue.submit(&["--retries", "3", "--", "/bin/sleep", "100"]);
    let again = queue.submit(&["--retries", "1", "--retry-on", "lost", "--", "/bin/sleep", "2"]);
    for id in [&stubborn, &lost, &again] {
        wait::until("it has a process", || queue.job(id)["pid"].as_u64());
    }
    queue.mgb(&["queue", "cancel", &stubborn, &waits]).success();
    assert_eq!(queue.state(&waits), "cancelled");
    for id in [&lost, &again] {
        let started = queue.folder.join(format!("jobs/{id}/1/started"));
        let pid = fs::read_to_string(started).expect("it was started");
        let pid = pid
            .trim()
            .parse()
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process");
        kill_process(pid, Signal::KILL).expect("it lives");
    }
    queue.until(&lost, "failed");
    assert_eq!(queue.job(&lost)["attempts"][0]["failure"]["kind"], "lost");
    queue.until(&again, "done");
    assert_eq!(queue.job(&again)["attempts"].as_array().map(Vec::len), Some(2));
    // It heeds no SIGTERM.
    queue.until(&stubborn, "cancelled");
}

/// The number of jobs that go through the queue while its service is killed again and again.
fn job_count() -> usize {
    let set = std::env::var("MGB_QUEUE_JOBS").ok();
    set.map_or(60, |count| count.parse().expect("MGB_QUEUE_JOBS is a number"))
}

#[test]
fn a_service_that_is_killed_loses_no_job_and_runs_none_twice() {
    let count = job_count();
    let queue = QueueNode::start("1x64MiB");
    let array = format!("0-{}", count - 1);
    // Without GPUs and without mgbd: what is asked here is the queue.
    let text = "sleep 0.05; echo $MGB_ARRAY_INDEX >> ran";
    let mut submit = queue.command(&["submit", "--array", &array, "--sh", text]);
    let ended = run(submit.env("MGB", "off"));
    assert_eq!(ended.code(), 0, "{ended:?}");
    let mut kills = 0;
    loop {
        std::thread::sleep(Duration::from_millis(40 + 90 * (kills % 7)));
        queue.kill_service();
        kills += 1;
        // The next command starts it anew.
        let ended = queue.mgb(&["queue", "list", "--all", "--json", "--state", "done"]);
        let listing: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
        if listing["jobs"].as_array().is_some_and(|jobs| jobs.len() == count) {
            break;
        }
        let states = queue.mgb(&["queue", "list", "--json", "--state", "failed"]);
        let failed: Value = serde_json::from_str(&states.stdout).unwrap_or_default();
        assert!(failed["jobs"].as_array().is_none_or(Vec::is_empty), "{failed}");
    }
    let ran = fs::read_to_string(queue.node.folder().join("ran")).expect("they ran");
    let mut times: BTreeMap<usize, usize> = BTreeMap::new();
    for line in ran.lines() {
        *times.entry(line.parse().expect("an index")).or_default() += 1;
    }
    let expected: BTreeMap<usize, usize> = (0..count).map(|index| (index, 1)).collect();
    assert_eq!(times, expected, "after {kills} kills");
    println!("{count} jobs, each once, while the service was killed {kills} times");
}

/// A job that ends while the disk is full, one that is submitted then, and some that are being started.
const FULL_DISK: &str = r#"
set -e
mkdir "$MGB_QUEUE"
mount -t tmpfs -o size=4m,mode=700 none "$MGB_QUEUE" || { echo "left out: no mount"; exit 0; }
first=$(mgb submit --sh 'sleep 1')
until mgb queue list | grep -q running; do sleep 0.05; done
head -c 8m /dev/zero > "$MGB_QUEUE/fill" 2> /dev/null || true
if mgb submit --sh 'echo lost' 2> said; then exit 9; fi
grep 'No space left' said
sleep 1.5
rm "$MGB_QUEUE/fill"
mgb queue wait "$first"
many=$(mgb submit --array 0-29 --sh true)
head -c 8m /dev/zero > "$MGB_QUEUE/fill" 2> /dev/null || true
sleep 1.5
rm "$MGB_QUEUE/fill"
mgb queue wait "$many"
mgb queue list --all --json
mgb queue stop
"#;

#[test]
fn a_full_disk_refuses_jobs_and_loses_none() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: only root can mount a small disk");
        return;
    }
    let node = PrivateNode::start("1x64MiB", "mgb");
    let mut command = node.command("unshare", &["--mount", "sh", "-c", FULL_DISK]);
    let path = format!("{}:/usr/bin:/bin", prefix().join("bin").display());
    let queue = node.folder().join("queue");
    command
        .env("PATH", path)
        .env("MGB_QUEUE", queue)
        .env("MGB", "off");
    let ended = run(command.current_dir(node.folder()));
    if ended.stdout.contains("left out:") || ended.stderr.contains("unshare:") {
        eprintln!("left out: this root may not mount");
        return;
    }
    assert_eq!(ended.code(), 0, "{ended:?}");
    let (said, listing) = ended.stdout.split_once('{').expect("JSON at the end");
    assert!(said.contains("No space left"), "{ended:?}");
    let listing = format!("{{{listing}");
    let mut values = serde_json::Deserializer::from_str(&listing).into_iter::<Value>();
    let listing = values.next().expect("one").expect("it is JSON");
    let jobs = listing["jobs"].as_array().expect("a list");
    let are_done = jobs.iter().all(|job| job["state"] == "done");
    assert!(are_done && jobs.len() == 31, "{listing}");
}

/// What stands in the folders of a store that is gone is not taken for what has become of new jobs.
#[test]
fn a_store_that_was_moved_away_takes_no_old_job_for_a_new_one() {
    let queue = QueueNode::start("1x64MiB");
    let old = queue.submit(&["--wait", "--json", "--", "/bin/echo", "old"]);
    assert!(old.contains("done"), "{old}");
    queue.mgb(&["queue", "stop"]).success();
    let store = queue.folder.join("queue.redb");
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&store).expect("there is one"));
    assert_eq!(mode & 0o777, 0o600, "passwords may be in it");
    fs::rename(&store, queue.folder.join("old.redb")).expect("it can be moved");
    let new = queue.submit(&["--", "/bin/echo", "new"]);
    assert_eq!(new, "2");
    assert_eq!(queue.mgb(&["queue", "wait", &new]).code(), 0);
    assert_eq!(queue.mgb(&["queue", "logs", &new]).stdout, "new\n");
}

#[test]
fn a_job_that_cannot_be_started_stops_no_other() {
    let queue = QueueNode::start("1x64MiB");
    let broken = queue.submit(&["--hold", "--", "/bin/echo"]);
    let in_the_way = queue.folder.join("jobs").join(&broken);
    fs::create_dir_all(queue.folder.join("jobs")).expect("its folder can be written");
    fs::write(in_the_way, "").expect("its folder can be written");
    queue.mgb(&["queue", "release", &broken]).success();
    queue.until(&broken, "running");
    let other = queue.submit(&["--", "/bin/echo"]);
    queue.until(&other, "done");
    let trouble = queue.listing()["trouble"].clone();
    let trouble = trouble.as_str().unwrap_or_default();
    assert!(trouble.contains(&format!("job {broken}")), "{trouble}");
    let mut waits = queue.command(&["queue", "wait", &broken]);
    let mut waits = waits.stderr(Stdio::piped()).spawn().expect("mgb runs");
    let mut told = String::new();
    let errors = waits.stderr.take().expect("it is piped");
    BufReader::new(errors).read_line(&mut told).expect("it is text");
    assert!(
        told.starts_with("mgb queue: no job is started: ") && told.contains(&format!("job {broken}")),
        "{told}"
    );
    queue.mgb(&["queue", "cancel", &broken]).success();
    assert_eq!(waits.wait().expect("it ends").code(), Some(1));
    queue.until(&broken, "cancelled");
}

/// A service that ends takes nothing that nobody would start then; `mgb queue stop` returns once it has
/// ended.
#[test]
fn a_service_that_ends_takes_no_job() {
    let queue = QueueNode::start("1x64MiB");
    let socket = queue.folder.join("queue.sock");
    let connect = || UnixStream::connect(&socket).expect("it listens");
    let ask = |stream: &mut UnixStream, request: &[u8]| {
        stream.write_all(request).expect("it reads");
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).expect("it answers");
        answer
    };
    // The service waits a second for those that are connected.
    let mut late = connect();
    let answer = ask(&mut connect(), b"\"stop\"\n");
    assert!(answer.contains("changed"), "{answer}");
    assert_eq!(ask(&mut late, b"{\"release\":{}}\n"), "\"ending\"\n");
    // A command finds, or starts, the next one.
    assert_eq!(queue.submit(&["--", "/bin/echo"]), "1");
    queue.until("1", "done");
    let waits_for_us = connect();
    let service = queue.listing()["pid"].clone();
    queue.mgb(&["queue", "stop"]).success();
    drop(waits_for_us);
    let process = PathBuf::from(format!("/proc/{service}/stat"));
    let state = fs::read_to_string(process).unwrap_or_default();
    // A zombie until whoever started it has waited for it.
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[test]
fn who_talks_nonsense_harms_nobody() {
    let queue = QueueNode::start("1x64MiB");
    queue.submit(&["--hold", "--", "/bin/echo"]);
    let connect = || UnixStream::connect(queue.folder.join("queue.sock")).expect("it listens");
    for nonsense in [
        &b"\n"[..],
        b"{}\n",
        b"\xff\xfe\0\n",
        b"{\"list\":{\"jobs\":[\"0\"]}}\n",
        b"{\"submit\":{\"jobs\":[],\"array\":null,\"environment\":[],\"is_held\":false}}\n",
    ] {
        let mut stream = connect();
        stream.write_all(nonsense).expect("it reads");
        let mut answer = [0; 4096];
        let read = stream.read(&mut answer).expect("it answers");
        let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(answer.contains("refused"), "{answer}");
    }
    // Some that say nothing, or stop in the middle of a word.
    let mut quiet: Vec<UnixStream> = (0..40).map(|_| connect()).collect();
    quiet
        .iter_mut()
        .for_each(|stream| stream.write_all(b"{\"li").expect("it reads"));
    assert_eq!(queue.state("1"), "held");
}
