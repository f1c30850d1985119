//! `mgbd`'s side of the holder (see [`crate::holder`]): finds the one that runs, or starts one, and says
//! what is to be held.

use std::fs::{OpenOptions, Permissions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::backlog::Backlog;
use super::client::Client;
use super::left::{Left, LeftClient};
use super::listener::bind;
use super::service::OWN;
use crate::client::ClientId;
use crate::holder::packet::{receive, send};
use crate::holder::wire::{Again, FromHolder, ToHolder, VERSION};
use crate::holder::{beside, socket_of};

/// How long a holder may take to greet.
const GREETING: Duration = Duration::from_secs(10);
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
pub(super) struct Holder {
    /// The program of `mgbd`, which is the holder's as well.
    program: PathBuf,
    mps_control: PathBuf,
    /// Where `mgbd` listens.
    mgbd: PathBuf,
    wants_mps: bool,
    users: bool,
    again: Option<Again>,
    /// `None`: there is none.
    line: Option<OwnedFd>,
    /// What it was not told yet.
    backlog: Backlog,
    child: Option<Child>,
    /// When one was last looked for.
    tried: Instant,
}

/// MPS as the holder has it.
#[derive(Debug, Default)]
pub(super) struct MpsState {
    /// Its pipe folder, where it runs.
    pub(super) pipe: Option<PathBuf>,
    /// Why it does not.
    pub(super) note: Option<String>,
}

impl Holder {
    /// Finds or starts the holder of the `mgbd` that listens at `mgbd`, with MPS if that is wanted. `users`:
    /// it serves several; `again`: how the holder is to start that `mgbd` again. Returns what an earlier one
    /// left as well.
    pub(super) fn open(
        program: PathBuf,
        mps_control: PathBuf,
        mgbd: &Path,
        wants_mps: bool,
        users: bool,
        again: Option<Again>,
    ) -> (Holder, MpsState, Left) {
        let mut holder = Holder {
            program,
            mps_control,
            mgbd: mgbd.to_owned(),
            wants_mps,
            users,
            again,
            line: None,
            backlog: Backlog::default(),
            child: None,
            tried: Instant::now(),
        };
        match holder.connect(true) {
            Ok((mps, left)) => (holder, mps, left),
            Err(why) => {
                tracing::warn!(
                    why,
                    "going on without a holder: what programs have ends with this mgbd"
                );
                let mps = MpsState {
                    pipe: None,
                    note: wants_mps.then_some(why),
                };
                (holder, mps, Left::default())
            }
        }
    }

    /// Connects, and waits for MPS and what is left if told so.
    fn connect(&mut self, waits: bool) -> Result<(MpsState, Left), String> {
        self.tried = Instant::now();
        let line = self.dial()?;
        let adopt = ToHolder::Adopt {
            version: VERSION,
            pid: std::process::id(),
            mps: self.wants_mps,
            users: self.users,
            again: self.again.clone(),
        };
        let broken = |error: Errno| format!("the holder does not answer: {error}");
        send(&line, &adopt, &[]).map_err(broken)?;
        let (mut mps, mut left) = (MpsState::default(), Left::default());
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
                        left.clients.extend(LeftClient::new(id, pid, granted, files));
                    }
                    FromHolder::Files { id } => {
                        let is_last = |client: &&mut LeftClient| client.id == id;
                        if let Some(client) = left.clients.last_mut().filter(is_last) {
                            client.kept = files;
                        }
                    }
                    FromHolder::All => break,
                    FromHolder::Greeting { .. } | FromHolder::Report { .. } => {}
                }
            }
        }
        rustix::io::ioctl_fionbio(&line, true).map_err(broken)?;
        self.line = Some(line);
        Ok((mps, left))
    }

    /// A connection to a holder that has greeted.
    fn dial(&mut self) -> Result<OwnedFd, String> {
        let path = socket_of(&self.mgbd);
        let failed = |what: &str, error: Errno| format!("failed to {what} {}: {error}", path.display());
        for _ in 0..TRIES {
            let address = SocketAddrUnix::new(&path).map_err(|error| failed("name", error))?;
            let kind = SocketType::SEQPACKET;
            let line = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
                .map_err(|error| failed("make", error))?;
            match rustix::net::connect(&line, &address) {
                Ok(()) => {}
                // What a killed one left is replaced: only the mgbd that has the lock comes here.
                Err(Errno::NOENT | Errno::CONNREFUSED) => {
                    self.start(&path)
                        .map_err(|error| format!("failed to start a holder: {error}"))?;
                    continue;
                }
                Err(error) => return Err(failed("connect to", error)),
            }
            let _ = sockopt::set_socket_timeout(&line, sockopt::Timeout::Recv, Some(GREETING));
            match receive(&line).map(|packet| packet.message) {
                Ok(FromHolder::Greeting { version, .. }) if version == VERSION => return Ok(line),
                Ok(FromHolder::Greeting { version, pid }) => {
                    return Err(format!(
                        "the holder of another mgbd (pid {pid}, version {version} and not {VERSION}) still \
                         has programs; start mgbd again when they have ended"
                    ));
                }
                // It was about to end.
                Err(Errno::PIPE) => {}
                Ok(_) | Err(_) => return Err(format!("the holder at {} does not greet", path.display())),
            }
        }
        Err(format!("no holder stays at {}; see mgbd's log", path.display()))
    }

    /// Starts a holder, which listens from now on.
    fn start(&mut self, path: &Path) -> std::io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = bind(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(beside(&self.mgbd, ".log"))?;
        let mut command = Command::new(&self.program);
        command
            .arg("hold")
            .args([&self.mgbd, &self.mps_control])
            .current_dir("/")
            .stdin(Stdio::from(listener))
            .stdout(Stdio::null())
            .stderr(log);
        for name in OWN {
            command.env_remove(name);
        }
        // SAFETY: setsid is async-signal-safe, and the closure touches no memory of the parent's other
        // threads.
        unsafe {
            command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into));
        }
        let child = command.spawn()?;
        tracing::info!(pid = child.id(), "started a holder");
        self.child = Some(child);
        Ok(())
    }

    /// The connection, to be watched.
    pub(super) fn line(&self) -> Option<&OwnedFd> {
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
    pub(super) fn listener(&self, listener: &OwnedFd) {
        self.say(&ToHolder::Listener, &[listener.as_fd()]);
    }

    /// This is the journal from now on.
    pub(super) fn journal(&self, journal: impl AsFd) {
        self.say(&ToHolder::Journal, &[journal.as_fd()]);
    }

    /// There is no journal any more.
    pub(super) fn no_journal(&self) {
        self.say(&ToHolder::Journal, &[]);
    }

    /// This client came: it is held from now on.
    pub(super) fn client(&self, client: &Client) {
        let line = client.line.iter().flat_map(|line| [&line.socket, &line.doorbell]);
        let files: Vec<&OwnedFd> = [&client.pidfd, &client.memory].into_iter().chain(line).collect();
        self.comes(client.id, client.pid, &files);
    }

    /// A client of this number and process comes, with these files: see [`ToHolder::Client`].
    pub(super) fn comes(&self, id: ClientId, pid: u32, files: &[&OwnedFd]) {
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        self.say(&ToHolder::Client { id, pid }, &files);
    }

    /// This client was left by another `mgbd`, and is not gone on with.
    pub(super) fn forgo(&self, id: ClientId) {
        self.say(&ToHolder::Forgo { id }, &[]);
    }

    /// Something was granted to it.
    pub(super) fn granted(&self, id: ClientId) {
        self.say(&ToHolder::Granted { id }, &[]);
    }

    /// These are the driver's files of the client now.
    pub(super) fn keep(&self, id: ClientId, files: &[OwnedFd]) {
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        self.say(&ToHolder::Keep { id }, &files);
    }

    /// Nothing of the client is to be held any more.
    pub(super) fn release(&self, id: ClientId) {
        self.say(&ToHolder::Release { id }, &[]);
    }

    /// Hears what it says. False: it is gone.
    pub(super) fn hear(&mut self) -> bool {
        self.tell_more();
        while let Some(line) = &self.line {
            match receive(line).map(|packet| packet.message) {
                Err(Errno::AGAIN) => return true,
                Ok(FromHolder::Mps { note: Some(note), .. }) => {
                    tracing::warn!(note, "the new holder has no MPS");
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
        false
    }

    /// When to start another one, if there is none.
    pub(super) fn due(&self) -> Option<Duration> {
        self.line
            .is_none()
            .then(|| AGAIN.saturating_sub(self.tried.elapsed()))
    }

    /// When to tell it more, if it did not read.
    pub(super) fn tells_in(&self) -> Option<Duration> {
        (!self.backlog.is_empty()).then_some(TELL_INTERVAL)
    }

    /// Tells it what it was not told yet, as far as it reads.
    pub(super) fn tell_more(&self) {
        if let Some(line) = &self.line {
            self.backlog.flush(line);
        }
    }

    /// Starts another one. True: there is one, to be told what it is to hold.
    pub(super) fn start_again(&mut self) -> bool {
        let started = self.connect(false);
        if let Err(why) = &started {
            tracing::warn!(why, "there is no holder: what programs have ends with this mgbd");
        }
        started.is_ok()
    }

    /// `mgbd` ends: waits for MPS to end, unless somebody is left to use it.
    pub(super) fn end(self) {
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
