//! The service: it answers commands, starts jobs, and takes note of how they end.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::answers;
use crate::attempt::Standing;
use crate::id::JobId;
use crate::jobs::{ChangeError, Jobs, lost};
use crate::places::QueuePlace;
use crate::plan::Plan;
use crate::protocol::{self, Answer};
use crate::record::{Failure, FailureKind, Found, JobRecord, JobState};
use crate::runner::{Runner, SeenJob};
use crate::shared::Shared;
use crate::watched::Watched;
use crate::watcher::now;

/// How often the node is looked at while jobs wait: soon after a start, since the next may follow,
const SOON: Duration = Duration::from_millis(40);
/// and later.
const LATER: Duration = Duration::from_millis(250);
/// How long after a start is soon.
const STIR: Duration = Duration::from_secs(2);
/// How long until what has failed is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// The service ends once it has had nothing to do for so long.
const IDLE: Duration = Duration::from_secs(60);
/// How many commands are answered at once; others are turned away.
const CLIENTS: usize = 256;
/// How long commands have for reading that the service ends.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);
/// How many jobs begin in one transaction at most.
const STEP: usize = 8;

/// Serves the queue of this place until nothing is left to do, or somebody ends it.
///
/// # Errors
/// When another service runs for it, or its state cannot be read.
pub fn serve(place: &QueuePlace, runner: &mut dyn Runner) -> Result<()> {
    make_folder(&place.folder)?;
    check_owner(&place.folder)?;
    let file = place.folder.join("lock");
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&file);
    let lock = lock.with_context(|| format!("failed to write {}", file.display()))?;
    let began = Instant::now();
    // One that ends has it until its commands are told.
    while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        if began.elapsed() > 2 * GOODBYE_TIMEOUT {
            bail!(
                "a service for the queue in {} runs already",
                place.folder.display()
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut jobs = Jobs::open(&place.folder.join("queue.redb"))?;
    disk(jobs.begin_after(last_number(&place.folder.join("jobs"))?))?;
    let (wake, woken) = UnixStream::pair().context("failed to make a pipe")?;
    for end in [&wake, &woken] {
        end.set_nonblocking(true).context("failed to make a pipe")?;
    }
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let wake = wake.try_clone().context("failed to watch signals")?;
        signal_hook::low_level::pipe::register(signal, wake).context("failed to watch signals")?;
    }
    let stop = Arc::default();
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("failed to watch signals")?;
    }
    let listener = listen(&place.socket)?;
    let shared = Arc::new(Shared::new(jobs, wake, place.folder.clone(), lock));
    let mut service = Service {
        shared,
        runner,
        watched: BTreeMap::new(),
        finished: 0,
        stirred: Instant::now(),
        busy: Instant::now(),
        retry_at: None,
    };
    let served = service.run(&listener, &woken, &stop);
    let _ = fs::remove_file(&place.socket);
    service.shared.lock().is_stopping = true;
    service.shared.changed.notify_all();
    // Who has connected since the last look is told, as are commands that wait.
    service.accept(&listener);
    let began = Instant::now();
    while service.shared.clients.load(Ordering::SeqCst) > 0 && began.elapsed() < GOODBYE_TIMEOUT {
        std::thread::sleep(Duration::from_millis(5));
    }
    served
}

/// The last number of which there is a folder; 0: there is none.
fn last_number(folder: &Path) -> Result<u32> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        entries => entries.with_context(|| format!("failed to read {}", folder.display()))?,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let numbers = names.filter_map(|name| name.parse::<JobId>().ok());
    Ok(numbers.map(|id| id.number).max().unwrap_or(0))
}

/// The variables of submissions are in it, and what it says is believed.
fn check_owner(folder: &Path) -> Result<()> {
    let found = fs::metadata(folder).with_context(|| format!("failed to look at {}", folder.display()))?;
    if found.uid() != rustix::process::getuid().as_raw() {
        bail!(
            "{} is another user's: set MGB_QUEUE to a folder of yours",
            folder.display()
        );
    }
    Ok(())
}

fn make_folder(folder: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("failed to make {}; set MGB_QUEUE", folder.display()))
}

fn listen(socket: &Path) -> Result<UnixListener> {
    let shown = socket.display();
    make_folder(socket.parent().unwrap_or(Path::new("/")))?;
    // This process has the lock of the queue: whoever listened there has ended.
    let _ = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).with_context(|| {
        format!("failed to listen at {shown}; set MGB_QUEUE to a folder of yours with a shorter path")
    })?;
    fs::set_permissions(socket, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .with_context(|| format!("failed to keep {shown} for yourself"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

struct Service<'a> {
    shared: Arc<Shared>,
    runner: &'a mut dyn Runner,
    watched: BTreeMap<JobId, Watched>,
    /// Jobs that have ended since the service began.
    finished: usize,
    /// When a job was started last.
    stirred: Instant,
    /// When there was something to do last.
    busy: Instant,
    /// Until when nothing is started, after something has failed.
    retry_at: Option<Instant>,
}

impl Service<'_> {
    /// Takes over jobs that have begun without this service, or of which it did not know since the disk failed.
    fn adopt(&mut self) {
        let state = self.shared.lock();
        let running = state
            .jobs
            .all()
            .values()
            .filter(|job| job.state == JobState::Running);
        for job in running {
            self.watched.entry(job.id).or_insert_with(Watched::adopted);
        }
    }

    fn run(&mut self, listener: &UnixListener, woken: &UnixStream, stop: &AtomicBool) -> Result<()> {
        loop {
            let timeout = self.step()?;
            if stop.load(Ordering::SeqCst) || self.shared.lock().is_stopping {
                return Ok(());
            }
            let Some(timeout) = timeout else {
                return Ok(());
            };
            self.wait(listener, woken, timeout)?;
            while let Ok(true) = (&*woken).read(&mut [0; 64]).map(|read| read > 0) {}
            self.accept(listener);
        }
    }

    /// Takes note of what has ended, starts what may start; returns for how long there is nothing to do, or
    /// nothing if there is not at all.
    fn step(&mut self) -> Result<Option<Duration>> {
        if self.retry_at.is_none_or(|at| Instant::now() >= at) {
            self.retry_at = None;
            if let Err(error) = self.advance() {
                let mut state = self.shared.lock();
                state.trouble = Some(format!("{error:#}"));
                drop(state);
                self.retry_at = Some(Instant::now() + AGAIN);
            }
        }
        let state = self.shared.lock();
        let any = |wanted| state.jobs.all().values().any(|job| job.state == wanted);
        // Held jobs, and those of a paused queue, wait for a command, which starts a service.
        let waits = !state.jobs.settings().is_paused && any(JobState::Queued);
        let has_clients = self.shared.clients.load(Ordering::SeqCst) > 0;
        let is_busy = waits || has_clients || any(JobState::Running);
        drop(state);
        if is_busy {
            self.busy = Instant::now();
        } else if self.busy.elapsed() >= IDLE {
            return Ok(None);
        }
        let retry = self
            .retry_at
            .map(|at| at.saturating_duration_since(Instant::now()));
        let look = match (retry, waits) {
            (Some(retry), _) => retry,
            (None, true) if self.stirred.elapsed() < STIR => SOON,
            (None, true) => LATER,
            (None, false) => IDLE,
        };
        // What has no descriptor is looked at.
        let blind = self.watched.values().any(Watched::is_blind);
        Ok(Some(if blind { look.min(SOON) } else { look }))
    }

    fn advance(&mut self) -> Result<()> {
        self.shared.lock().jobs.recover()?;
        self.adopt();
        self.heed_cancelled();
        // A job that cannot be looked at, or started, keeps no other from starting.
        let collected = self.collect();
        let changed = disk(self.shared.lock().jobs.settle())?;
        if changed {
            self.shared.stir();
        }
        self.start().and(collected)
    }

    /// Ends jobs that somebody has cancelled.
    fn heed_cancelled(&mut self) {
        let state = self.shared.lock();
        for (id, watched) in &mut self.watched {
            if state.jobs.get(*id).is_some_and(|job| job.is_cancelled) {
                watched.end();
            }
        }
    }

    /// Takes note of what has ended.
    fn collect(&mut self) -> Result<()> {
        let ids: Vec<JobId> = self.watched.keys().copied().collect();
        // One that cannot be looked at keeps no other from being noted down.
        let looked = ids.into_iter().map(|id| self.collect_one(id));
        let failed: Vec<anyhow::Error> = looked.filter_map(Result::err).collect();
        failed.into_iter().next().map_or(Ok(()), Err)
    }

    fn collect_one(&mut self, id: JobId) -> Result<()> {
        let Some(job) = self.shared.lock().jobs.get(id).cloned() else {
            self.watched.remove(&id);
            return Ok(());
        };
        let attempt = self.shared.attempt(&job);
        let Some(watched) = self.watched.get_mut(&id) else {
            return Ok(());
        };
        if !watched.is_due() {
            return Ok(());
        }
        let standing = attempt
            .standing()
            .with_context(|| format!("failed to look at {}", attempt.path().display()))?;
        let (ended, found) = match standing {
            Standing::Running(pid) => {
                watched.adopt(pid, &attempt);
                return Ok(());
            }
            // Of a service that ended before its watcher began, if there was one: it begins once.
            Standing::New if watched.has_no_watcher() => {
                if job.is_cancelled {
                    let (ended, mut found) = lost(now());
                    found.failure = Some(not_begun("it was cancelled"));
                    (ended, found)
                } else {
                    self.watch(&job)?;
                    return Ok(());
                }
            }
            Standing::New => {
                let (ended, mut found) = lost(now());
                found.failure = Some(not_begun(&watched.last_words(&attempt)));
                (ended, found)
            }
            Standing::Lost => lost(now()),
            Standing::Ended(ended) => {
                let found = match &ended.not_started {
                    Some(why) => Found {
                        failure: Some(not_begun(why)),
                        ..Found::default()
                    },
                    None => self.runner.judge(&job, &attempt, &ended),
                };
                (ended, found)
            }
        };
        disk(self.shared.lock().jobs.end(id, &ended, &found))?;
        self.watched.remove(&id);
        self.finished += 1;
        self.runner.ended(&job, ended.host_peak_bytes);
        self.shared.stir();
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        loop {
            let (next, parallel) = {
                let state = self.shared.lock();
                let settings = state.jobs.settings();
                if settings.is_paused {
                    return Ok(());
                }
                let next = Plan::of(state.jobs.all()).next(STEP);
                let jobs: Vec<JobRecord> = next
                    .iter()
                    .filter_map(|id| state.jobs.get(*id).cloned())
                    .collect();
                (jobs, settings.parallel)
            };
            if next.is_empty() {
                self.shared.lock().trouble = None;
                if self.watched.is_empty() {
                    self.runner.rest();
                }
                return Ok(());
            }
            let wanted = match parallel {
                Some(most) => most,
                None => {
                    let running = self.seen();
                    self.runner.wanted(&running, self.finished, &next)?
                }
            };
            let room = wanted.saturating_sub(self.watched.len()).min(next.len());
            if room == 0 {
                self.shared.lock().trouble = None;
                return Ok(());
            }
            let begun = {
                let mut state = self.shared.lock();
                // Somebody may have cancelled one meanwhile.
                let ids = Plan::of(state.jobs.all()).next(room);
                disk(state.jobs.begin(&ids, now()))?;
                state.trouble = None;
                let jobs = ids.iter().filter_map(|id| state.jobs.get(*id).cloned());
                jobs.collect::<Vec<_>>()
            };
            self.stirred = Instant::now();
            for job in &begun {
                self.watched.insert(job.id, Watched::adopted());
                self.watch(job)?;
            }
            self.shared.stir();
        }
    }

    /// Starts a watcher for the last attempt of a job.
    fn watch(&mut self, job: &JobRecord) -> Result<()> {
        let attempt = self.shared.attempt(job);
        let environment = self.shared.lock().jobs.environment(job)?;
        let prepared = self.runner.order(job, &attempt).and_then(|(order, more)| {
            attempt.prepare(&order, &answers::environment(environment, job, &more))
        });
        prepared.with_context(|| format!("failed to start job {}", job.id))?;
        let watched = Watched::start(self.runner.watcher(&attempt), &attempt)
            .with_context(|| format!("failed to start job {}", job.id))?;
        self.watched.insert(job.id, watched);
        Ok(())
    }

    fn seen(&self) -> Vec<SeenJob> {
        let state = self.shared.lock();
        let seen = self.watched.iter().filter_map(|(id, watched)| {
            let job = state.jobs.get(*id)?;
            Some(SeenJob {
                pid: self.shared.attempt(job).job_pid(),
                started: watched.since(),
                text: job.spec.text.clone(),
                program: job.spec.program.clone(),
            })
        });
        seen.collect()
    }

    fn wait(&self, listener: &UnixListener, woken: &UnixStream, timeout: Duration) -> Result<()> {
        let watched = self.watched.values().filter_map(Watched::descriptor);
        let all: Vec<BorrowedFd<'_>> = watched.chain([listener.as_fd(), woken.as_fd()]).collect();
        let mut polled: Vec<PollFd<'_>> = all
            .into_iter()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("failed to wait for commands and jobs"),
        }
    }

    fn accept(&mut self, listener: &UnixListener) {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // No descriptor is left, say: who waits at the socket would wake the loop without end.
                    std::thread::sleep(SOON);
                    return;
                }
            };
            let own = rustix::process::getuid().as_raw();
            if mgb_probe::peer(&stream).map(|peer| peer.uid) != Some(own) {
                continue;
            }
            let shared = Arc::clone(&self.shared);
            if shared.clients.fetch_add(1, Ordering::SeqCst) >= CLIENTS {
                shared.clients.fetch_sub(1, Ordering::SeqCst);
                let full = Answer::Failed(format!("the queue answers {CLIENTS} commands at once already"));
                // Whoever does not read it finds the connection closed.
                let _ = protocol::write(&mut &stream, &full);
                continue;
            }
            self.busy = Instant::now();
            let of_thread = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("command".to_owned());
            let spawned = thread.spawn(move || {
                // A command that has gone is no concern of the queue's.
                let _ = answers::talk(&of_thread, stream);
                of_thread.clients.fetch_sub(1, Ordering::SeqCst);
            });
            if spawned.is_err() {
                shared.clients.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
}

fn not_begun(why: &str) -> Failure {
    Failure {
        kind: FailureKind::NotStarted,
        evidence: Some(why.to_owned()),
    }
}

fn disk<T>(done: Result<T, ChangeError>) -> Result<T> {
    done.map_err(|error| match error {
        ChangeError::Refused(why) => anyhow::anyhow!(why),
        ChangeError::Disk(error) => error,
    })
}
