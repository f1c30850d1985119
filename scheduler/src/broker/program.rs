//! What processes run.

use serde::{Deserialize, Serialize};

/// What a process runs, by numbers that nothing else has: what is remembered of it is expected of the next
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProgramId {
    /// Its executable; another one, or the same one changed, is another program.
    pub(super) executable: u64,
    /// Its arguments; `None`: whatever they are.
    pub(super) arguments: Option<u64>,
}

impl ProgramId {
    /// An executable, whatever its arguments.
    pub fn new(executable: u64) -> ProgramId {
        ProgramId {
            executable,
            arguments: None,
        }
    }

    /// The program called with these arguments.
    pub fn called_with(self, arguments: u64) -> ProgramId {
        ProgramId {
            arguments: Some(arguments),
            ..self
        }
    }

    /// The program, whatever its arguments.
    pub(super) fn whatever(self) -> ProgramId {
        ProgramId::new(self.executable)
    }

    /// All that a run of it says something of. The more general comes last, and so is not forgotten before
    /// the other.
    pub(super) fn kinds(self) -> impl Iterator<Item = ProgramId> {
        let own = self.arguments.is_some().then_some(self);
        own.into_iter().chain([self.whatever()])
    }
}
