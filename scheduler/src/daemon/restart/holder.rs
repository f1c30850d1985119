//! `mgbd`'s side of the holder (see [`crate::holder`]): finds the one that runs, or starts one, and says
//! what is to be held.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mgb_interface::SYSTEMD_VARIABLES;
use mgb_interface::folders::{Private, beside};
use mgb_interface::holder::find;
use mgb_interface::holder::packet::{pair, receive, send};
use mgb_interface::holder::wire::{FromHolder, ToHolder, VERSION};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::client::ClientId;
use crate::daemon::client::Client;
use crate::daemon::client::inherited::InheritedClient;
use crate::daemon::restart::backlog::Backlog;
use crate::daemon::restart::predecessor::Predecessor;
use crate::daemon::threads::apart::OwnThread;
use crate::daemon::threads::spawner::Spawner;
use crate::holder::Again;

/// How long a holder may take to greet.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to start MPS, and before that its predecessor to stop one.
const STARTING: Duration = Duration::from_secs(40);
/// How long to wait for MPS to end.
const ENDING: Duration = Duration::from_secs(15);
/// How often one that did not read is tried again.
const TELL_INTERVAL: Duration = Duration::from_millis(20);
/// How often to start a new one at most.
const AGAIN: Duration = Duration::from_secs(1);
/// How often to try again where one ends just as it is found.
const TRIES: usize = 3;

/// The holder of this `mgbd`.
pub(crate) struct HolderProcess {
    /// The program of `mgbd`, which is the holder's as well.
    program: PathBuf,
    mps_control: PathBuf,
    /// Where `mgbd` listens.
    mgbd: PathBuf,
    wants_mps: bool,
    users: bool,
    again: Option<Again>,
    /// The line to the holder that has started this `mgbd`.
    inherited: Option<OwnedFd>,
    /// `None`: there is none.
    line: Option<OwnedFd>,
    /// What it was not told yet.
    backlog: Backlog,
    child: Option<Child>,
    spawner: Spawner,
    lifeline: Lifeline,
    /// When one was last looked for.
    tried: Instant,
}

/// By what a holder sees that this `mgbd` is gone: the line alone stays open as long as a thread waits for a
/// file system.
struct Lifeline {
    /// The end that the holder gets, which hangs up then.
    shown: OwnedFd,
    _own: OwnThread,
}

impl Lifeline {
    fn new() -> std::io::Result<Lifeline> {
        let (shown, own) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        Ok(Lifeline {
            shown,
            _own: OwnThread::new("lifeline", vec![own])?,
        })
    }
}

/// An `mgbd`, as its holder is to know it.
pub(crate) struct Mgbd {
    /// Its program, which is the holder's as well.
    pub(crate) program: PathBuf,
    pub(crate) mps_control: PathBuf,
    /// The socket at which this `mgbd` listens.
    pub(crate) socket: PathBuf,
    pub(crate) wants_mps: bool,
    /// It serves several users.
    pub(crate) users: bool,
    /// How a holder that it starts is to start it again.
    pub(crate) again: Option<Again>,
    /// The line to the holder that has started it.
    pub(crate) inherited: Option<OwnedFd>,
}

/// MPS as the holder has it.
#[derive(Debug, Default)]
pub(crate) struct MpsState {
    /// Its pipe folder, where it runs.
    pub(crate) pipe: Option<PathBuf>,
    /// Why it does not.
    pub(crate) note: Option<String>,
}

/// Why there is no holder.
#[derive(Debug)]
pub(crate) enum NoHolder {
    /// Another `mgbd` has it, and lives; its process, as the holder has it.
    Busy(u32),
    /// It cannot be had: `mgbd` goes on without.
    Failed(String),
}

impl HolderProcess {
    /// Finds or starts the holder of the `mgbd` that `is` says, with MPS if that is wanted. Returns what an
    /// earlier one left as well.
    ///
    /// # Errors
    /// When another `mgbd` has the holder and lives, or there are no threads for it.
    pub(crate) fn open(is: Mgbd) -> Result<(HolderProcess, MpsState, Predecessor), NoHolder> {
        let failed = |error: std::io::Error| NoHolder::Failed(error.to_string());
        let wants_mps = is.wants_mps;
        let mut holder = HolderProcess {
            program: is.program,
            mps_control: is.mps_control,
            mgbd: is.socket,
            wants_mps,
            users: is.users,
            again: is.again,
            inherited: is.inherited,
            line: None,
            backlog: Backlog::default(),
            child: None,
            spawner: Spawner::new().map_err(failed)?,
            lifeline: Lifeline::new().map_err(failed)?,
            tried: Instant::now(),
        };
        match holder.connect(true) {
            Ok((mps, left)) => Ok((holder, mps, left)),
            Err(NoHolder::Busy(pid)) => Err(NoHolder::Busy(pid)),
            Err(NoHolder::Failed(why)) => {
                tracing::warn!(
                    why,
                    "going on without a holder: what programs have ends with this mgbd"
                );
                let mps = MpsState {
                    pipe: None,
                    note: wants_mps.then_some(why),
                };
                Ok((holder, mps, Predecessor::default()))
            }
        }
    }

    /// Connects, and waits for MPS and what is left if told so.
    fn connect(&mut self, waits: bool) -> Result<(MpsState, Predecessor), NoHolder> {
        self.tried = Instant::now();
        let line = self.dial(waits).map_err(NoHolder::Failed)?;
        let adopt = ToHolder::Adopt {
            version: VERSION,
            pid: std::process::id(),
            mps: self.wants_mps,
            users: self.users,
            restarts: self.again.is_some(),
        };
        let broken = |error: Errno| NoHolder::Failed(format!("the holder does not answer: {error}"));
        send(&line, &adopt, &[self.lifeline.shown.as_fd()]).map_err(broken)?;
        let (mut mps, mut left) = (MpsState::default(), Predecessor::default());
        if waits {
            let _ = sockopt::set_socket_timeout(&line, sockopt::Timeout::Recv, Some(STARTING));
            loop {
                let packet = receive(&line).map_err(broken)?;
                let mut files = packet.files;
                match packet.message {
                    FromHolder::Mps { pipe, note } => mps = MpsState { pipe, note },
                    FromHolder::Listener => left.listener = files.pop(),
                    FromHolder::Journal => left.journal = files.pop(),
                    FromHolder::Client { id, pid, granted } => {
                        left.clients.extend(InheritedClient::new(id, pid, granted, files));
                    }
                    FromHolder::Files { id } => {
                        let is_last = |client: &&mut InheritedClient| client.id == id;
                        if let Some(client) = left.clients.last_mut().filter(is_last) {
                            client.kept = files;
                        }
                    }
                    FromHolder::All => break,
                    FromHolder::Busy { pid } => return Err(NoHolder::Busy(pid)),
                    FromHolder::Greeting { .. } | FromHolder::Report { .. } | FromHolder::Refused { .. } => {}
                }
            }
        }
        rustix::io::ioctl_fionbio(&line, true).map_err(broken)?;
        self.line = Some(line);
        Ok((mps, left))
    }

    /// A line to a holder that has greeted: to the one that has started this `mgbd`, or one that is found, or
    /// a new one. `waits`: for one that ends and may be stopping MPS, after which the new one greets.
    fn dial(&mut self, waits: bool) -> Result<OwnedFd, String> {
        if let Some(line) = self.inherited.take()
            && matches!(greeted(&line, HELLO_TIMEOUT), Ok(true))
        {
            return Ok(line);
        }
        for _ in 0..TRIES {
            let found = find(&self.mgbd).map_err(|error| format!("failed to go to the holder: {error}"))?;
            let patience = if waits && found.is_none() {
                STARTING
            } else {
                HELLO_TIMEOUT
            };
            let line = match found {
                Some(line) => line,
                None => self
                    .start()
                    .map_err(|error| format!("failed to start a holder: {error}"))?,
            };
            if greeted(&line, patience)? {
                return Ok(line);
            }
        }
        Err(format!("no holder stays; see {}", self.log().display()))
    }

    fn log(&self) -> PathBuf {
        beside(&self.mgbd, ".log")
    }

    /// Starts a holder; the line to it, which it inherits. How this `mgbd` is started again it is told now or
    /// never.
    fn start(&mut self) -> std::io::Result<OwnedFd> {
        Private::open(&self.mgbd)?;
        let (own, its) = pair()?;
        let (program, log) = (self.program.clone(), self.log());
        let words = [self.mgbd.clone(), self.mps_control.clone()];
        let again = self.again.clone();
        let child = self.spawner.spawn(its, move |its| {
            let log = OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(log)?;
            let mut command = Command::new(program);
            command
                .arg("hold")
                .args(words)
                .args(again.into_iter().flat_map(Again::words))
                .current_dir("/")
                .stdin(Stdio::from(its))
                .stdout(Stdio::null())
                .stderr(log);
            for name in SYSTEMD_VARIABLES {
                command.env_remove(name);
            }
            // SAFETY: setsid is async-signal-safe, and the closure touches no memory of the parent's other
            // threads.
            unsafe {
                command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into));
            }
            Ok(command)
        })?;
        tracing::info!(pid = child.id(), "started a holder");
        self.child = Some(child);
        Ok(own)
    }

    /// The connection, to be watched.
    pub(crate) fn line(&self) -> Option<&OwnedFd> {
        self.line.as_ref()
    }

    fn say(&self, message: &ToHolder, files: &[std::os::fd::BorrowedFd<'_>]) {
        if let Some(line) = &self.line
            && let Err(error) = self.backlog.send(line, message, files)
            && error != Errno::PIPE
        {
            tracing::warn!(?message, %error, "the holder was not told: it may end too early or too late");
        }
    }

    /// Clients find `mgbd` here.
    pub(crate) fn listener(&self, listener: &OwnedFd) {
        self.say(&ToHolder::Listener, &[listener.as_fd()]);
    }

    /// This is the journal from now on.
    pub(crate) fn journal(&self, journal: impl AsFd) {
        self.say(&ToHolder::Journal, &[journal.as_fd()]);
    }

    /// There is no journal any more.
    pub(crate) fn no_journal(&self) {
        self.say(&ToHolder::Journal, &[]);
    }

    /// This client came: it is held from now on.
    pub(crate) fn client(&self, client: &Client) {
        let line = client.line.iter().flat_map(|line| [&line.socket, &line.doorbell]);
        let files: Vec<&OwnedFd> = [&client.pidfd, &client.memory].into_iter().chain(line).collect();
        self.comes(client.id, client.pid, &files);
    }

    /// A client of this number and process comes, with these files: see [`ToHolder::Client`].
    pub(crate) fn comes(&self, id: ClientId, pid: u32, files: &[&OwnedFd]) {
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        self.say(&ToHolder::Client { id, pid }, &files);
    }

    /// This client was left by another `mgbd`, and is not gone on with.
    pub(crate) fn forgo(&self, id: ClientId) {
        self.say(&ToHolder::Forgo { id }, &[]);
    }

    /// Something was granted to it.
    pub(crate) fn granted(&self, id: ClientId) {
        self.say(&ToHolder::Granted { id }, &[]);
    }

    /// These are the driver's files of the client now.
    pub(crate) fn keep(&self, id: ClientId, files: &[OwnedFd]) {
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        self.say(&ToHolder::Keep { id }, &files);
    }

    /// Nothing of the client is to be held any more.
    pub(crate) fn release(&self, id: ClientId) {
        self.say(&ToHolder::Release { id }, &[]);
    }

    /// Hears what it says: MPS as it is from now on, if that has changed.
    pub(crate) fn hear(&mut self) -> Option<MpsState> {
        self.tell_more();
        let mut mps = None;
        while let Some(line) = &self.line {
            match receive(line).map(|packet| packet.message) {
                Err(Errno::AGAIN) => return mps,
                Ok(FromHolder::Mps { pipe, note }) => {
                    mps = self.wants_mps.then_some(MpsState { pipe, note });
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "the holder is gone: programs and MPS go on, another starts");
                    self.line = None;
                    self.backlog.clear();
                    if let Some(mut child) = self.child.take() {
                        // It closed its socket as it ended.
                        let _ = child.wait();
                    }
                }
            }
        }
        mps
    }

    /// When to start another one, if there is none.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.line
            .is_none()
            .then(|| AGAIN.saturating_sub(self.tried.elapsed()))
    }

    /// When to tell it more, if it did not read.
    pub(crate) fn tells_in(&self) -> Option<Duration> {
        (!self.backlog.is_empty()).then_some(TELL_INTERVAL)
    }

    /// Tells it what it was not told yet, as far as it reads.
    pub(crate) fn tell_more(&self) {
        if let Some(line) = &self.line {
            self.backlog.flush(line);
        }
    }

    /// Starts another one. True: there is one, to be told what it is to hold.
    pub(crate) fn start_again(&mut self) -> bool {
        let started = self.connect(false);
        if let Err(why) = &started {
            tracing::warn!(?why, "there is no holder: what programs have ends with this mgbd");
        }
        started.is_ok()
    }

    /// `mgbd` ends: waits for MPS to end, unless somebody is left to use it.
    pub(crate) fn end(self) {
        let Some(line) = &self.line else { return };
        self.tell_more();
        let _ = rustix::io::ioctl_fionbio(line, false);
        let _ = sockopt::set_socket_timeout(line, sockopt::Timeout::Recv, Some(ENDING));
        if send(line, &ToHolder::End, &[]).is_err() {
            return;
        }
        while let Ok(packet) = receive(line) {
            if let FromHolder::Report { pids, mps } = packet.message {
                tracing::info!(
                    ?pids,
                    mps,
                    "these programs run on; MPS ends with the last of them"
                );
                return;
            }
        }
        if let Some(mut child) = self.child {
            let _ = child.try_wait();
        }
    }
}

/// Whether the holder at the other end greets; false: it was about to end.
///
/// # Errors
/// When it is not one that this `mgbd` can go on with.
fn greeted(line: &OwnedFd, patience: Duration) -> Result<bool, String> {
    let _ = sockopt::set_socket_timeout(line, sockopt::Timeout::Recv, Some(patience));
    match receive(line).map(|packet| packet.message) {
        Ok(FromHolder::Greeting { version, .. }) if version == VERSION => Ok(true),
        Ok(FromHolder::Greeting { version, pid }) => Err(format!(
            "the holder of another mgbd (pid {pid}, version {version} and not {VERSION}) still has \
             programs; start mgbd again when they have ended"
        )),
        Ok(FromHolder::Refused { why }) => {
            Err(format!("the holder takes this mgbd for no mgbd of its: {why}"))
        }
        Err(Errno::PIPE) => Ok(false),
        Ok(_) | Err(_) => Err("the holder does not greet".to_owned()),
    }
}
