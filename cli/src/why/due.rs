//! When the result of a task or a program is wanted, and when it is expected.

use mgb_command::table::span;

use super::reason::{ReasonLine, ReasonSubject};

/// When a result is wanted and expected, where anybody wants it at a time.
pub(super) fn deadline(deadline_ms: Option<i64>, ends_ms: Option<u64>) -> Option<ReasonLine> {
    let deadline = deadline_ms?;
    let due = match deadline {
        ms if ms < 0 => format!("it was to have ended {} ago", span(ms.unsigned_abs())),
        ms => format!("it is to have ended in {}", span(ms.unsigned_abs())),
    };
    let text = match ends_ms {
        None => format!("{due}; how long it takes is not known"),
        Some(ends) => {
            let late = i128::from(ends) - i128::from(deadline);
            let verdict = if late > 0 {
                format!("late by {}", span(u64::try_from(late).unwrap_or(u64::MAX)))
            } else {
                "in time".to_owned()
            };
            format!("{due}, and is expected to end in {}: {verdict}", span(ends))
        }
    };
    Some(ReasonLine::new(ReasonSubject::Deadline, text))
}
