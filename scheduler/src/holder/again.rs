//! Starting `mgbd` again where it ended without a word and programs depend on it.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mgb_interface::holder::packet;

/// The option that `mgbd` is given beside its own: nobody wants it but the programs, and its standard input
/// is the line to the holder.
pub const AGAIN: &str = "again";

/// How an `mgbd` is started again: told to the holder as it is started itself, and never later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// The folder in which it runs.
    pub folder: PathBuf,
    /// Its program, by the name under which a next build is found as well.
    pub program: PathBuf,
    /// The arguments with which `mgbd` is started again.
    pub arguments: Vec<OsString>,
}

impl Again {
    /// As words of a command line.
    pub(crate) fn words(self) -> impl Iterator<Item = OsString> {
        let first = [self.folder.into_os_string(), self.program.into_os_string()];
        first.into_iter().chain(self.arguments)
    }

    /// Read off such words; `None`: it is not started again.
    pub fn read(mut words: impl Iterator<Item = OsString>) -> Option<Again> {
        Some(Again {
            folder: words.next()?.into(),
            program: words.next()?.into(),
            arguments: words.collect(),
        })
    }
}
/// How long to leave it to others: whoever killed the programs as well, or starts another one.
const FIRST: Duration = Duration::from_millis(200);
/// How long one may take until it has taken over.
const STARTING: Duration = Duration::from_secs(10);
/// Between two, where one has ended.
const NEXT: Duration = Duration::from_millis(500);
/// How often to look whether one has ended that was started.
const LOOK: Duration = Duration::from_millis(100);
/// How often to try.
const TRIES: u32 = 5;

/// The state of that.
pub(super) struct Starter {
    how: Option<Again>,
    /// The `mgbd` that was there last wants it.
    is_wanted: bool,
    child: Option<Child>,
    tries: u32,
    /// When to look next; `None`: there is nothing to do.
    due: Option<Instant>,
}

impl Starter {
    pub(super) fn new(how: Option<Again>) -> Starter {
        Starter {
            how,
            is_wanted: false,
            child: None,
            tries: 0,
            due: None,
        }
    }

    /// There is an `mgbd`, which is to be started again or not.
    pub(super) fn has_come(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
        self.tries = 0;
        self.due = None;
    }

    fn how(&self) -> Option<&Again> {
        self.how.as_ref().filter(|_| self.is_wanted)
    }

    /// It is gone without a word.
    pub(super) fn has_gone(&mut self, now: Instant) {
        self.due = self.how().map(|_| now + FIRST);
    }

    /// Whether one would be started if somebody wanted it.
    pub(super) fn rests(&self) -> bool {
        self.how().is_some() && self.due.is_none() && self.tries < TRIES
    }

    /// Somebody connects while there is none.
    pub(super) fn is_wanted(&mut self, now: Instant) {
        self.due = Some(now);
    }

    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let look = self.child.as_ref().map(|_| now + LOOK);
        self.due.map(|due| look.map_or(due, |look| due.min(look)))
    }

    /// Starts one if it is time, and anybody is there for whom; the line to it.
    ///
    /// # Errors
    /// When there is no hope of one.
    pub(super) fn look(&mut self, is_needed: bool, now: Instant) -> Result<Option<OwnedFd>, Hopeless> {
        if let Some(child) = &mut self.child
            && !matches!(child.try_wait(), Ok(None))
        {
            self.child = None;
            self.due = self.due.map(|due| due.min(now + NEXT));
        }
        if self.how().is_none() || self.due.is_none_or(|due| now < due) {
            return Ok(None);
        }
        self.due = None;
        if !is_needed {
            return Ok(None);
        }
        if self.tries >= TRIES {
            tracing::error!(
                tries = self.tries,
                "no mgbd could be started again: programs that wait are told"
            );
            return Err(Hopeless);
        }
        self.tries += 1;
        self.due = Some(now + STARTING);
        match self.how().map(start) {
            Some(Ok((child, line))) => {
                tracing::warn!(
                    pid = child.id(),
                    "mgbd ended without a word while programs need it: started again"
                );
                self.child = Some(child);
                return Ok(Some(line));
            }
            Some(Err(error)) => {
                let program = self.how().map(|how| how.program.display().to_string());
                tracing::error!(%error, program, "failed to start mgbd again");
                self.due = Some(now + NEXT);
            }
            None => {}
        }
        Ok(None)
    }
}

/// No `mgbd` could be started, however often it was tried.
pub(super) struct Hopeless;

/// Starts one, with its end of a line as its standard input.
fn start(how: &Again) -> std::io::Result<(Child, OwnedFd)> {
    let (own, its) = packet::pair()?;
    rustix::io::ioctl_fionbio(&own, true)?;
    let mut command = Command::new(&how.program);
    command.args(&how.arguments).current_dir(&how.folder);
    let again = format!("--{AGAIN}");
    if !how.arguments.iter().any(|argument| *argument == *again) {
        command.arg(again);
    }
    let child = command.stdin(Stdio::from(its)).stdout(Stdio::null()).spawn()?;
    Ok((child, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_is_started_goes_through_a_command_line() {
        let again = Again {
            folder: "/".into(),
            program: "/usr/local/bin/mgbd".into(),
            arguments: vec!["--socket".into(), "a b".into(), "".into()],
        };
        assert_eq!(Again::read(again.clone().words()), Some(again));
        assert_eq!(Again::read(std::iter::empty()), None);
    }
}
