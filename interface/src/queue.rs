//! The orders of service by name.

use std::fmt;
use std::str::FromStr;

/// The order in which waiting tasks are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// No request passes another.
    InOrder,
    /// First come, first served, but a request that fits may pass.
    #[default]
    Backfill,
    /// The task that is expected to end first.
    Shortest,
    /// The task that needs most memory.
    Largest,
    /// The task with the earliest deadline that can be met.
    Edf,
    /// The task whose deadline leaves least to spare, of those that can be met.
    Laxity,
}

impl Queue {
    /// Every order in which mgbd can serve.
    pub const ALL: [Queue; 6] = [
        Queue::InOrder,
        Queue::Backfill,
        Queue::Shortest,
        Queue::Largest,
        Queue::Edf,
        Queue::Laxity,
    ];

    /// Whether it serves by deadlines.
    pub fn by_deadline(self) -> bool {
        matches!(self, Queue::Edf | Queue::Laxity)
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Queue::InOrder => "in-order",
            Queue::Backfill => "backfill",
            Queue::Shortest => "shortest",
            Queue::Largest => "largest",
            Queue::Edf => "edf",
            Queue::Laxity => "laxity",
        })
    }
}

/// Why a text names no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown queue `{0}`; known are in-order, backfill, shortest, largest, edf and laxity")]
pub struct QueueError(String);

impl FromStr for Queue {
    type Err = QueueError;

    fn from_str(text: &str) -> Result<Queue, QueueError> {
        Queue::ALL
            .into_iter()
            .find(|queue| queue.to_string() == text)
            .ok_or_else(|| QueueError(text.to_owned()))
    }
}
