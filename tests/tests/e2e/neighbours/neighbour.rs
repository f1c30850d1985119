//! One of the two programs that share a device: told what to do line by line, and killed in what it is doing.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use mgb_tests::wait::TEST_TIMEOUT;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A running program. Dropping it kills it.
pub struct Neighbour {
    child: Child,
    answers: Receiver<String>,
}

impl Neighbour {
    pub fn start(command: &mut Command) -> Neighbour {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program was built");
        let lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        let (send, answers) = channel();
        // A thread reads, so that a program that hangs is told from one that answers.
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
        Neighbour { child, answers }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to do something, and does not wait.
    pub fn tell(&mut self, what: &str) {
        let input = self.child.stdin.as_mut().expect("is piped");
        writeln!(input, "{what}").expect("the program reads");
    }

    /// Its next answer.
    #[track_caller]
    pub fn answer(&mut self) -> String {
        match self.answers.recv_timeout(TEST_TIMEOUT) {
            Ok(answer) => answer,
            Err(why) => panic!("no answer: {why}; {:?}", self.child.try_wait()),
        }
    }

    #[track_caller]
    pub fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.answer()
    }

    /// Stops it where it is; whether it could be.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        // A stop is reported once, and leaves the end of the process to be waited for.
        let reported = waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED);
        let (_, status) = reported.expect("is a child").expect("is waited for");
        assert!(status.stopped(), "it ended before it could be killed: {status:?}");
    }

    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("is a child that is not waited for");
    }

    /// Kills it, and returns when it is gone.
    pub fn kill(mut self) {
        assert_eq!(
            self.child.try_wait().expect("is a child"),
            None,
            "it ended before it was killed"
        );
        self.child.kill().expect("is a child");
        self.child.wait().expect("is a child");
    }

    /// Lets it end as programs do.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().expect("is a child");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
