//! Reaches the queue's service, and starts it where none runs.

use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mgb_command::exit::{self, Failure, WithCode};
use mgb_command::prefix::Prefix;
use mgb_queue::client::QueueClient;
use mgb_queue::id::JobId;
use mgb_queue::places::QueuePlace;
use mgb_queue::protocol::{Answer, JobFilter, Listing, Request};

/// How long a service may take until it answers, or has ended: a large store takes a while.
pub const SERVICE_LIMIT: Duration = Duration::from_secs(30);

/// Asks the service, started if need be.
pub fn ask(request: &Request) -> Result<Answer, Failure> {
    let began = Instant::now();
    let answer = loop {
        let answer = service()
            .and_then(|mut service| service.ask(request))
            .code(exit::NODE)?;
        if !matches!(answer, Answer::Ending) || began.elapsed() > SERVICE_LIMIT {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    match answer {
        Answer::Ending => {
            let error = anyhow::anyhow!(
                "the queue's service has not ended after {} s",
                SERVICE_LIMIT.as_secs()
            );
            Err(Failure::new(exit::NODE, error))
        }
        Answer::Refused(why) => Err(Failure::new(exit::USAGE, anyhow::anyhow!(why))),
        Answer::Failed(why) => Err(Failure::new(exit::NODE, anyhow::anyhow!(why))),
        answer => Ok(answer),
    }
}

/// What the service tells of these jobs.
pub fn listing(filter: JobFilter) -> Result<Listing, Failure> {
    told(ask(&Request::List(filter))?)
}

/// A listing that was asked for.
pub fn told(answer: Answer) -> Result<Listing, Failure> {
    match answer {
        Answer::Listing(listing) => Ok(*listing),
        other => Err(unexpected(&other)),
    }
}

/// The jobs that were changed as was asked for.
pub fn changed(request: &Request) -> Result<Vec<JobId>, Failure> {
    match ask(request)? {
        Answer::Changed(ids) => Ok(ids),
        other => Err(unexpected(&other)),
    }
}

/// An answer to something else: the service is of another MGB.
pub fn unexpected(answer: &Answer) -> Failure {
    let error = anyhow::anyhow!(
        "the queue's service is of another version of MGB (it answered {answer:?}): end it with \
         `mgb queue stop`; jobs that run go on"
    );
    Failure::new(exit::NODE, error)
}

/// The service, if one runs.
pub fn running() -> Result<Option<QueueClient>> {
    QueueClient::connect(&QueuePlace::find()?.socket)
}

fn service() -> Result<QueueClient> {
    let place = QueuePlace::find()?;
    if let Some(service) = QueueClient::connect(&place.socket)? {
        return Ok(service);
    }
    let folder = &place.folder;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| {
            format!(
                "failed to make {}; set MGB_QUEUE to a folder of yours",
                folder.display()
            )
        })?;
    let file = folder.join("service.log");
    let mut log = File::options()
        .create(true)
        .append(true)
        .read(true)
        .open(&file)
        .with_context(|| format!("failed to write {}", file.display()))?;
    let from = log.seek(SeekFrom::End(0))?;
    let mgb = Prefix::find()?.mgb()?;
    let mut command = Command::new(&mgb);
    command.args(["queue", "serve"]).current_dir("/");
    // A program of a service is not that service, and has nothing to tell systemd for it.
    for name in mgb_interface::SYSTEMD_VARIABLES {
        command.env_remove(name);
    }
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    // SAFETY: setsid is async-signal-safe, and the closure touches no memory of the parent's other threads.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into));
    }
    let mut child = command
        .spawn()
        .with_context(|| format!("failed to run {}", mgb.display()))?;
    let began = Instant::now();
    loop {
        let ended = child.try_wait().context("failed to watch the queue's service")?;
        // After looking whether it has ended: one that lost to another leaves that one listening.
        if let Some(service) = QueueClient::connect(&place.socket)? {
            return Ok(service);
        }
        if let Some(status) = ended.filter(|status| !status.success()) {
            let mut said = String::new();
            log.seek(SeekFrom::Start(from))?;
            // What cannot be read is in the log all the same.
            let _ = log.read_to_string(&mut said);
            let said = said.trim().trim_start_matches("mgb queue: ");
            if !said.contains("runs already") {
                bail!(
                    "failed to start the queue's service ({status}; its log is {}): {said}",
                    file.display()
                );
            }
        }
        if began.elapsed() > SERVICE_LIMIT {
            bail!(
                "failed to start the queue's service: it does not answer at {} after {} s; see its log {}",
                place.socket.display(),
                SERVICE_LIMIT.as_secs(),
                file.display()
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
