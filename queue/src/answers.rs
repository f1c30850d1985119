//! What the service answers to a command.

use std::fs;
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::MutexGuard;
use std::time::Duration;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::id::JobId;
use crate::jobs::ChangeError;
use crate::plan::{Obstacle, Plan};
use crate::protocol::{self, Answer, JobFilter, ListedJob, Listing, Request, VERSION};
use crate::record::{JobRecord, JobState};
use crate::shared::{QueueState, Shared};
use crate::watcher::now;

/// The number of a job, as it sees it itself,
const JOB_ID: &str = "MGB_JOB_ID";
/// and its index in an array.
const ARRAY_INDEX: &str = "MGB_ARRAY_INDEX";

/// How long a command may take to say what it wants, or to read the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a command that waits is looked at, whether it is still there.
const LOOK: Duration = Duration::from_secs(1);

/// Answers one command until it goes.
pub fn talk(shared: &Shared, stream: UnixStream) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let request = match protocol::read(&mut reader) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) => {
                let answer = Answer::Refused(format!("{error:#}"));
                return protocol::write(&mut &stream, &answer);
            }
        };
        let Some(answer) = answer(shared, request, &stream) else {
            return Ok(());
        };
        protocol::write(&mut &stream, &answer)?;
    }
}

/// The answer; none if whoever asked has gone.
fn answer(shared: &Shared, request: Request, stream: &UnixStream) -> Option<Answer> {
    let mut state = shared.lock();
    // What it took now nobody would start: it has looked at its jobs for the last time.
    if state.is_stopping {
        return Some(Answer::Ending);
    }
    let jobs = &mut state.jobs;
    let done = match request {
        Request::Submit(submission) => jobs.submit(*submission, now()).map(Answer::Submitted),
        Request::List(filter) => Ok(listing(shared, &state, &filter)),
        Request::Wait(filter) => return wait(shared, state, &filter, stream),
        Request::Cancel(filter) => jobs.cancel(&filter).map(Answer::Changed),
        Request::Hold(filter) => jobs.hold(&filter).map(Answer::Changed),
        Request::Release(filter) => jobs.release(&filter).map(Answer::Changed),
        Request::Edit(filter, edit) => jobs.edit(&filter, &edit).map(Answer::Changed),
        Request::Clean(filter) => clean(shared, state, &filter),
        Request::Settings { is_paused, places } => {
            jobs.set(is_paused, places).map(|()| Answer::Changed(Vec::new()))
        }
        Request::Stop => {
            state.is_stopping = true;
            Ok(Answer::Changed(Vec::new()))
        }
    };
    shared.stir();
    Some(done.unwrap_or_else(|error| match error {
        ChangeError::Refused(why) => Answer::Refused(why),
        ChangeError::Disk(error) => Answer::Failed(format!("{error:#}")),
    }))
}

fn wait(
    shared: &Shared,
    mut state: MutexGuard<'_, QueueState>,
    filter: &JobFilter,
    stream: &UnixStream,
) -> Option<Answer> {
    // Those that are meant now: by state it would be others later.
    let meant = state.jobs.meant(filter);
    loop {
        let has_ended = |id: &JobId| state.jobs.get(*id).is_none_or(|job| job.state.is_final());
        if meant.iter().all(has_ended) {
            let chosen = meant.iter().filter_map(|id| state.jobs.get(*id));
            return Some(list(shared, &state, chosen));
        }
        if state.is_stopping {
            return Some(Answer::Failed("the queue's service ends".to_owned()));
        }
        let waited = shared.changed.wait_timeout(state, LOOK);
        state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        if is_gone(stream).unwrap_or(true) {
            return None;
        }
    }
}

fn clean(
    shared: &Shared,
    mut state: MutexGuard<'_, QueueState>,
    filter: &JobFilter,
) -> Result<Answer, ChangeError> {
    let forgotten = state.jobs.clean(filter)?;
    // Removing files may take a while.
    drop(state);
    for id in &forgotten {
        // What is left of a folder that cannot be removed is of no job any more: no number is given twice.
        let _ = fs::remove_dir_all(shared.folder_of(*id));
    }
    Ok(Answer::Changed(forgotten))
}

fn listing(shared: &Shared, state: &QueueState, filter: &JobFilter) -> Answer {
    list(
        shared,
        state,
        state.jobs.all().values().filter(|job| filter.takes(job)),
    )
}

fn list<'a>(shared: &Shared, state: &QueueState, jobs: impl Iterator<Item = &'a JobRecord>) -> Answer {
    let mut plan = Plan::of(state.jobs.all());
    let settings = state.jobs.settings();
    let listed = jobs.map(|job| {
        let waits = matches!(job.state, JobState::Queued | JobState::Held);
        let why = || match plan.obstacle(job) {
            Some(Obstacle::Held) => "`mgb queue release`: it is held".to_owned(),
            Some(Obstacle::Follows(id)) => format!("job {id}"),
            Some(Obstacle::ArrayMost(most)) => format!("its array: {most} run at once"),
            None if settings.is_paused => "`mgb queue resume`: the queue is paused".to_owned(),
            None => "its turn".to_owned(),
        };
        let attempt = shared.attempt(job);
        let is_running = job.state == JobState::Running;
        ListedJob {
            waits_for: waits.then(why),
            pid: is_running.then(|| attempt.job_pid()).flatten(),
            log: Some(attempt.log()).filter(|_| !job.attempts.is_empty()),
            job: job.clone(),
        }
    });
    let jobs = listed.collect();
    Answer::Listing(Box::new(Listing {
        version: VERSION,
        pid: std::process::id(),
        folder: shared.folder.clone(),
        settings,
        trouble: state.trouble.clone(),
        jobs,
    }))
}

/// Whether whoever is at the other end has gone.
fn is_gone(stream: &UnixStream) -> io::Result<bool> {
    let mut watched = [PollFd::new(stream, PollFlags::RDHUP)];
    let none = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut watched, Some(&none))?;
    Ok(!watched[0].revents().is_empty())
}

/// The variables of a job: those of whoever submitted it, those that the job sets, and those that say which
/// job it is.
pub fn environment(mut environment: Vec<u8>, job: &JobRecord, more: &[(String, String)]) -> Vec<u8> {
    if environment.last().is_some_and(|last| *last != 0) {
        environment.push(0);
    }
    let id = (JOB_ID.to_owned(), job.id.to_string());
    let index = job
        .id
        .index
        .map(|index| (ARRAY_INDEX.to_owned(), index.to_string()));
    let all = job.spec.variables.iter().chain(more).chain([&id]).chain(&index);
    for (name, value) in all {
        environment.extend_from_slice(format!("{name}={value}\0").as_bytes());
    }
    environment
}
