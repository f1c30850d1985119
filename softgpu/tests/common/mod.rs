//! What the tests share: running a body in a process of its own, with its own devices.
//!
//! A process finds its devices once, from the environment, so each test runs as a child of itself:
//! the test binary again, with this test alone.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

const CHILD: &str = "SOFTGPU_TEST_CHILD";

/// The bytes of a mebibyte.
pub const MIB: usize = 1 << 20;

/// Checks that a call succeeded.
#[track_caller]
pub fn ok(code: i32) {
    assert_eq!(code, 0);
}

/// A state file of a test's own, removed at the end.
pub struct StateFile {
    folder: tempfile::TempDir,
}

impl StateFile {
    pub fn new() -> StateFile {
        StateFile {
            folder: tempfile::tempdir_in("/dev/shm").unwrap(),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("state")
    }
}

/// Whether this process is the child that runs `name`.
pub fn is_child(name: &str) -> bool {
    std::env::var(CHILD).as_deref() == Ok(name)
}

/// The command that runs the test `name` of this binary as a child.
pub fn command(name: &str, devices: &str, state: &StateFile) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command
        .env(CHILD, name)
        .env("SOFTGPU_DEVICES", devices)
        .env("SOFTGPU_STATE", state.path());
    command.env_remove("CUDA_VISIBLE_DEVICES").stdin(Stdio::null());
    command
}

/// Runs `body` in a child with these devices, and ends the child; in the parent, checks that it succeeded,
/// and returns what it printed on stdout and stderr.
pub fn in_child(name: &str, devices: &str, body: impl FnOnce()) -> String {
    in_child_with(name, devices, &[], body)
}

/// The same, with more of an environment.
pub fn in_child_with(name: &str, devices: &str, environment: &[(&str, &str)], body: impl FnOnce()) -> String {
    if is_child(name) {
        body();
        // What the parent checks of the output is not the child's to check.
        std::process::exit(0);
    }
    let state = StateFile::new();
    let output = command(name, devices, &state)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{name}: {}\n{text}", output.status);
    text
}

/// A child that does as it is told, line by line, and answers each with a line that begins with `> `.
pub struct ChildProcess {
    child: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl ChildProcess {
    pub fn start(test: &str, devices: &str, state: &StateFile) -> ChildProcess {
        ChildProcess::start_with(test, devices, state, &[])
    }

    /// The same, with more of an environment.
    pub fn start_with(
        test: &str,
        devices: &str,
        state: &StateFile,
        environment: &[(&str, &str)],
    ) -> ChildProcess {
        let mut child = command(test, devices, state)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        ChildProcess { child, answers }
    }

    pub fn ask(&mut self, what: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{what}").unwrap();
        // The test harness writes lines of its own.
        loop {
            let line = self.answers.next().unwrap().unwrap();
            if let Some(answer) = line.split_once("> ") {
                return answer.1.to_owned();
            }
        }
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
