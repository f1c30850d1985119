//! Programs whose standard error takes nothing: no line of MGB's may end, block or disturb them.

use std::fs::File;
use std::io::{Write, pipe};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::process::{Ended, RunningProgram};

/// What is wrong with a standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mute {
    /// A device on which every write fails for lack of space.
    Full,
    /// It is closed.
    Closed,
    /// A pipe without a reader.
    Broken,
    /// A full pipe whose reader reads nothing.
    Unread,
}

impl Mute {
    /// All of them.
    pub const ALL: [Mute; 4] = [Mute::Full, Mute::Closed, Mute::Broken, Mute::Unread];

    /// Runs a command to its end with such a standard error.
    ///
    /// # Panics
    ///
    /// When it does not end in time.
    #[track_caller]
    pub fn run(self, command: &mut Command) -> Ended {
        match self {
            Mute::Full => {
                let full = File::options().write(true).open("/dev/full");
                RunningProgram::start_with(command, full.expect("Linux has this device").into()).end()
            }
            Mute::Closed => {
                // SAFETY: closes the child's own descriptor, which nothing there uses before its `exec`.
                unsafe {
                    command.pre_exec(|| {
                        rustix::io::close(2);
                        Ok(())
                    });
                }
                RunningProgram::start_with(command, Stdio::null()).end()
            }
            Mute::Broken => {
                let (reader, writer) = pipe().expect("a pipe");
                drop(reader);
                RunningProgram::start_with(command, writer.into()).end()
            }
            Mute::Unread => {
                let (reader, mut writer) = pipe().expect("a pipe");
                let flags = fcntl_getfl(&writer).expect("flags of a pipe");
                fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("a pipe takes flags");
                while writer.write(&[b'.'; 4096]).is_ok() {}
                fcntl_setfl(&writer, flags).expect("a pipe takes flags");
                let ended = RunningProgram::start_with(command, writer.into()).end();
                drop(reader);
                ended
            }
        }
    }
}
