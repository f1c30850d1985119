//! Programs run by tests: output captured, never left behind, never waited for without an end.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::wait::{self, TEST_TIMEOUT};

/// What a program left when it ended.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

impl Ended {
    /// The exit code, or 128 and the signal as a shell counts.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Checks that the program succeeded, and gives its standard output.
    #[track_caller]
    pub fn success(self) -> String {
        assert!(
            self.status.success(),
            "exit code {}\n-- stdout\n{}-- stderr\n{}",
            self.code(),
            self.stdout,
            self.stderr
        );
        self.stdout
    }

    /// Checks that the program failed with an exit code of its own (no signal), and that its standard error
    /// has every one of `fragments`.
    #[track_caller]
    pub fn failure(self, fragments: &[&str]) -> String {
        let code = self.status.code();
        assert!(
            code.is_some_and(|c| c != 0 && c != 101),
            "expected a failure, got {:?}\n-- stderr\n{}",
            self.status,
            self.stderr
        );
        for fragment in fragments {
            assert!(
                self.stderr.contains(fragment),
                "standard error lacks '{fragment}':\n{}",
                self.stderr
            );
        }
        self.stderr
    }
}

/// A program that runs. Dropping it kills it and its process group.
#[derive(Debug)]
pub struct RunningProgram {
    child: Child,
    /// Standard output, and standard error where this process reads it.
    outputs: Option<(JoinHandle<String>, Option<JoinHandle<String>>)>,
    ended: bool,
}

impl RunningProgram {
    /// Starts `command` in a process group of its own, its standard input closed.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> RunningProgram {
        RunningProgram::start_with(command, Stdio::piped())
    }

    /// As [`RunningProgram::start`], with another standard error.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[track_caller]
    pub fn start_with(command: &mut Command, stderr: Stdio) -> RunningProgram {
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("failed to start {:?}: {error}", command.get_program()),
        };
        let stdout = drain(child.stdout.take().expect("is piped"));
        let stderr = child.stderr.take().map(drain);
        RunningProgram {
            child,
            outputs: Some((stdout, stderr)),
            ended: false,
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        !self.ended && matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal to the process alone, not to its group.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // A process that ended already needs no signal.
        let _ = rustix::process::kill_process(pid, signal);
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// When it does not end within [`TEST_TIMEOUT`]; it is killed then.
    #[track_caller]
    pub fn end(self) -> Ended {
        self.end_within(TEST_TIMEOUT)
    }

    /// Waits for its end, `patience` at most.
    ///
    /// # Panics
    ///
    /// When it does not end by then; it is killed.
    #[track_caller]
    pub fn end_within(self, patience: Duration) -> Ended {
        match self.try_end_within(patience) {
            Ok(ended) => ended,
            Err(ended) => panic!("still ran after {patience:?}: {ended:?}"),
        }
    }

    /// Waits for its end, `patience` at most.
    ///
    /// # Errors
    ///
    /// What it left, when it did not end by then; it is killed.
    ///
    /// # Panics
    ///
    /// When the process cannot be waited for.
    pub fn try_end_within(mut self, patience: Duration) -> Result<Ended, Ended> {
        let status = wait::try_within(patience, || self.child.try_wait().expect("can be waited for"));
        let hung = status.is_none();
        if hung {
            self.kill_group();
        }
        let status = status.unwrap_or_else(|| self.child.wait().expect("can be waited for"));
        self.ended = true;
        let (stdout, stderr) = self.outputs.take().expect("is taken once");
        let ended = Ended {
            status,
            stdout: stdout.join().expect("reader ends"),
            stderr: stderr.map_or_else(String::new, |stderr| stderr.join().expect("reader ends")),
        };
        if hung { Err(ended) } else { Ok(ended) }
    }

    fn kill_group(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if !self.ended {
            self.kill_group();
            let _ = self.child.wait();
        }
    }
}

/// Runs a command to its end.
#[track_caller]
pub fn run(command: &mut Command) -> Ended {
    RunningProgram::start(command).end()
}

/// A command with arguments, to be run from any test in one line.
pub fn command(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Reads a pipe on a thread of its own, so that no program ever blocks on a full one.
fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
