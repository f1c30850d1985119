//! The holder's loop: one thread that waits for `mgbd`, for others who ask, and for the ends of processes.

use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mgb_interface::folders::Private;
use mgb_interface::holder::packet::{Packet, receive, send, send_patiently};
use mgb_interface::holder::wire::{FromHolder, TAKING, ToHolder, VERSION};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::again::{Again, Starter};
use super::candidate::{Candidate, DEATH_TIMEOUT, has_hung_up};
use super::guests::Guests;
use super::held_processes::HeldProcesses;
use super::left::Handover;
use super::mps::Mps;
use super::watched::{Watched, What};
use super::watched_mps::WatchedMps;
use crate::note::clear_away;

/// How long to wait for the next `mgbd` when one has ended without a word.
const GRACE: Duration = Duration::from_secs(5);
/// How long clients that wait are left waiting for the next `mgbd`.
const RETURN: Duration = Duration::from_secs(30);
/// How often to look whether MPS has clients while it is all that is left.
const LOOK: Duration = Duration::from_millis(500);

/// Why a holder cannot run.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// A system call failed.
    #[error("failed to {0}: {1}")]
    System(&'static str, Errno),
    /// Its private folder, or a file in it, cannot be used.
    #[error("failed to {0} in the private folder of {1}: {2}")]
    Folder(&'static str, PathBuf, std::io::Error),
}

/// Runs the holder of the `mgbd` at `mgbd`, which is at the other end of `line`, with this control program of
/// MPS. `again`: how it is started again. Returns when nothing is left to hold.
///
/// # Errors
/// When its lock cannot be had, it cannot listen, or the kernel fails to wait.
pub fn run(line: OwnedFd, mgbd: &Path, control: PathBuf, again: Option<Again>) -> Result<(), HoldError> {
    let failed = |what| move |error| HoldError::Folder(what, mgbd.to_owned(), error);
    crate::channel_memory::guard()
        .map_err(|error| HoldError::System("prepare for missing memory of channels", error))?;
    let private = Private::open(mgbd).map_err(failed("look"))?;
    // One that ends may still be stopping MPS: until it is gone nothing is started.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let lock = options
        .open(private.path(super::LOCK))
        .map_err(failed("make a lock"))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed("lock")(error.into()))?;
    let mut guests = Guests::listen(&private).map_err(failed("listen"))?;
    rustix::io::ioctl_fionbio(&line, true)
        .map_err(|error| HoldError::System("set up the line to mgbd", error))?;
    guests.welcome(line);
    let mut holder = HolderServer {
        mgbd_socket: mgbd.to_owned(),
        guests,
        mgbd: None,
        candidate: None,
        lifeline: None,
        mgbd_pid: 0,
        mgbds: 0,
        held: HeldProcesses::default(),
        left: Handover::default(),
        starter: Starter::new(again),
        is_wanted: false,
        mps: WatchedMps::new(Mps::of(mgbd, control)),
        alone_since: Some(Instant::now()),
        is_told_to_end: false,
        look: Instant::now(),
    };
    while !holder.is_over() {
        holder.wait()?;
        holder.settle();
    }
    holder.end();
    Ok(())
}

struct HolderServer {
    /// Where `mgbd` listens.
    mgbd_socket: PathBuf,
    guests: Guests,
    mgbd: Option<OwnedFd>,
    /// Waits for that one to be gone.
    candidate: Option<Candidate>,
    /// Hangs up when it is gone, also where threads that wait for a file system keep its line open; `None`:
    /// it gave none.
    lifeline: Option<OwnedFd>,
    /// Its process, as it says.
    mgbd_pid: u32,
    /// How many there have been.
    mgbds: u64,
    held: HeldProcesses,
    left: Handover,
    starter: Starter,
    /// Somebody connected while there was no `mgbd`.
    is_wanted: bool,
    mps: WatchedMps,
    /// Since when there is no `mgbd`.
    alone_since: Option<Instant>,
    /// The last `mgbd` said that it ends.
    is_told_to_end: bool,
    /// When to look at MPS next.
    look: Instant,
}

impl HolderServer {
    fn wait(&mut self) -> Result<(), HoldError> {
        let timeout = self.timeout();
        let ready = self.watched().wait(timeout);
        let ready = ready.map_err(|error| HoldError::System("wait for events", error))?;
        // In reverse: what one mgbd said comes before the next one, and guests leave their list from the
        // end.
        for what in ready.into_iter().rev() {
            match what {
                What::Process(at) => self.held.ended(at),
                What::Guest(at) => self.guest(at),
                What::Mgbd => self.hear(),
                What::Lifeline => self.bury(),
                What::Listener => self.guests.accept(),
                What::Mps => self.mps.has_ended(),
                What::Wanted => {
                    self.is_wanted = true;
                    self.starter.is_wanted(Instant::now());
                }
            }
        }
        Ok(())
    }

    /// All that something may happen on.
    fn watched(&self) -> Watched<'_> {
        let mut watched = Watched::default();
        watched.add(What::Listener, self.guests.listener.as_fd());
        for (at, guest) in self.guests.lines.iter().enumerate() {
            watched.add(What::Guest(at), guest.as_fd());
        }
        if let Some(mgbd) = &self.mgbd {
            watched.add(What::Mgbd, mgbd.as_fd());
            if let Some(lifeline) = &self.lifeline {
                watched.add_for_its_end(What::Lifeline, lifeline.as_fd());
            }
        }
        if let Some(listener) = self.left.listener.as_ref().filter(|_| self.is_to_watch()) {
            watched.add(What::Wanted, listener.as_fd());
        }
        if let Some(control) = self.mps.watched() {
            watched.add(What::Mps, control.as_fd());
        }
        for (at, process) in self.held.processes() {
            watched.add(What::Process(at), process);
        }
        watched
    }

    /// Whether to start an `mgbd` if somebody connects.
    fn is_to_watch(&self) -> bool {
        self.mgbd.is_none() && self.starter.rests()
    }

    /// How long to wait at most; `None`: until something happens.
    fn timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        let alone = self.alone_since.filter(|_| self.held.is_empty()).map(|since| {
            let grace = if self.is_told_to_end {
                Duration::ZERO
            } else {
                GRACE
            };
            (since + grace).max(self.look)
        });
        let due = self.held.due();
        let waits = self.alone_since.filter(|_| self.held.has_waiting());
        let due = due
            .chain(waits.map(|since| since + RETURN))
            .chain(self.starter.due(now))
            .chain(self.candidate.as_ref().map(|mgbd| mgbd.until))
            .chain(self.mps.due());
        let next = due.chain(alone).min()?;
        Some(next.saturating_duration_since(now) + Duration::from_millis(1))
    }

    /// Somebody who has only connected says something.
    fn guest(&mut self, at: usize) {
        let guests = &mut self.guests.lines;
        let (said, mut files) = match receive(&guests[at]) {
            Ok(Packet { message, files }) => (Ok(message), files),
            Err(error) => (Err(error), Vec::new()),
        };
        match said {
            Err(Errno::AGAIN) => {}
            Ok(ToHolder::Who) => {
                let _ = send(&self.guests.lines[at], &self.report(), &[]);
            }
            Ok(ToHolder::Adopt {
                version,
                pid,
                mps,
                users,
                restarts,
            }) if version == VERSION => {
                let line = guests.swap_remove(at);
                self.comes(Candidate {
                    line,
                    pid,
                    wants_mps: mps.then_some(users),
                    restarts,
                    lifeline: files.pop(),
                    until: Instant::now() + DEATH_TIMEOUT,
                });
            }
            Ok(_) | Err(_) => drop(guests.swap_remove(at)),
        }
    }

    /// An `mgbd` wants to go on with what is held. Where the last one is not seen to be gone it waits for that,
    /// and nobody else does.
    fn comes(&mut self, mgbd: Candidate) {
        // The last words of the one before.
        self.hear();
        if self.mgbd.is_some() && has_hung_up(self.lifeline.as_ref()) {
            self.bury();
        }
        if self.lives() && self.lifeline.is_some() && self.candidate.is_none() {
            self.candidate = Some(mgbd);
        } else {
            self.adopt(mgbd);
        }
    }

    /// Decides on who waits for the last `mgbd` to be gone.
    fn decide(&mut self, now: Instant) {
        let lives = self.lives();
        if let Some(mgbd) = self.candidate.take_if(|mgbd| !lives || now >= mgbd.until) {
            self.adopt(mgbd);
        }
    }

    /// Whether there is an `mgbd` that goes on.
    fn lives(&self) -> bool {
        self.mgbd.is_some() && !self.is_told_to_end
    }

    /// An `mgbd` goes on with what is held, unless there is one: there is one at a time. The lock beside its
    /// socket says so, unless somebody has removed that.
    fn adopt(&mut self, candidate: Candidate) {
        let Candidate {
            line: mgbd,
            pid,
            wants_mps,
            restarts,
            lifeline,
            ..
        } = candidate;
        if self.lives() {
            tracing::warn!(
                pid,
                lives = self.mgbd_pid,
                "turned away an mgbd: another one is there"
            );
            let _ = send(&mgbd, &FromHolder::Busy { pid: self.mgbd_pid }, &[]);
            return;
        }
        self.starter.has_come(restarts);
        self.is_wanted = false;
        tracing::info!(pid, held = self.held.len(), "an mgbd connected");
        let mps = self.mps.start(wants_mps);
        let _ = send(&mgbd, &mps, &[]);
        self.mgbds += 1;
        if let Err(error) = self.hand_over(&mgbd) {
            tracing::error!(%error, "the new mgbd could not be given what the last one left");
        }
        self.mgbd = Some(mgbd);
        self.lifeline = lifeline;
        self.mgbd_pid = pid;
        self.alone_since = None;
        self.is_told_to_end = false;
    }

    /// Gives an `mgbd` what the one before has left, which is its own from now on.
    fn hand_over(&mut self, mgbd: &OwnedFd) -> Result<(), Errno> {
        let until = Instant::now() + TAKING;
        self.left.hand_over(mgbd, until)?;
        self.held.hand_over(mgbd, self.mgbds, until)?;
        send_patiently(mgbd, &FromHolder::All, &[], until)
    }

    /// Nobody comes after the last `mgbd`.
    fn hang_up(&mut self) {
        self.left = Handover::default();
        self.held.hang_up();
    }

    /// `mgbd` says something, or is gone.
    fn hear(&mut self) {
        while let Some(mgbd) = &self.mgbd {
            let Packet { message, mut files } = match receive(mgbd) {
                Ok(packet) => packet,
                Err(Errno::AGAIN) => return,
                Err(error) => {
                    if error != Errno::PIPE {
                        tracing::warn!(%error, "mgbd said something that is not understood");
                    }
                    return self.is_gone();
                }
            };
            let mgbd = self.mgbds;
            match message {
                ToHolder::Listener => self.left.listener = files.pop(),
                ToHolder::Journal => self.left.journal = files.pop(),
                ToHolder::Client { id, pid } => self.held.add(mgbd, id, pid, files),
                ToHolder::Granted { id } => self.held.granted(mgbd, id),
                ToHolder::Keep { id } => self.held.keep(mgbd, id, files),
                ToHolder::Forgo { id } => self.held.forgo(mgbd, id),
                ToHolder::Release { id } => self.held.release(mgbd, id),
                ToHolder::End => {
                    self.is_told_to_end = true;
                    self.hang_up();
                    self.held.retain_granted();
                }
                ToHolder::Who | ToHolder::Adopt { .. } => {}
            }
        }
    }

    /// `mgbd` is gone, whatever is still open of it: hears its last words.
    fn bury(&mut self) {
        self.hear();
        if self.mgbd.is_some() {
            self.is_gone();
        }
    }

    fn is_gone(&mut self) {
        tracing::info!(held = self.held.len(), "mgbd is gone");
        (self.mgbd, self.lifeline) = (None, None);
        let now = Instant::now();
        self.alone_since = Some(now);
        if !self.is_told_to_end {
            self.starter.has_gone(now);
        }
    }

    fn report(&self) -> FromHolder {
        FromHolder::Report {
            pids: self.held.pids(),
            mps: self.mps.is_running(),
        }
    }

    /// What follows from what happened: lets go of what nobody needs.
    fn settle(&mut self) {
        let now = Instant::now();
        self.decide(now);
        let is_needed = self.held.has_waiting() || self.is_wanted;
        let is_late = self.alone_since.is_some_and(|since| now >= since + RETURN);
        match self.starter.look(is_needed, now) {
            Ok(Some(line)) => self.guests.welcome(line),
            Ok(None) if !(is_needed && is_late) => {}
            _ => self.hang_up(),
        }
        let mgbd = self.mgbd.as_ref().filter(|_| !self.is_told_to_end);
        if let Some(mps) = self.mps.look(mgbd.is_some(), now)
            && let Some(mgbd) = mgbd
        {
            let _ = send(mgbd, &mps, &[]);
        }
        // The mgbd that named a process says itself when it is to be let go, unless it ends.
        let mgbd = (self.mgbd.is_some() && !self.is_told_to_end).then_some(self.mgbds);
        self.held.retain_needed(mgbd, now);
        if self.is_told_to_end
            && !self.held.is_empty()
            && let Some(mgbd) = self.mgbd.take()
        {
            let _ = send(&mgbd, &self.report(), &[]);
            self.alone_since = Some(now);
        }
        if self.is_told_to_end && self.mgbd.is_some() && self.alone_since.is_none() {
            self.alone_since = Some(now);
        }
    }

    /// Whether nothing is left to hold, and nobody uses MPS.
    fn is_over(&mut self) -> bool {
        let now = Instant::now();
        let grace = if self.is_told_to_end {
            Duration::ZERO
        } else {
            GRACE
        };
        let is_alone = self.alone_since.is_some_and(|since| now >= since + grace);
        if !is_alone || !self.held.is_empty() || now < self.look {
            return false;
        }
        self.look = now + LOOK;
        if self.mps.has_clients() {
            // mgbd does not wait for them.
            if let Some(mgbd) = self.mgbd.take() {
                let _ = send(&mgbd, &self.report(), &[]);
            }
            return false;
        }
        true
    }

    fn end(&mut self) {
        // First, so that the next mgbd starts a holder of its own, which waits for the lock.
        self.guests.close();
        clear_away(&self.mgbd_socket);
        if self.mps.is_running() {
            let ended = self.mps.stop();
            tracing::info!(ended, "nobody is left: MPS ends");
        }
        drop(self.mgbd.take());
    }
}
