//! Overhead: what processes take on a GPU beside their tasks and an ordinary context, by program: that of
//! those with the same arguments where there were any, else of all. Libraries load modules and make
//! workspaces of their own without asking the broker; the driver shows them afterwards.
//!
//! What a program took before is expected of it the next time: its first task begins where there is room for
//! that as well, and the room is kept until the process has taken it. It is a wish, and gives way as all
//! expectations do (see `expectations`).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use lru::LruCache;

use super::record::RememberedProgram;
use crate::broker::program::ProgramId;
use crate::client::ClientId;

/// Most programs that are remembered.
const MAX_PROGRAMS: NonZeroUsize = NonZeroUsize::new(2048).unwrap();

/// What programs took beside their tasks.
#[derive(Debug)]
pub(super) struct Overheads {
    known: LruCache<ProgramId, u64>,
    /// The most that living processes were seen to have on one GPU.
    seen: BTreeMap<ClientId, u64>,
    has_learned: bool,
}

impl Default for Overheads {
    fn default() -> Overheads {
        Overheads {
            known: LruCache::new(MAX_PROGRAMS),
            seen: BTreeMap::new(),
            has_learned: false,
        }
    }
}

impl Overheads {
    pub(super) fn of(&mut self, program: ProgramId) -> u64 {
        let any = self.known.get(&program.whatever()).copied();
        let same = self.known.get(&program).copied();
        same.or(any).unwrap_or(0)
    }

    /// A process of the program has so many bytes. Others need not wait for its end to know.
    pub(super) fn record(&mut self, client: ClientId, program: ProgramId, bytes: u64) {
        let most = self.seen.entry(client).or_default();
        *most = bytes.max(*most);
        for program in program.kinds() {
            let before = self.known.get(&program).copied().unwrap_or(0);
            self.note(program, before.max(bytes));
        }
    }

    /// A process is gone: one that took less than those before brings it down half-way.
    pub(super) fn ended(&mut self, client: ClientId, program: Option<ProgramId>) {
        // Of one that was never looked at nothing is known.
        let (Some(most), Some(program)) = (self.seen.remove(&client), program) else {
            return;
        };
        for program in program.kinds() {
            let before = self.known.get(&program).copied().unwrap_or(0);
            self.note(program, most.max(before.midpoint(most)));
        }
    }

    fn note(&mut self, program: ProgramId, bytes: u64) {
        self.has_learned |= self.known.put(program, bytes) != Some(bytes);
    }

    /// Begins with what was remembered before, those used last coming last.
    pub(super) fn recall(&mut self, programs: &[RememberedProgram]) {
        for one in programs {
            self.known.put(one.program, one.overhead_bytes);
        }
    }

    /// Whether something was learned since [`Overheads::remembered`] was last asked.
    pub(super) fn has_learned(&self) -> bool {
        self.has_learned
    }

    /// What is remembered, those used last coming last.
    pub(super) fn remembered(&mut self) -> Vec<RememberedProgram> {
        self.has_learned = false;
        let one = |(program, bytes): (&ProgramId, &u64)| RememberedProgram {
            program: *program,
            overhead_bytes: *bytes,
        };
        self.known.iter().rev().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_counts_at_once_and_less_half_when_the_process_ends() {
        let mut overheads = Overheads::default();
        let program = ProgramId::new(1);
        assert_eq!(overheads.of(program), 0);
        overheads.record(1, program, 100);
        overheads.record(1, program, 60);
        assert_eq!(overheads.of(program), 100, "it runs still");
        overheads.ended(1, Some(program));
        assert_eq!(overheads.of(program), 100);
        overheads.record(2, program, 20);
        assert_eq!(overheads.of(program), 100);
        overheads.ended(2, Some(program));
        assert_eq!(overheads.of(program), 60);
        overheads.ended(3, Some(program));
        assert_eq!(overheads.of(program), 60, "nobody looked at it");
        assert_eq!(overheads.of(ProgramId::new(2)), 0);
    }

    #[test]
    fn processes_with_the_same_arguments_say_more_than_others() {
        let mut overheads = Overheads::default();
        let with = |arguments| ProgramId::new(1).called_with(arguments);
        overheads.record(1, with(1), 100);
        overheads.record(2, with(2), 20);
        assert_eq!(
            [1, 2, 3].map(|arguments| overheads.of(with(arguments))),
            [100, 20, 100]
        );
        overheads.ended(1, Some(with(1)));
        overheads.ended(2, Some(with(2)));
        assert_eq!(
            [1, 2, 3].map(|arguments| overheads.of(with(arguments))),
            [100, 20, 60]
        );
    }

    #[test]
    fn what_is_remembered_can_be_handed_on() {
        let mut overheads = Overheads::default();
        for program in [1, 2] {
            overheads.record(program, ProgramId::new(program), 5 * program);
        }
        assert!(overheads.has_learned());
        let mut next = Overheads::default();
        next.recall(&overheads.remembered());
        assert!(!overheads.has_learned() && !next.has_learned());
        assert_eq!(next.remembered(), overheads.remembered());
        assert_eq!((next.of(ProgramId::new(1)), next.of(ProgramId::new(2))), (5, 10));
        overheads.record(2, ProgramId::new(2), 9);
        assert!(!overheads.has_learned(), "as before");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_goes_first() {
        let mut overheads = Overheads::default();
        for program in 0..=MAX_PROGRAMS.get() as u64 {
            overheads.record(program, ProgramId::new(program), 5);
            overheads.ended(program, Some(ProgramId::new(program)));
        }
        assert!(overheads.seen.is_empty());
        assert_eq!(
            (overheads.of(ProgramId::new(0)), overheads.of(ProgramId::new(1))),
            (0, 5)
        );
    }
}
