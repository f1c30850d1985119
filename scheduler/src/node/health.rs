//! What the driver says is wrong with GPUs.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a source waits for an event, and how often it asks for states, at most.
pub const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// Xids after which a GPU does not work until it is reset, and what they mean: those for which NVIDIA's
/// catalogue (docs.nvidia.com/deploy/xid-errors, the immediate action) has at least RESET_GPU, but for those
/// that programs can cause, since no user is to take GPUs from all: 109 (a context switch takes too long) and
/// 155 (software of users). 74 and 144 to 150 (NVLink) are none either: only registers that NVML does not
/// show say what they mean. A list of what counts, so that a number that is new drains nothing.
const FATAL_XIDS: &[(u64, &str)] = &[
    (46, "it has stopped processing"),
    (48, "a double-bit ECC error"),
    (62, "its microcontroller has halted"),
    (64, "row remapping has failed"),
    (79, "it has fallen off the bus"),
    (95, "an uncontained memory error"),
    (110, "a security fault"),
    (119, "its firmware does not answer"),
    (120, "an error of its firmware"),
    (136, "its links could not be trained"),
    (140, "an ECC error that it has not recovered from"),
    (143, "it could not be initialized"),
    (156, "a part of it is to be retired at a reset"),
    (158, "a fatal timeout"),
];

/// Something that is wrong with a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ailment {
    /// The driver's error of this number.
    Xid(u64),
    /// An ECC error that could not be corrected, as an event.
    DoubleBit,
    /// Rows of its memory are to be remapped at its next reset.
    RowsPending,
    /// A row could not be remapped.
    RowsFailed,
    /// So many ECC errors that could not be corrected, since its last reset.
    Uncorrectable(u64),
}

impl Ailment {
    /// Whether the GPU is to take nobody.
    pub fn is_fatal(self) -> bool {
        match self {
            Ailment::Xid(number) => meaning(number).is_some(),
            _ => true,
        }
    }

    /// Whether the other is of the same kind, whatever was counted.
    pub fn is_like(self, other: Ailment) -> bool {
        match (self, other) {
            (Ailment::Uncorrectable(_), Ailment::Uncorrectable(_)) => true,
            _ => self == other,
        }
    }
}

fn meaning(xid: u64) -> Option<&'static str> {
    FATAL_XIDS
        .iter()
        .find(|(number, _)| *number == xid)
        .map(|(_, meaning)| *meaning)
}

impl fmt::Display for Ailment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ailment::Xid(number) => match meaning(*number) {
                Some(meaning) => write!(f, "Xid {number}: {meaning}"),
                None => write!(f, "Xid {number}"),
            },
            Ailment::DoubleBit => write!(f, "a double-bit ECC error"),
            Ailment::RowsPending => write!(f, "rows of its memory wait to be remapped at a reset"),
            Ailment::RowsFailed => write!(f, "row remapping has failed"),
            Ailment::Uncorrectable(count) => write!(f, "uncorrectable ECC errors: {count}"),
        }
    }
}

/// What holds of a GPU until it is reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct States {
    /// Rows of its memory are to be remapped at its next reset.
    pub rows_pending: bool,
    /// A row could not be remapped.
    pub rows_failed: bool,
    /// ECC errors that could not be corrected.
    pub uncorrectable: u64,
}

impl States {
    /// What is wrong by now and was not before. Rows that wait are news to who knew nothing before; a count
    /// of errors is not, since nobody knows how old they are.
    pub fn since(self, before: Option<States>) -> Vec<Ailment> {
        let first = States {
            uncorrectable: self.uncorrectable,
            ..States::default()
        };
        let before = before.unwrap_or(first);
        let new = [
            (self.rows_failed && !before.rows_failed, Ailment::RowsFailed),
            (self.rows_pending && !before.rows_pending, Ailment::RowsPending),
            (
                self.uncorrectable > before.uncorrectable,
                Ailment::Uncorrectable(self.uncorrectable),
            ),
        ];
        let new = new.into_iter().filter(|(is_new, _)| *is_new);
        new.map(|(_, ailment)| ailment).collect()
    }
}

/// News about a GPU's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Something has gone wrong with the GPU.
    Event(Ailment),
    /// What holds of the GPU until its reset.
    States(States),
}

/// Asks the driver about its GPUs' health.
pub trait HealthSource: Send {
    /// What is new, by GPU. Waits for it up to about [`ASK_INTERVAL`], and longer where the driver hangs.
    fn next(&mut self) -> Vec<(usize, News)>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_can_cause_is_not_fatal() {
        let caused = [
            8, 11, 13, 25, 31, 32, 43, 45, 63, 68, 69, 74, 92, 94, 109, 137, 154, 155,
        ];
        for xid in caused.into_iter().chain([0, 999, u64::MAX]) {
            assert!(!Ailment::Xid(xid).is_fatal(), "{xid}");
        }
        for xid in [46, 48, 62, 64, 79, 95, 110, 119, 120, 136, 140, 143, 156, 158] {
            assert!(Ailment::Xid(xid).is_fatal(), "{xid}");
        }
    }

    #[test]
    fn what_was_there_before_is_not_new() {
        let ill = States {
            rows_pending: true,
            rows_failed: false,
            uncorrectable: 2,
        };
        let all = [Ailment::RowsPending, Ailment::Uncorrectable(2)];
        assert_eq!(ill.since(Some(States::default())), all);
        assert_eq!(ill.since(Some(ill)), []);
        assert_eq!(States::default().since(Some(ill)), []);
    }

    #[test]
    fn an_old_count_of_errors_is_no_news_but_rows_that_wait_are() {
        let counted = States {
            uncorrectable: 7,
            ..States::default()
        };
        assert_eq!(counted.since(None), []);
        let waits = States {
            rows_pending: true,
            ..counted
        };
        assert_eq!(waits.since(None), [Ailment::RowsPending]);
        let one_more = States {
            uncorrectable: 8,
            ..counted
        };
        assert_eq!(one_more.since(Some(counted)), [Ailment::Uncorrectable(8)]);
    }
}
