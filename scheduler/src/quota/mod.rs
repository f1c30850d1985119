//! What each user and group may have at once of all GPUs together, and in which order users are served.
//!
//! [`mod@file`] reads it from the administrator's file, [`shares`] puts waiting tasks in order. Nothing here
//! has an effect: the broker asks.

pub mod file;
mod gpus;
pub mod shares;
mod time;

use std::fmt;
use std::time::Duration;

use crate::gpu_set::GpuSet;
use mgb_probe::limited::Limited;

/// Whose a limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A user's, by number.
    User(u32),
    /// A group's, by number: of all its members together.
    Group(u32),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::User(uid) => write!(f, "uid {uid}"),
            Owner::Group(gid) => write!(f, "gid {gid}"),
        }
    }
}

/// What somebody may have at once. `None`: any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of GPU memory, contexts included.
    pub bytes: Option<u64>,
    /// Tasks between their begin and end.
    pub tasks: Option<u64>,
    /// GPUs used at once.
    pub gpus: Option<u64>,
    /// Processes with a context on a GPU, counted on each.
    pub processes: Option<u64>,
    /// GPUs that tasks have for themselves.
    pub alone: Option<u64>,
    /// Bytes of GPU memory that are in the host.
    pub swap: Option<u64>,
    /// Tasks that wait to begin.
    pub waiting: Option<u64>,
}

/// What somebody has, or asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Bytes of GPU memory.
    pub bytes: u64,
    /// Tasks between their begin and end.
    pub tasks: u64,
    /// GPUs that are used.
    pub gpus: GpuSet,
    /// Processes with a context on a GPU, counted on each.
    pub processes: u64,
    /// GPUs that tasks have for themselves.
    pub alone: u64,
    /// Bytes of GPU memory that are in the host.
    pub swap: u64,
}

impl Amount {
    /// The sum of both.
    pub fn and(self, other: Amount) -> Amount {
        Amount {
            bytes: self.bytes.saturating_add(other.bytes),
            tasks: self.tasks.saturating_add(other.tasks),
            gpus: self.gpus | other.gpus,
            processes: self.processes.saturating_add(other.processes),
            alone: self.alone.saturating_add(other.alone),
            swap: self.swap.saturating_add(other.swap),
        }
    }
}

/// A limit that something goes beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// What is limited.
    pub what: Limited,
    /// How much it would be.
    pub wanted: u64,
    /// How much it may be.
    pub limit: u64,
}

impl Limits {
    /// The first of the limits that this is beyond, of those that a task keeps as it begins or grows.
    pub fn beyond(&self, amount: Amount) -> Option<Beyond> {
        let each = [
            (Limited::Bytes, amount.bytes, self.bytes),
            (Limited::Tasks, amount.tasks, self.tasks),
            (Limited::Gpus, amount.gpus.len() as u64, self.gpus),
            (Limited::Processes, amount.processes, self.processes),
            (Limited::Alone, amount.alone, self.alone),
        ];
        each.into_iter().find_map(|(what, wanted, limit)| {
            let limit = limit.filter(|limit| wanted > *limit)?;
            Some(Beyond { what, wanted, limit })
        })
    }

    /// The same with twice as many bytes, tasks, processes and GPUs for themselves: where those who have what
    /// is limited only wait for more of it.
    pub fn doubled(&self) -> Limits {
        let twice = |limit: Option<u64>| limit.map(|limit| limit.saturating_mul(2));
        Limits {
            bytes: twice(self.bytes),
            tasks: twice(self.tasks),
            processes: twice(self.processes),
            alone: twice(self.alone),
            ..*self
        }
    }

    /// Whether nothing is limited.
    pub fn are_none(&self) -> bool {
        *self == Limits::default()
    }
}

/// The most percent of a GPU's time that latency programs may take from batch programs, which keep half of
/// each second.
pub const MAX_LATENCY_PERCENT: u32 = 50;

/// What holds for a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The limits that the user's programs keep: the user's own, and those of groups.
    pub limits: Vec<(Owner, Limits)>,
    /// The user's part of what several want: twice the weight, twice the part.
    pub weight: u32,
    /// Whether its tasks may have a GPU for themselves; otherwise those that want it share one like any
    /// other.
    pub may_be_alone: bool,
    /// The highest priority that its tasks may have; `None`: that of whom mgbd serves.
    pub most_priority: Option<u32>,
    /// How many percent of a GPU's time its latency programs may take from batch programs; `None`: not said.
    pub latency_percent: Option<u32>,
    /// How long each of its tasks may have its memory on a GPU; `None`: any time.
    pub most_time: Option<Duration>,
    /// Whether a process of which a task has it for longer is ended.
    pub ends_late: bool,
    /// The GPUs that it may use; all where none is kept for others.
    pub gpus: GpuSet,
    /// The user's groups are not known yet, so that more may be allowed than this says.
    pub is_provisional: bool,
}

impl Default for Account {
    fn default() -> Account {
        Account {
            limits: Vec::new(),
            weight: 1,
            may_be_alone: true,
            most_priority: None,
            latency_percent: None,
            most_time: None,
            ends_late: false,
            gpus: GpuSet::ALL,
            is_provisional: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_kept_to_the_last_unit() {
        let limits = Limits {
            bytes: Some(10),
            tasks: None,
            gpus: Some(1),
            processes: Some(3),
            alone: Some(1),
            ..Limits::default()
        };
        let amount = |bytes, gpus| Amount {
            bytes,
            tasks: 99,
            gpus: GpuSet::from_bits(gpus),
            processes: 3,
            alone: 1,
            swap: 99,
        };
        assert_eq!(limits.beyond(amount(10, 0b10)), None);
        let what = |amount| limits.beyond(amount).map(|beyond| (beyond.what, beyond.wanted));
        assert_eq!(what(amount(11, 0b10)), Some((Limited::Bytes, 11)));
        assert_eq!(what(amount(1, 0b110)), Some((Limited::Gpus, 2)));
        assert_eq!(limits.doubled().beyond(amount(20, 1)), None);
        assert!(limits.doubled().beyond(amount(20, 3)).is_some());
        assert!(Limits::default().are_none() && !limits.are_none());
    }
}
