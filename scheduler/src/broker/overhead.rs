//! Overhead: what processes take on a GPU beside their tasks and an ordinary context, by program. Libraries load modules
//! and make workspaces of their own, of which nobody asks the broker; the driver tells of them afterwards.
//!
//! What a program took before is expected of it the next time: its first task begins where there is room for that as
//! well, and the room is kept until the process has taken it. It is a wish, and gives way as all expectations do
//! ([`super::expect`]).

use std::collections::{BTreeMap, HashMap};

use mgb_probe::wire::Request;

use super::past::Program;
use super::{Broker, is_whole_process};
use crate::ledger::ClientId;

/// Most programs that are remembered.
const MOST: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Known {
    bytes: u64,
    /// When it was last asked for or told, in steps of `Overheads::step`.
    used: u64,
}

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Overheads {
    known: HashMap<Program, Known>,
    /// The most that living processes were seen to have on one GPU.
    seen: BTreeMap<ClientId, u64>,
    step: u64,
}

impl Overheads {
    fn of(&mut self, program: Program) -> u64 {
        self.step += 1;
        let step = self.step;
        self.known.get_mut(&program).map_or(0, |known| {
            known.used = step;
            known.bytes
        })
    }

    /// A process of the program has so many bytes. Others need not wait for its end to know.
    fn took(&mut self, client: ClientId, program: Program, bytes: u64) {
        let most = self.seen.entry(client).or_default();
        *most = bytes.max(*most);
        let bytes = self.of(program).max(bytes);
        self.note(program, bytes);
    }

    /// A process is gone: one that took less than those before brings it down half-way.
    fn ended(&mut self, client: ClientId, program: Option<Program>) {
        // Of one that was never looked at nothing is known.
        let (Some(most), Some(program)) = (self.seen.remove(&client), program) else {
            return;
        };
        let before = self.of(program);
        self.note(program, most.max(before.midpoint(most)));
    }

    fn note(&mut self, program: Program, bytes: u64) {
        self.step += 1;
        let known = Known {
            bytes,
            used: self.step,
        };
        self.known.insert(program, known);
        if self.known.len() > MOST {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.used);
            if let Some(oldest) = oldest.map(|(program, _)| *program) {
                self.known.remove(&oldest);
            }
        }
    }
}

impl Broker {
    /// The driver shows that the client's process has so many bytes on the GPU beside its tasks and an ordinary context.
    pub fn has_overhead(&mut self, client: ClientId, gpu: usize, bytes: u64) {
        let Some(entry) = self.clients.get(&client) else {
            return;
        };
        let left = entry.overhead.saturating_sub(bytes);
        self.ledger.has_taken(client, gpu, bytes, left);
        if let Some(program) = entry.program {
            self.overheads.took(client, program, bytes);
        }
    }

    /// Bytes to keep for the process that asks, if this is for its first task. A plain program has said what it needs.
    pub(super) fn expected_overhead(&mut self, client: ClientId, request: &Request) -> u64 {
        let is_first = self.ledger.contexts_of(client).next().is_none();
        let Some(entry) = self.clients.get_mut(&client).filter(|_| is_first) else {
            return 0;
        };
        let Some(program) = entry.program.filter(|_| !is_whole_process(request)) else {
            return 0;
        };
        entry.overhead = self.overheads.of(program);
        entry.overhead
    }

    pub(super) fn overhead_ends(&mut self, client: ClientId) {
        let program = self.clients.get(&client).and_then(|entry| entry.program);
        self.overheads.ended(client, program);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_counts_at_once_and_less_half_when_the_process_ends() {
        let mut overheads = Overheads::default();
        let program = Program(1);
        assert_eq!(overheads.of(program), 0);
        overheads.took(1, program, 100);
        overheads.took(1, program, 60);
        assert_eq!(overheads.of(program), 100, "it runs still");
        overheads.ended(1, Some(program));
        assert_eq!(overheads.of(program), 100);
        overheads.took(2, program, 20);
        assert_eq!(overheads.of(program), 100);
        overheads.ended(2, Some(program));
        assert_eq!(overheads.of(program), 60);
        overheads.ended(3, Some(program));
        assert_eq!(overheads.of(program), 60, "nobody looked at it");
        assert_eq!(overheads.of(Program(2)), 0);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_goes_first() {
        let mut overheads = Overheads::default();
        for program in 0..=MOST as u64 {
            overheads.took(program, Program(program), 5);
            overheads.ended(program, Some(Program(program)));
        }
        assert!(overheads.known.len() <= MOST && overheads.seen.is_empty());
        assert_eq!((overheads.of(Program(0)), overheads.of(Program(1))), (0, 5));
    }
}
