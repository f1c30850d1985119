//! What Slurm counts of a node's GPUs.

use std::fmt;

use mgb_probe::Gpu;

use super::{MEMORY, SHARE, WHOLE, count};

/// A node's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// MiB of memory, of all GPUs.
    pub memory: u64,
    /// Hundredths of GPUs.
    pub share: u64,
    /// MiB of the largest GPU.
    pub whole: u64,
}

impl Counts {
    /// Of these GPUs.
    pub fn of(gpus: &[Gpu]) -> Counts {
        let memory = gpus.iter().map(|gpu| gpu.usable_bytes >> 20);
        Counts {
            memory: memory.clone().sum(),
            share: 100 * gpus.len() as u64,
            whole: memory.max().unwrap_or(0),
        }
    }

    /// As a record of Slurm's has them.
    pub fn read(gres: &str) -> Counts {
        Counts {
            memory: count(gres, MEMORY, ':'),
            share: count(gres, SHARE, ':'),
            whole: count(gres, WHOLE, ':'),
        }
    }
}

impl fmt::Display for Counts {
    /// As slurm.conf has them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { memory, share, whole } = self;
        write!(f, "{MEMORY}:{memory},{SHARE}:{share},{WHOLE}:no_consume:{whole}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let counts = Counts {
            memory: 320,
            share: 200,
            whole: 256,
        };
        assert_eq!(
            counts.to_string(),
            "mgb_mem:320,mgb_share:200,mgb_gpu:no_consume:256"
        );
        assert_eq!(Counts::read(&counts.to_string()), counts);
        assert_eq!(Counts::read("gpu:2"), Counts::default());
    }
}
