//! What a node says of itself in Slurm's record of it: `mgb cluster health` writes it, `mgb status --cluster`
//! reads it.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use mgb_probe::view::NodeView;
use serde::Serialize;

use super::note;

/// A node's GPUs and their load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// GPUs that mgbd shares.
    pub gpus: u64,
    /// Of those, that the driver cannot reach.
    pub lost: u64,
    /// Of those, that are drained since they fail.
    pub failing: u64,
    /// MiB that programs can have, of all GPUs.
    pub usable_mib: u64,
    /// MiB that they have.
    pub reserved_mib: u64,
    /// Tasks that have room.
    pub tasks: u64,
    /// Requests that wait for room.
    pub waiting: u64,
    /// When it was so, in seconds since 1970.
    pub at: u64,
}

impl Summary {
    /// What mgbd says now.
    pub fn of(view: &NodeView) -> Summary {
        let working = || view.gpus.iter().filter(|gpu| !gpu.lost);
        let mib = |bytes: u64| bytes >> 20;
        Summary {
            gpus: view.gpus.len() as u64,
            lost: (view.gpus.len() - working().count()) as u64,
            failing: working().filter(|gpu| gpu.is_failing()).count() as u64,
            usable_mib: working().map(|gpu| mib(gpu.gpu.usable_bytes)).sum(),
            reserved_mib: working()
                .map(|gpu| mib(gpu.reserved_bytes + gpu.contexts_bytes))
                .sum(),
            tasks: view.tasks.iter().filter(|task| task.pid != 0).count() as u64 + view.cut.tasks,
            waiting: view.queue.len() as u64 + view.cut.queue,
            at: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        }
    }

    /// What a comment of a node has.
    pub fn read(comment: &str) -> Option<Summary> {
        let own = note::read(comment)?;
        let of = |name: &str| note::value(own, name)?.parse().ok();
        Some(Summary {
            gpus: of("gpus")?,
            lost: of("lost")?,
            // A build that knew nothing of it wrote nothing.
            failing: of("failing").unwrap_or(0),
            usable_mib: of("usable_mib")?,
            reserved_mib: of("reserved_mib")?,
            tasks: of("tasks")?,
            waiting: of("waiting")?,
            at: of("at")?,
        })
    }

    /// Whether the other says the same, whenever it was.
    pub fn is_like(&self, other: &Summary) -> bool {
        let now = |summary: &Summary| Summary {
            at: 0,
            ..summary.clone()
        };
        now(self) == now(other)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "gpus={} lost={} failing={} usable_mib={} reserved_mib={} tasks={} waiting={} at={}",
            self.gpus,
            self.lost,
            self.failing,
            self.usable_mib,
            self.reserved_mib,
            self.tasks,
            self.waiting,
            self.at
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_comes_back() {
        let one = Summary {
            gpus: 2,
            failing: 1,
            usable_mib: 128,
            reserved_mib: 24,
            tasks: 2,
            waiting: 1,
            at: 7,
            ..Summary::default()
        };
        let comment = note::replace("rack 3", &one.to_string());
        assert_eq!(Summary::read(&comment), Some(one.clone()));
        assert!(one.is_like(&Summary { at: 9, ..one.clone() }));
        assert!(!one.is_like(&Summary {
            tasks: 3,
            ..one.clone()
        }));
        assert_eq!(Summary::read("rack 3"), None);
    }
}
