//! What Slurm counts of a node's GPUs. Of memory it counts more than there is (`AHEAD`): jobs that wait on
//! a node have its room as soon as one leaves, while Slurm takes time to see that and to start the next.

use std::fmt;

use mgb_probe::Gpu;

use super::{MEMORY, SHARE, WHOLE, count};

/// What is counted of each two MiB. A job that has ended keeps what it asked for until it is wound up and the
/// next is launched, and jobs that go ahead of a larger one are started once a second.
const AHEAD: u64 = 3;

/// A node's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// MiB that jobs may ask for together.
    pub memory: u64,
    /// Hundredths of GPUs.
    pub share: u64,
    /// MiB of the largest GPU.
    pub whole: u64,
}

impl NodeCounts {
    /// Of these GPUs.
    pub fn of(gpus: &[Gpu]) -> NodeCounts {
        let memory = gpus.iter().map(|gpu| gpu.usable_bytes >> 20);
        NodeCounts {
            memory: AHEAD * memory.clone().sum::<u64>() / 2,
            share: 100 * gpus.len() as u64,
            whole: memory.max().unwrap_or(0),
        }
    }

    /// MiB that one job can have: no GPU is larger than the largest.
    pub fn most_mib(&self) -> u64 {
        self.memory.min(self.whole.saturating_mul(self.share) / 100)
    }

    /// As a record of Slurm's has them.
    pub fn read(gres: &str) -> NodeCounts {
        NodeCounts {
            memory: count(gres, MEMORY, ':'),
            share: count(gres, SHARE, ':'),
            whole: count(gres, WHOLE, ':'),
        }
    }
}

impl fmt::Display for NodeCounts {
    /// As slurm.conf has them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodeCounts { memory, share, whole } = self;
        write!(f, "{MEMORY}:{memory},{SHARE}:{share},{WHOLE}:no_consume:{whole}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_job_can_have_more_than_there_is() {
        let counts = |memory, share| NodeCounts {
            memory,
            share,
            whole: 64,
        };
        assert_eq!(counts(192, 200).most_mib(), 128);
        assert_eq!(counts(100, 200).most_mib(), 100);
        assert_eq!(counts(100, u64::MAX).most_mib(), 100);
    }

    #[test]
    fn what_is_written_is_read() {
        let counts = NodeCounts {
            memory: 320,
            share: 200,
            whole: 256,
        };
        assert_eq!(
            counts.to_string(),
            "mgb_mem:320,mgb_share:200,mgb_gpu:no_consume:256"
        );
        assert_eq!(NodeCounts::read(&counts.to_string()), counts);
        assert_eq!(NodeCounts::read("gpu:2"), NodeCounts::default());
    }
}
