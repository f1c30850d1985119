//! Bringing all that one call touches onto its GPU, until it is there at once.

use mgb_core::notice;

use crate::code::{Code, Own, fail};
use crate::state::Key;
use crate::swap::Gathering;
use crate::unite;

/// How often all that one call touches may be brought in, one after the other, and not be there at once, before
/// the call fails.
const MOST_ATTEMPTS: u32 = 32;
/// After so many, what is on one GPU becomes one task.
const UNITE_AFTER: u32 = 3;

/// Attempts to have all tasks that one call touches on the GPU at once. While there are any, idle memory of this
/// process is left where it is.
#[derive(Default)]
pub struct Attempts {
    made: u32,
    gathering: Option<Gathering>,
}

impl Attempts {
    /// One more has failed. The caller is outside the gate, and holds no lock. `keys`: tasks that the call needs
    /// on one GPU. Fails with out of memory, which it is: natively what the call touches would not be there
    /// at all.
    pub fn failed(&mut self, keys: &[Key]) -> Result<(), Own> {
        self.gathering.get_or_insert_with(Gathering::begin);
        self.made += 1;
        if self.made == UNITE_AFTER && keys.len() > 1 {
            for &key in keys {
                unite::into_lazy(key);
            }
        }
        if self.made < MOST_ATTEMPTS {
            return Ok(());
        }
        notice::once(
            "together",
            format_args!(
                "an operation needs memory of several tasks of this program at once, and other programs leave no \
                 room for all of it; run fewer at once"
            ),
        );
        fail(Code::MEMORY_ALLOCATION)
    }
}
