//! Which jobs a command means.

use anyhow::anyhow;
use clap::Args;
use mgb_command::exit::{self, Failure};
use mgb_queue::id::{JobId, Selection};
use mgb_queue::protocol::JobFilter;
use mgb_queue::record::JobState;

/// Jobs, as a command line names them.
#[derive(Clone, Debug, Default, Args)]
pub struct Which {
    /// Jobs by number: 12, 12-15, or of an array 12_3 or 12_3-7.
    #[arg(value_name = "JOB")]
    jobs: Vec<Selection>,
    /// Only jobs with this name (a job that was given none has its program's).
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Only jobs with this tag.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only jobs in this state: queued, held, running, done, failed, cancelled or skipped. It can be repeated.
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Vec<JobState>,
}

impl Which {
    /// What the service is asked for.
    pub fn filter(&self) -> JobFilter {
        JobFilter {
            jobs: self.jobs.clone(),
            name: self.name.clone(),
            tag: self.tag.clone(),
            states: self.state.clone(),
        }
    }

    /// Whether nothing was said, so that all jobs are meant.
    pub fn is_all(&self) -> bool {
        self.filter() == JobFilter::default()
    }

    /// The same, where all jobs would be too many.
    pub fn some(&self, all: bool) -> Result<JobFilter, Failure> {
        if all != self.is_all() {
            let error = anyhow!("say which jobs, by number, --name, --tag or --state, or --all of them");
            return Err(Failure::new(exit::USAGE, error));
        }
        Ok(self.filter())
    }
}

fn state(text: &str) -> Result<JobState, String> {
    let found = JobState::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, state)| *state).ok_or_else(|| {
        let names: Vec<&str> = JobState::ALL.iter().map(|(name, _)| *name).collect();
        format!("none of {}", names.join(", "))
    })
}

/// Numbers in a row: `1 2 3_0-3_99`.
pub fn shown(ids: &[JobId]) -> String {
    let mut text: Vec<String> = Vec::new();
    let mut runs: Vec<(JobId, JobId)> = Vec::new();
    for id in ids {
        let follows = |last: &JobId| {
            let next = last
                .index
                .zip(id.index)
                .is_some_and(|(last, next)| last + 1 == next);
            last.number == id.number && next
        };
        match runs.last_mut() {
            Some((_, last)) if follows(last) => *last = *id,
            _ => runs.push((*id, *id)),
        }
    }
    for (first, last) in runs {
        text.push(match last.index.filter(|_| first != last) {
            Some(index) => format!("{first}-{index}"),
            None => first.to_string(),
        });
    }
    text.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_in_a_row_are_one_word() {
        let ids = ["1", "2", "3_0", "3_1", "3_2", "3_4", "5_7"].map(|text| text.parse().unwrap());
        assert_eq!(shown(&ids), "1 2 3_0-2 3_4 5_7");
        assert_eq!(shown(&[]), "");
    }
}
