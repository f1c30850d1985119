//! How a job ended, in words.

use crate::batch::outcome::{JobOutcome, State};

/// What a page says of the end of `job`.
pub fn state(job: &JobOutcome) -> String {
    match (job.state, &job.cause) {
        (State::Done, _) => "right".to_owned(),
        (_, Some(cause)) => cause.short(),
        (State::Failed, None) => "failed".to_owned(),
        (State::Stopped | State::NotStarted, None) => "stopped".to_owned(),
    }
}
