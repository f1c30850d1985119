//! Starts programs for the loop, whose own thread may not once it serves (see [`crate::seccomp`]).

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc;

/// A thread that starts programs. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Starter(mpsc::Sender<(Command, mpsc::Sender<io::Result<Child>>)>);

impl Starter {
    /// To be made before the loop serves: a thread has what its maker may do.
    pub(super) fn new() -> io::Result<Starter> {
        let (asks, asked) = mpsc::channel::<(Command, mpsc::Sender<io::Result<Child>>)>();
        let thread = std::thread::Builder::new().name("starter".to_owned());
        thread.spawn(move || {
            while let Ok((mut command, answers)) = asked.recv() {
                // Who asked is not there only where it ends.
                let _ = answers.send(command.spawn());
            }
        })?;
        Ok(Starter(asks))
    }

    /// Starts a program, and waits until it is started.
    ///
    /// # Errors
    /// Why it could not be started.
    pub(super) fn spawn(&self, command: Command) -> io::Result<Child> {
        let gone = || io::Error::other("the thread that starts programs is gone");
        let (answers, answer) = mpsc::channel();
        self.0.send((command, answers)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}
