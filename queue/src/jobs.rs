//! The jobs of a queue: each change is on disk before it counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::attempt::Ended;
use crate::id::{JobId, LAST_INDEX};
use crate::plan::Plan;
use crate::protocol::{Edit, JobFilter, Places, Submission};
use crate::record::{Attempt, Dependency, FailureKind, Found, JobRecord, JobState, QueueSettings};
use crate::store::{Change, Contents, Store};

/// The most jobs that a queue holds, ended ones among them.
const MOST: usize = 1_000_000;

/// Why a change was not made.
#[derive(Debug)]
pub enum ChangeError {
    /// It makes no sense.
    Refused(String),
    /// The disk has failed. What was asked for may have been done all the same; the queue shows it.
    Disk(anyhow::Error),
}

/// The jobs, in memory as they are on disk.
#[derive(Debug)]
pub struct Jobs {
    file: PathBuf,
    /// None after the disk has failed, until it is opened anew.
    store: Option<Store>,
    contents: Contents,
}

impl Jobs {
    /// Reads the jobs of this store, or makes it.
    ///
    /// # Errors
    /// See [`Store::open`].
    pub fn open(file: &Path) -> Result<Self> {
        let store = Store::open(file)?;
        let contents = store.contents()?;
        Ok(Self {
            file: file.to_owned(),
            store: Some(store),
            contents,
        })
    }

    /// Gives no job a number up to this one: a folder of a job is left from a store that is gone, and what stands in
    /// it would be taken for what has become of another job.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn begin_after(&mut self, number: u32) -> Result<(), ChangeError> {
        if number < self.contents.next {
            return Ok(());
        }
        self.commit(Change {
            next: Some(
                number
                    .checked_add(1)
                    .ok_or_else(|| refused("the numbers of jobs are used up"))?,
            ),
            ..Change::default()
        })
    }

    /// All jobs, in the order of their numbers.
    pub fn all(&self) -> &BTreeMap<JobId, JobRecord> {
        &self.contents.jobs
    }

    /// The job of this number, if there is one.
    pub fn get(&self, id: JobId) -> Option<&JobRecord> {
        self.contents.jobs.get(&id)
    }

    /// How the queue works.
    pub fn settings(&self) -> QueueSettings {
        self.contents.settings
    }

    /// The variables of whoever submitted a job.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn environment(&mut self, job: &JobRecord) -> Result<Vec<u8>> {
        self.opened()?.environment(job.environment)
    }

    /// Which jobs a filter means.
    pub fn meant(&self, filter: &JobFilter) -> Vec<JobId> {
        let meant = self.all().values().filter(|job| filter.takes(job));
        meant.map(|job| job.id).collect()
    }

    /// Takes jobs into the queue.
    ///
    /// # Errors
    /// When one makes no sense, or the disk fails: then none was taken, unless the queue shows them.
    pub fn submit(&mut self, submission: Submission, now: f64) -> Result<Vec<JobId>, ChangeError> {
        let Submission {
            jobs: specs,
            array,
            environment,
            is_held,
        } = submission;
        if specs.is_empty() {
            return Err(refused("no job was submitted"));
        }
        if let Some(indices) = &array {
            let is_valid = indices.iter().all(|index| *index <= LAST_INDEX);
            if specs.len() != 1 || indices.is_empty() || !is_valid {
                return Err(refused(format!(
                    "an array is of one job, with indices from 0 to {LAST_INDEX}"
                )));
            }
        }
        let each = array.map_or_else(|| vec![None], |indices| indices.into_iter().map(Some).collect());
        let each: BTreeSet<Option<u32>> = each.into_iter().collect();
        if self.all().len() + specs.len() * each.len() > MOST {
            return Err(refused(format!(
                "the queue would hold more than {MOST} jobs: `mgb queue clean` forgets those that have ended"
            )));
        }
        for dependency in specs.iter().flat_map(|spec| &spec.after) {
            self.check(dependency)?;
        }
        let first = self.contents.next;
        let next = u32::try_from(specs.len())
            .ok()
            .and_then(|count| first.checked_add(count));
        let next = next.ok_or_else(|| refused("the numbers of jobs are used up"))?;
        let stored = self.contents.next_environment;
        let state = if is_held { JobState::Held } else { JobState::Queued };
        let jobs: Vec<JobRecord> = (first..)
            .zip(&specs)
            .flat_map(|(number, spec)| {
                each.iter().map(move |index| JobRecord {
                    id: JobId {
                        number,
                        index: *index,
                    },
                    spec: spec.clone(),
                    environment: stored,
                    submitted: now,
                    state,
                    is_cancelled: false,
                    attempts: Vec::new(),
                })
            })
            .collect();
        let ids = jobs.iter().map(|job| job.id).collect();
        self.commit(Change {
            jobs,
            environment: Some((stored, environment)),
            next: Some(next),
            ..Change::default()
        })?;
        Ok(ids)
    }

    fn check(&self, dependency: &Dependency) -> Result<(), ChangeError> {
        let exists = self.all().keys().any(|id| dependency.jobs.names(*id));
        let unknown = || refused(format!("there is no job {}", dependency.jobs));
        if exists { Ok(()) } else { Err(unknown()) }
    }

    /// Notes down that these begin, before they do.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn begin(&mut self, ids: &[JobId], now: f64) -> Result<(), ChangeError> {
        self.change(ids, |job| {
            job.state = JobState::Running;
            job.attempts.push(Attempt {
                started: now,
                ended: None,
                exit_code: None,
                signal: None,
                cpu_s: 0.0,
                host_peak_bytes: 0,
                found: Found::default(),
            });
        })
    }

    /// Notes down how the last attempt of a job ended.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn end(&mut self, id: JobId, ended: &Ended, found: &Found) -> Result<(), ChangeError> {
        self.change(&[id], |job| {
            if let Some(attempt) = job.attempts.last_mut() {
                *attempt = Attempt {
                    started: attempt.started,
                    ended: Some(ended.at),
                    exit_code: ended.exit_code,
                    signal: ended.signal,
                    cpu_s: ended.cpu_s,
                    host_peak_bytes: ended.host_peak_bytes,
                    found: found.clone(),
                };
            }
            job.state = match &found.failure {
                None => JobState::Done,
                Some(_) if job.is_cancelled => JobState::Cancelled,
                Some(failure) if job.is_retried(failure) => JobState::Queued,
                Some(_) => JobState::Failed,
            };
        })
    }

    /// Skips what will never start, and what that keeps from starting.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn settle(&mut self) -> Result<bool, ChangeError> {
        let mut any = false;
        loop {
            let hopeless = Plan::of(self.all()).hopeless();
            if hopeless.is_empty() {
                return Ok(any);
            }
            any = true;
            self.change(&hopeless, |job| job.state = JobState::Skipped)?;
        }
    }

    /// Cancels jobs; returns all that it concerns. Those that run have yet to be ended.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn cancel(&mut self, filter: &JobFilter) -> Result<Vec<JobId>, ChangeError> {
        self.change_meant(
            filter,
            |job| !job.state.is_final() && !job.is_cancelled,
            |job| {
                job.is_cancelled = true;
                if job.state != JobState::Running {
                    job.state = JobState::Cancelled;
                }
            },
        )
    }

    /// Holds jobs that wait.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn hold(&mut self, filter: &JobFilter) -> Result<Vec<JobId>, ChangeError> {
        let waits = |job: &JobRecord| job.state == JobState::Queued;
        self.change_meant(filter, waits, |job| job.state = JobState::Held)
    }

    /// Releases jobs that are held.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn release(&mut self, filter: &JobFilter) -> Result<Vec<JobId>, ChangeError> {
        let is_held = |job: &JobRecord| job.state == JobState::Held;
        self.change_meant(filter, is_held, |job| job.state = JobState::Queued)
    }

    /// Changes what was asked for.
    ///
    /// # Errors
    /// When it makes no sense, or the disk fails.
    pub fn edit(&mut self, filter: &JobFilter, edit: &Edit) -> Result<Vec<JobId>, ChangeError> {
        for dependency in edit.after.iter().flatten() {
            self.check(dependency)?;
            // Only earlier ones: so nobody waits for himself, by way of others neither.
            let first = self.meant(filter).first().map_or(u32::MAX, |id| id.number);
            if dependency.jobs.numbers().1 >= first {
                return Err(refused(format!(
                    "a job follows jobs of smaller numbers only, and {} are not",
                    dependency.jobs
                )));
            }
        }
        self.change_meant(
            filter,
            |job| !job.state.is_final(),
            |job| {
                let spec = &mut job.spec;
                spec.priority = edit.priority.unwrap_or(spec.priority);
                spec.retries = edit.retries.unwrap_or(spec.retries);
                if let Some(limit) = edit.limit_s {
                    spec.limit_s = Some(limit).filter(|limit| *limit > 0.0);
                }
                if let Some(most) = edit.array_most {
                    spec.array_most = Some(most).filter(|most| *most > 0);
                }
                if let Some(name) = &edit.name {
                    spec.name = Some(name.clone());
                }
                if let Some(after) = &edit.after {
                    spec.after.clone_from(after);
                }
            },
        )
    }

    /// Changes how the queue works.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn set(&mut self, is_paused: Option<bool>, places: Option<Places>) -> Result<(), ChangeError> {
        let mut settings = self.settings();
        settings.is_paused = is_paused.unwrap_or(settings.is_paused);
        settings.parallel = match places {
            None => settings.parallel,
            Some(Places::Auto) => None,
            Some(Places::Count(count)) => Some(count.max(1)),
        };
        self.commit(Change {
            settings: Some(settings),
            ..Change::default()
        })
    }

    /// Forgets jobs that have ended, unless others that wait follow them; returns which.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn clean(&mut self, filter: &JobFilter) -> Result<Vec<JobId>, ChangeError> {
        let open = self.all().values().filter(|job| !job.state.is_final());
        let followed: BTreeSet<_> = open
            .flat_map(|job| job.spec.after.iter().map(|after| after.jobs.to_string()))
            .collect();
        let followed: Vec<crate::id::Selection> =
            followed.iter().filter_map(|text| text.parse().ok()).collect();
        let is_needed = |id: JobId| followed.iter().any(|jobs| jobs.names(id));
        let meant = self.all().values().filter(|job| filter.takes(job));
        let forgotten: Vec<JobId> = meant
            .filter(|job| job.state.is_final() && !is_needed(job.id))
            .map(|job| job.id)
            .collect();
        let gone: BTreeSet<JobId> = forgotten.iter().copied().collect();
        let of = |is_gone: bool| {
            let jobs = self
                .all()
                .values()
                .filter(|job| gone.contains(&job.id) == is_gone);
            jobs.map(|job| job.environment).collect::<BTreeSet<u64>>()
        };
        let (theirs, needed) = (of(true), of(false));
        self.commit(Change {
            forgotten: forgotten.clone(),
            forgotten_environments: theirs.difference(&needed).copied().collect(),
            ..Change::default()
        })?;
        Ok(forgotten)
    }

    fn change_meant(
        &mut self,
        filter: &JobFilter,
        concerns: impl Fn(&JobRecord) -> bool,
        change: impl Fn(&mut JobRecord),
    ) -> Result<Vec<JobId>, ChangeError> {
        let meant = self
            .all()
            .values()
            .filter(|job| filter.takes(job) && concerns(job));
        let ids: Vec<JobId> = meant.map(|job| job.id).collect();
        self.change(&ids, change)?;
        Ok(ids)
    }

    fn change(&mut self, ids: &[JobId], change: impl Fn(&mut JobRecord)) -> Result<(), ChangeError> {
        let mut jobs: Vec<JobRecord> = ids.iter().filter_map(|id| self.get(*id).cloned()).collect();
        jobs.iter_mut().for_each(change);
        self.commit(Change {
            jobs,
            ..Change::default()
        })
    }

    fn commit(&mut self, change: Change) -> Result<(), ChangeError> {
        let done = self.opened().and_then(|store| store.apply(&change));
        if let Err(error) = done {
            // What is on disk now is not known until it is read anew.
            self.store = None;
            let failed = "failed to write the queue's store; look at `mgb queue` whether it was done";
            return Err(ChangeError::Disk(error.context(failed)));
        }
        let contents = &mut self.contents;
        contents
            .jobs
            .extend(change.jobs.into_iter().map(|job| (job.id, job)));
        for id in change.forgotten {
            contents.jobs.remove(&id);
        }
        if let Some((number, _)) = change.environment {
            contents.next_environment = number + 1;
        }
        contents.settings = change.settings.unwrap_or(contents.settings);
        contents.next = change.next.unwrap_or(contents.next);
        Ok(())
    }

    /// Reads the store anew if the disk has failed.
    ///
    /// # Errors
    /// When it still does.
    pub fn recover(&mut self) -> Result<()> {
        self.opened().map(drop)
    }

    fn opened(&mut self) -> Result<&Store> {
        if self.store.is_none() {
            let store = Store::open(&self.file)?;
            self.contents = store.contents()?;
            self.store = Some(store);
        }
        self.store.as_ref().context("the store is closed")
    }
}

fn refused(why: impl Into<String>) -> ChangeError {
    ChangeError::Refused(why.into())
}

/// How an attempt ended that nobody watched to its end.
pub fn lost(now: f64) -> (Ended, Found) {
    let failure = crate::record::Failure {
        kind: FailureKind::Lost,
        evidence: Some("the node went down, or the process that watched the job was killed".to_owned()),
    };
    let ended = Ended {
        at: now,
        ..Ended::default()
    };
    let found = Found {
        failure: Some(failure),
        ..Found::default()
    };
    (ended, found)
}
