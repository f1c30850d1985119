//! How a job ended, in words.

use crate::batch::outcome::{JobOutcome, JobState};

/// What a page says of the end of `job`.
pub fn state(job: &JobOutcome) -> String {
    match (job.state, &job.cause) {
        (JobState::Done, _) => "right".to_owned(),
        (_, Some(cause)) => cause.short(),
        (JobState::Failed, None) => "failed".to_owned(),
        (JobState::Stopped | JobState::NotStarted, None) => "stopped".to_owned(),
    }
}
