//! Starting `mgbd` again where it ended without a word and programs depend on it.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::wire::Again;

/// The option that `mgbd` is given beside its own: nobody wants it but the programs.
pub const AGAIN: &str = "again";
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
#[derive(Default)]
pub(super) struct Starter {
    how: Option<Again>,
    child: Option<Child>,
    tries: u32,
    /// When to look next; `None`: there is nothing to do.
    due: Option<Instant>,
}

impl Starter {
    /// There is an `mgbd`, and this is how it is started again.
    pub(super) fn has_come(&mut self, how: Option<Again>) {
        self.how = how;
        self.tries = 0;
        self.due = None;
    }

    /// It is gone without a word.
    pub(super) fn has_gone(&mut self, now: Instant) {
        self.due = self.how.is_some().then(|| now + FIRST);
    }

    /// Whether one would be started if somebody wanted it.
    pub(super) fn rests(&self) -> bool {
        self.how.is_some() && self.due.is_none() && self.tries < TRIES
    }

    /// Somebody connects while there is none.
    pub(super) fn is_wanted(&mut self, now: Instant) {
        self.due = Some(now);
    }

    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let look = self.child.as_ref().map(|_| now + LOOK);
        self.due.map(|due| look.map_or(due, |look| due.min(look)))
    }

    /// Starts one if it is time, and anybody is there for whom. False: there is no hope of one.
    pub(super) fn look(&mut self, is_needed: bool, now: Instant) -> bool {
        if let Some(child) = &mut self.child
            && !matches!(child.try_wait(), Ok(None))
        {
            self.child = None;
            self.due = self.due.map(|due| due.min(now + NEXT));
        }
        let (Some(how), Some(due)) = (&self.how, self.due) else {
            return true;
        };
        if now < due {
            return true;
        }
        self.due = None;
        if !is_needed {
            return true;
        }
        if self.tries >= TRIES {
            tracing::error!(
                tries = self.tries,
                "no mgbd could be started again: programs that wait are told"
            );
            return false;
        }
        self.tries += 1;
        self.due = Some(now + STARTING);
        let mut command = Command::new(&how.program);
        command.args(&how.arguments).current_dir(&how.folder);
        let again = format!("--{AGAIN}");
        if !how.arguments.iter().any(|argument| *argument == *again) {
            command.arg(again);
        }
        match command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
            Ok(child) => {
                tracing::warn!(
                    pid = child.id(),
                    "mgbd ended without a word while programs need it: started again"
                );
                self.child = Some(child);
            }
            Err(error) => {
                tracing::error!(%error, program = %how.program.display(), "failed to start mgbd again");
                self.due = Some(now + NEXT);
            }
        }
        true
    }
}
