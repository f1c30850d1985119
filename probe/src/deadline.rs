//! The deadline of a process: when the work is to be done that it does, as its environment says. Of a task by
//! itself `mgb_need` says it.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// The variable: seconds since 1970 (UTC), as `date +%s` prints them, with or without a fraction. A time by
/// the clock on the wall and no span, since a process is told before it begins.
pub const DEADLINE: &str = "MGB_DEADLINE";

/// The variable by which `mgb run` says when it expects the program to end that it starts, in the same form:
/// for traces.
pub const EXPECTED_END: &str = "MGB_EXPECTED_END";

/// A time by which something is to be done, by the system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(
    /// The time since 1970 at which it is.
    Duration,
);

/// Why a text is no deadline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no number of seconds since 1970")]
pub struct DeadlineError(String);

impl Deadline {
    /// So much later than now.
    pub fn within(time: Duration) -> Deadline {
        Deadline(now().saturating_add(time))
    }

    /// The process's own, by its environment. A value that is none is said, and counts as none.
    pub(crate) fn of_process() -> Option<Deadline> {
        let text = std::env::var_os(DEADLINE).filter(|text| !text.is_empty())?;
        let deadline = text.to_str().and_then(|text| text.parse().ok());
        if deadline.is_none() {
            mgb_stderr::say!(
                "mgb: {DEADLINE}={} is no number of seconds since 1970; taken as none",
                text.display()
            );
        }
        deadline
    }

    /// The moment in seconds since 1970.
    pub fn as_secs_f64(self) -> f64 {
        self.0.as_secs_f64()
    }

    /// How long it is until then; `None`: it has passed.
    pub fn left(self) -> Option<Duration> {
        self.0.checked_sub(now())
    }

    /// The same in nanoseconds, as a need has it: never 0, which would be no deadline.
    pub fn left_ns(self) -> u64 {
        let left = self.left().unwrap_or_default().as_nanos();
        u64::try_from(left).unwrap_or(u64::MAX).max(1)
    }
}

fn now() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0.as_secs(), self.0.subsec_nanos())
    }
}

impl FromStr for Deadline {
    type Err = DeadlineError;

    fn from_str(text: &str) -> Result<Deadline, DeadlineError> {
        let seconds = text.trim().parse().ok();
        let since = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        since.map(Deadline).ok_or_else(|| DeadlineError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_comes_back_from_its_text() {
        let deadline = Deadline::within(Duration::from_secs(90));
        let read: Deadline = deadline.to_string().parse().unwrap();
        let apart = read.0.abs_diff(deadline.0);
        assert!(apart < Duration::from_millis(1), "{apart:?}");
        assert!((80..=90).contains(&read.left().unwrap().as_secs()));
        for text in ["", "soon", "-1", "nan", "inf", "1e300", "18:30", "90s"] {
            assert!(text.parse::<Deadline>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_that_has_passed_is_still_one() {
        let passed: Deadline = "0".parse().unwrap();
        assert_eq!((passed.left(), passed.left_ns()), (None, 1));
        let far = Deadline(Duration::MAX);
        assert_eq!(far.left_ns(), u64::MAX);
        assert_eq!(Deadline::within(Duration::MAX), far);
    }
}
