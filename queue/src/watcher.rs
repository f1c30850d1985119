//! The process that watches one run of a job: it starts the job, ends it when its time is over or somebody
//! cancels it, and writes down how it ended. It outlives the queue's service.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use mgb_command::reap::reap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::attempt::{AttemptFolder, Ended, Order, Watch};

/// How long a job may take to end after SIGTERM before it is killed.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a failing disk is tried for, until nobody will know how the job ended.
const DISK_TIMEOUT: Duration = Duration::from_secs(60);

/// Seconds since 1970.
pub fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// Runs the attempt of this folder, unless it was made before. Returns once the job has ended.
///
/// # Errors
/// When it cannot be run or watched, or how it ended cannot be written down.
pub fn watch(attempt: &AttemptFolder) -> Result<()> {
    // Before anything is started: whoever cancels shall find a watcher that heeds it.
    let signals = Signals::watch()?;
    let Some(mut watch) = begin(attempt)? else {
        return Ok(());
    };
    let ended = match run(attempt, &watch, &signals) {
        Ok(ended) => ended,
        Err(error) => Ended {
            not_started: Some(format!("{error:#}")),
            ..Ended::default()
        },
    };
    let ended = Ended { at: now(), ..ended };
    let began = Instant::now();
    while let Err(error) = watch.end(&ended) {
        if began.elapsed() > DISK_TIMEOUT {
            return Err(error).context("failed to write down how the job ended");
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// Begins the attempt; where the disk is full, once it has room for what will be said of it.
fn begin(attempt: &AttemptFolder) -> Result<Option<Watch>> {
    let began = Instant::now();
    loop {
        match attempt.begin() {
            Err(error) if is_full(&error) && began.elapsed() < DISK_TIMEOUT => {
                std::thread::sleep(Duration::from_secs(1));
            }
            begun => return begun.context("failed to begin the attempt"),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn run(attempt: &AttemptFolder, watch: &Watch, signals: &Signals) -> Result<Ended> {
    let (order, environment) = attempt.order()?;
    let mut command = command(&order, &environment)?;
    let log = attempt.log();
    let output = File::create(&log).with_context(|| format!("failed to write {}", log.display()))?;
    let errors = output.try_clone().context("failed to open the log twice")?;
    command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0);
    // SAFETY: prctl is async-signal-safe, and the closure touches no memory of the parent's other threads.
    unsafe {
        // A job without its watcher would be lost while it runs.
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).map_err(Into::into)
        });
    }
    if !order.folder.is_dir() {
        bail!("its folder {} is not there", order.folder.display());
    }
    let child = command.spawn().with_context(|| {
        let program = order.command.first().map_or("", String::as_str);
        format!("failed to start {program} in {}", order.folder.display())
    })?;
    watch.job_is(child.id());
    let pid = Pid::from_raw(child.id() as i32).context("a process without a number")?;
    let mut job = Job {
        pid,
        over_at: order
            .limit_s
            .and_then(|limit| Duration::try_from_secs_f64(limit).ok())
            .and_then(|limit| Instant::now().checked_add(limit)),
        kill_at: None,
        is_over_limit: false,
        is_cancelled: false,
    };
    job.wait(signals)?;
    job.reap()
}

fn command(order: &Order, environment: &[u8]) -> Result<Command> {
    let Some((program, arguments)) = order.command.split_first() else {
        bail!("the order names no command");
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&order.folder).env_clear();
    for (name, value) in variables(environment) {
        command.env(name, value);
    }
    Ok(command)
}

/// The variables of an environment as `execve` takes it.
pub fn variables(environment: &[u8]) -> impl Iterator<Item = (OsString, OsString)> + '_ {
    environment.split(|byte| *byte == 0).filter_map(|variable| {
        // A name may begin with `=` in odd environments.
        let at = variable.iter().skip(1).position(|byte| *byte == b'=')? + 1;
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        Some((text(&variable[..at]), text(&variable[at + 1..])))
    })
}

/// The job while it runs.
struct Job {
    pid: Pid,
    over_at: Option<Instant>,
    /// Set once it was asked to end.
    kill_at: Option<Instant>,
    is_over_limit: bool,
    is_cancelled: bool,
}

impl Job {
    /// Returns when it has ended and can be reaped.
    fn wait(&mut self, signals: &Signals) -> Result<()> {
        let pidfd = pidfd_open(self.pid, PidfdFlags::empty()).context("failed to watch the job")?;
        loop {
            let left = self.kill_at.or(self.over_at);
            let timeout = left.map(|at| {
                let left = at.saturating_duration_since(Instant::now());
                Timespec {
                    tv_sec: left.as_secs() as i64,
                    tv_nsec: left.subsec_nanos().into(),
                }
            });
            let mut watched = [
                PollFd::new(&pidfd, PollFlags::IN),
                PollFd::from_borrowed_fd(signals.0.as_fd(), PollFlags::IN),
            ];
            match poll(&mut watched, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("failed to wait for the job"),
            }
            if !watched[0].revents().is_empty() {
                return Ok(());
            }
            self.heed(signals);
        }
    }

    fn heed(&mut self, signals: &Signals) {
        let is_asked = signals.take();
        let is_over = |at: Option<Instant>| at.is_some_and(|at| Instant::now() >= at);
        if is_over(self.kill_at) {
            self.signal(Signal::KILL);
            self.kill_at = Some(Instant::now() + KILL_TIMEOUT);
        } else if self.kill_at.is_none() && (is_asked || is_over(self.over_at)) {
            (self.is_cancelled, self.is_over_limit) = (is_asked, !is_asked);
            self.signal(Signal::TERM);
            self.kill_at = Some(Instant::now() + KILL_TIMEOUT);
        }
    }

    fn signal(&self, signal: Signal) {
        // Not waited for yet, so the number is still this job's. Failing means that it has ended.
        let _ = kill_process_group(self.pid, signal);
    }

    fn reap(self) -> Result<Ended> {
        if self.kill_at.is_some() {
            // Those of its children that did not heed the first signal.
            self.signal(Signal::KILL);
        }
        let pid = self.pid.as_raw_nonzero().get().cast_unsigned();
        let reaped = reap(pid).context("failed to wait for the job")?;
        Ok(Ended {
            at: 0.0,
            exit_code: reaped.status.code(),
            signal: reaped.status.signal(),
            cpu_s: reaped.cpu.as_secs_f64(),
            host_peak_bytes: reaped.peak_bytes,
            is_over_limit: self.is_over_limit,
            is_cancelled: self.is_cancelled,
            not_started: None,
        })
    }
}

/// Signals that ask this process to stop: they stop the job.
struct Signals(UnixStream);

impl Signals {
    fn watch() -> Result<Self> {
        let (read, write) = UnixStream::pair().context("failed to make a pipe for signals")?;
        read.set_nonblocking(true)
            .context("failed to make a pipe for signals")?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let write = write.try_clone().context("failed to watch signals")?;
            signal_hook::low_level::pipe::register(signal, write).context("failed to watch signals")?;
        }
        Ok(Self(read))
    }

    /// Whether one came since the last call.
    fn take(&self) -> bool {
        (&self.0).read(&mut [0; 64]).is_ok_and(|read| read > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_read_as_it_is() {
        let found: Vec<_> = variables(b"A=1\0B=x=y\0C=\0\xff=\xfe\0odd\0=D=2\0").collect();
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        let expected: [(&[u8], &[u8]); 5] = [
            (b"A", b"1"),
            (b"B", b"x=y"),
            (b"C", b""),
            (b"\xff", b"\xfe"),
            (b"=D", b"2"),
        ];
        assert_eq!(found, expected.map(|(name, value)| (text(name), text(value))));
    }
}
