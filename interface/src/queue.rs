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
}

impl Queue {
    /// Every order in which mgbd can serve.
    pub const ALL: [Queue; 4] = [Queue::InOrder, Queue::Backfill, Queue::Shortest, Queue::Largest];
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Queue::InOrder => "in-order",
            Queue::Backfill => "backfill",
            Queue::Shortest => "shortest",
            Queue::Largest => "largest",
        })
    }
}

/// Why a text names no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown queue `{0}`; known are in-order, backfill, shortest and largest")]
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
