//! Which jobs may start, in which order, and which never will: a function of the records alone.

use std::collections::{BTreeMap, HashMap};

use crate::id::JobId;
use crate::record::{Dependency, JobRecord, JobState};

/// Why a job that waits does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Somebody holds it.
    Held,
    /// It follows this one, which has not ended.
    Follows(JobId),
    /// As many of its array run as may.
    ArrayMost(u32),
}

/// What has come of jobs that another follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// All have ended as they have to.
    Met,
    /// This one has not ended.
    Open(JobId),
    /// One did not end well.
    Hopeless,
}

/// All jobs, as they are looked at once.
pub struct Plan<'a> {
    jobs: &'a BTreeMap<JobId, JobRecord>,
    verdicts: HashMap<Dependency, Verdict>,
    /// How many elements of each array run.
    running: HashMap<u32, u32>,
}

impl<'a> Plan<'a> {
    /// Looks at these.
    pub fn of(jobs: &'a BTreeMap<JobId, JobRecord>) -> Self {
        let mut running: HashMap<u32, u32> = HashMap::new();
        for job in jobs.values().filter(|job| job.state == JobState::Running) {
            *running.entry(job.id.number).or_default() += 1;
        }
        Self {
            jobs,
            verdicts: HashMap::new(),
            running,
        }
    }

    /// What keeps a job from being started; none: nothing of its own does.
    pub fn obstacle(&mut self, job: &JobRecord) -> Option<Obstacle> {
        if job.state == JobState::Held {
            return Some(Obstacle::Held);
        }
        let open = job
            .spec
            .after
            .iter()
            .find_map(|dependency| match self.verdict(dependency) {
                Verdict::Open(id) => Some(Obstacle::Follows(id)),
                Verdict::Met | Verdict::Hopeless => None,
            });
        let full = || {
            let most = job.spec.array_most?;
            (self.running.get(&job.id.number).copied().unwrap_or(0) >= most)
                .then_some(Obstacle::ArrayMost(most))
        };
        open.or_else(full)
    }

    /// At most so many jobs that may start now, the first to start first.
    pub fn next(&mut self, most: usize) -> Vec<JobId> {
        let mut waiting: Vec<&JobRecord> = self
            .jobs
            .values()
            .filter(|job| job.state == JobState::Queued)
            .collect();
        // Stable: those of one priority stay in the order in which they came.
        waiting.sort_by_key(|job| std::cmp::Reverse(job.spec.priority));
        let mut next = Vec::new();
        for job in waiting {
            if next.len() >= most {
                break;
            }
            if !self.is_hopeless(job) && self.obstacle(job).is_none() {
                next.push(job.id);
                *self.running.entry(job.id.number).or_default() += 1;
            }
        }
        next
    }

    /// Jobs that wait and will never start, since one that they follow did not end well.
    pub fn hopeless(&mut self) -> Vec<JobId> {
        let waits = |job: &&JobRecord| matches!(job.state, JobState::Queued | JobState::Held);
        let waiting: Vec<&JobRecord> = self.jobs.values().filter(waits).collect();
        let hopeless = waiting.into_iter().filter(|job| self.is_hopeless(job));
        hopeless.map(|job| job.id).collect()
    }

    fn is_hopeless(&mut self, job: &JobRecord) -> bool {
        let mut after = job.spec.after.iter();
        after.any(|dependency| self.verdict(dependency) == Verdict::Hopeless)
    }

    fn verdict(&mut self, dependency: &Dependency) -> Verdict {
        if let Some(verdict) = self.verdicts.get(dependency) {
            return *verdict;
        }
        let (first, last) = dependency.jobs.numbers();
        let range = JobId::all_of(first).start().to_owned()..=JobId::all_of(last).end().to_owned();
        let mut verdict = Verdict::Met;
        for (id, job) in self
            .jobs
            .range(range)
            .filter(|(id, _)| dependency.jobs.names(**id))
        {
            if job.state.is_final() && job.state != JobState::Done && dependency.ended_well {
                verdict = Verdict::Hopeless;
                break;
            }
            if !job.state.is_final() && verdict == Verdict::Met {
                verdict = Verdict::Open(*id);
            }
        }
        self.verdicts.insert(*dependency, verdict);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::job;

    fn queue(jobs: impl IntoIterator<Item = JobRecord>) -> BTreeMap<JobId, JobRecord> {
        jobs.into_iter().map(|job| (job.id, job)).collect()
    }

    fn with(id: &str, state: JobState, change: impl FnOnce(&mut JobRecord)) -> JobRecord {
        let mut job = job(id);
        job.state = state;
        change(&mut job);
        job
    }

    fn shown(ids: Vec<JobId>) -> String {
        let ids: Vec<String> = ids.iter().map(JobId::to_string).collect();
        ids.join(" ")
    }

    fn after(jobs: &str, ended_well: bool) -> Vec<Dependency> {
        vec![Dependency {
            jobs: jobs.parse().unwrap(),
            ended_well,
        }]
    }

    #[test]
    fn priorities_go_first_and_arrays_keep_their_bound() {
        let jobs = queue([
            with("1", JobState::Queued, |_| {}),
            with("2_0", JobState::Running, |job| job.spec.array_most = Some(2)),
            with("2_1", JobState::Queued, |job| job.spec.array_most = Some(2)),
            with("2_2", JobState::Queued, |job| job.spec.array_most = Some(2)),
            with("3", JobState::Queued, |job| job.spec.priority = 5),
            with("4", JobState::Held, |job| job.spec.priority = 9),
        ]);
        assert_eq!(shown(Plan::of(&jobs).next(9)), "3 1 2_1");
        assert_eq!(shown(Plan::of(&jobs).next(1)), "3");
        assert_eq!(
            Plan::of(&jobs).obstacle(&jobs[&"4".parse().unwrap()]),
            Some(Obstacle::Held)
        );
    }

    #[test]
    fn who_follows_waits_for_all_and_is_skipped_for_one() {
        let mut jobs = queue([
            with("1_0", JobState::Done, |_| {}),
            with("1_1", JobState::Running, |_| {}),
            with("2", JobState::Queued, |job| job.spec.after = after("1", true)),
            with("3", JobState::Queued, |job| job.spec.after = after("1", false)),
            with("4", JobState::Queued, |job| job.spec.after = after("1_0", true)),
            // What was cleaned away had ended.
            with("6", JobState::Held, |job| job.spec.after = after("5", true)),
        ]);
        let id = |text: &str| text.parse::<JobId>().unwrap();
        let open = Some(Obstacle::Follows(id("1_1")));
        assert_eq!(Plan::of(&jobs).obstacle(&jobs[&id("2")]), open);
        assert_eq!(shown(Plan::of(&jobs).next(9)), "4");
        assert_eq!(shown(Plan::of(&jobs).hopeless()), "");
        jobs.get_mut(&id("1_1")).unwrap().state = JobState::Failed;
        assert_eq!(shown(Plan::of(&jobs).hopeless()), "2");
        assert_eq!(shown(Plan::of(&jobs).next(9)), "3 4");
        jobs.get_mut(&id("1_1")).unwrap().state = JobState::Done;
        assert_eq!(shown(Plan::of(&jobs).next(9)), "2 3 4");
    }
}
