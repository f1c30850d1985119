//! How long tasks took when they ran before, by program and site.
//!
//! A program is its executable as it lies on the disk; whoever runs the broker
//! says what that is ([`Program`]), not the client. What is remembered is bounded,
//! and ends with the broker.

use std::collections::HashMap;
use std::time::Duration;

use mgb_probe::wire::{Request, Text};

use crate::ledger::{ClientId, TaskKey};

/// Most tasks that are remembered.
const MOST: usize = 4096;

/// An executable: a number that another one, or the same one changed, does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Program(pub u64);

/// A task of a program, with a need of about this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Which {
    program: Program,
    site: u32,
    label: Text,
    /// The need's bytes, to an eighth.
    size: u64,
}

/// What it took.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// From the grant to the end; of several runs, the later weigh more.
    lasted: Duration,
    /// When it was last asked for or told, in steps of `Past::step`.
    used: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Past {
    taken: HashMap<Which, Taken>,
    running: HashMap<TaskKey, Which>,
    step: u64,
    /// The mean of all that ended, the later weighing more: what is expected of those nobody knows.
    mean: Option<Duration>,
}

/// To an eighth: the first four bits of a number.
fn rough(bytes: u64) -> u64 {
    let shift = (u64::BITS - bytes.leading_zeros()).saturating_sub(4);
    bytes >> shift << shift
}

impl Past {
    /// What a request stands for.
    pub(super) fn which(program: Program, request: &Request) -> Which {
        Which {
            program,
            site: request.site,
            label: request.label,
            size: rough(request.need.reserved_bytes()),
        }
    }

    /// How long it lasted; `None`: it never ran.
    pub(super) fn of(&mut self, which: &Which) -> Option<Duration> {
        self.step += 1;
        let taken = self.taken.get_mut(which)?;
        taken.used = self.step;
        Some(taken.lasted)
    }

    /// How long a task of which nothing is known will last.
    pub(super) fn mean(&self) -> Duration {
        self.mean.unwrap_or(Duration::MAX)
    }

    /// A task was granted.
    pub(super) fn began(&mut self, key: TaskKey, which: Which) {
        self.running.insert(key, which);
    }

    /// It is over, after so long.
    pub(super) fn ended(&mut self, key: TaskKey, lasted: Duration) {
        let Some(which) = self.running.remove(&key) else {
            return;
        };
        self.step += 1;
        let middle = |old: Duration| (old + lasted) / 2;
        self.mean = Some(self.mean.map_or(lasted, |mean| (mean * 7 + lasted) / 8));
        let new = Taken {
            lasted: self.taken.get(&which).map_or(lasted, |old| middle(old.lasted)),
            used: self.step,
        };
        self.taken.insert(which, new);
        if self.taken.len() > MOST {
            self.forget_oldest();
        }
    }

    /// A task of which nothing can be learned is gone.
    pub(super) fn forget(&mut self, key: TaskKey) {
        self.running.remove(&key);
    }

    /// Nothing of the client's runs any more.
    pub(super) fn forget_client(&mut self, client: ClientId) {
        self.running.retain(|key, _| key.client != client);
    }

    fn forget_oldest(&mut self) {
        let mut steps: Vec<u64> = self.taken.values().map(|taken| taken.used).collect();
        steps.sort_unstable();
        let from = steps[steps.len() / 8];
        self.taken.retain(|_, taken| taken.used >= from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgb_probe::Need;
    use mgb_probe::wire::Op;

    fn which(program: u64, bytes: u64) -> Which {
        let request = Request {
            op: Op::Begin,
            flags: 0,
            task: 1,
            thread: 1,
            site: 1,
            gpus: 1,
            bytes,
            need: Need {
                mapped_bytes: bytes,
                ..Need::default()
            },
            label: Text::default(),
        };
        Past::which(Program(program), &request)
    }

    fn key(task: u64) -> TaskKey {
        TaskKey { client: 1, task }
    }

    #[test]
    fn the_later_runs_weigh_more() {
        let mut past = Past::default();
        let which = which(1, 1000);
        assert_eq!((past.of(&which), past.mean()), (None, Duration::MAX));
        for lasted in [8, 2, 1] {
            past.began(key(1), which);
            past.ended(key(1), Duration::from_secs(lasted));
        }
        assert_eq!(past.of(&which), Some(Duration::from_secs(3)));
    }

    #[test]
    fn sizes_that_differ_by_a_quarter_are_others() {
        assert_eq!(which(1, 1000), which(1, 1010));
        assert_ne!(which(1, 1000), which(1, 1250));
        assert_ne!(which(1, 1000), which(2, 1000));
        assert_eq!((rough(0), rough(7), rough(u64::MAX)), (0, 7, 15 << 60));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_goes_first() {
        let mut past = Past::default();
        for program in 0..=MOST as u64 {
            past.began(key(program), which(program, 1));
            past.ended(key(program), Duration::from_secs(1));
        }
        assert!(past.taken.len() <= MOST);
        assert!(past.of(&which(0, 1)).is_none() && past.of(&which(MOST as u64, 1)).is_some());
    }
}
