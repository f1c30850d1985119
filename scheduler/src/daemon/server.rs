//! The loop: what happened, and what follows from it.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use mgb_probe::{Hello, wire};
use rustix::event::{Timespec, epoll};
use rustix::net::{RecvFlags, SocketFlags};

use super::client::Client;
use super::greet::{self, Guest, Offence};
use super::listener::{Listener, Note};
use super::mps::Mps;
use super::reclaim::Reclaims;
use super::show::{self, Board};
use super::sight::Eyes;
use super::{Config, DaemonError};
use crate::Broker;
use crate::broker::{Answer, Rules};
use crate::ledger::ClientId;
use crate::node::Node;

/// How long a connection may stay silent before it has to have said hello.
const GREETING: Duration = Duration::from_secs(5);
/// Connections that have not said hello yet, at once.
const MOST_GUESTS: usize = 128;
/// Clients at once, if descriptors allow.
const MOST_CLIENTS: usize = 4096;
/// How often to look again while somebody waits: foreign memory may come free.
const WAITING: Duration = Duration::from_millis(50);
/// How often the node view is written while there are clients.
const SHOWING: Duration = Duration::from_millis(200);

/// What an event is about. Travels through epoll as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Listener,
    Stop,
    Guest(u64),
    Socket(ClientId),
    Doorbell(ClientId),
    Process(ClientId),
}

impl Source {
    fn data(self) -> epoll::EventData {
        let (kind, id) = match self {
            Source::Listener => (0, 0),
            Source::Stop => (1, 0),
            Source::Guest(id) => (2, id),
            Source::Socket(id) => (3, id),
            Source::Doorbell(id) => (4, id),
            Source::Process(id) => (5, id),
        };
        epoll::EventData::new_u64(kind << 56 | id)
    }

    fn from_data(data: epoll::EventData) -> Option<Source> {
        let word = data.u64();
        let id = word & ((1 << 56) - 1);
        Some(match word >> 56 {
            0 => Source::Listener,
            1 => Source::Stop,
            2 => Source::Guest(id),
            3 => Source::Socket(id),
            4 => Source::Doorbell(id),
            5 => Source::Process(id),
            _ => return None,
        })
    }
}

/// A running `mgbd`.
pub struct Server {
    // Dropped in this order: first what others could still connect to.
    listener: Listener,
    mps: Option<Mps>,
    board: Board,
    config: Config,
    node: Box<dyn Node>,
    /// Watched by the epoll as long as it is open.
    _stop: OwnedFd,
    epoll: OwnedFd,
    hello: Hello,
    broker: Broker,
    eyes: Eyes,
    reclaims: Reclaims,
    clients: BTreeMap<ClientId, Client>,
    guests: BTreeMap<u64, (OwnedFd, Duration)>,
    most_clients: usize,
    next_id: u64,
    offenders: u64,
    start: Instant,
    /// Since when there is no client.
    idle: Option<Duration>,
    shown: Duration,
    changed: bool,
}

impl Server {
    /// Sets up everything but the loop.
    pub fn new(
        config: Config,
        node: Box<dyn Node>,
        mut listener: Listener,
        stop: OwnedFd,
    ) -> Result<Server, DaemonError> {
        let system = |what| move |error| DaemonError::System(what, error);
        if let Some(view) = listener.left.take().and_then(|left| left.view) {
            show::remove_stale(&view);
        }
        let board = Board::new()?;
        let (mps, mps_note) = start_mps(&config, node.as_ref(), &listener);
        let note = Note {
            pid: std::process::id(),
            view: Some(board.name().to_owned()),
            mps_pipe: mps.as_ref().map(|mps| mps.pipe().to_owned()),
        };
        if let Err(error) = listener.note(&note) {
            tracing::warn!(%error, "failed to write the lock file");
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an epoll"))?;
        epoll::add(
            &epoll,
            &listener.socket,
            Source::Listener.data(),
            epoll::EventFlags::IN,
        )
        .map_err(system("watch the socket"))?;
        epoll::add(&epoll, &stop, Source::Stop.data(), epoll::EventFlags::IN)
            .map_err(system("watch for signals"))?;
        let hello = Hello {
            version: wire::VERSION,
            policy: config.policy.to_string(),
            mps_pipe: mps.as_ref().map(|mps| mps.pipe().display().to_string()),
            mps_note,
            gpus: node.gpus().to_vec(),
            mgbd_pid: std::process::id(),
            view: Some(board.name().to_owned()),
        };
        let rules = Rules {
            patience: config.patience,
            ..Rules::new(config.policy)
        };
        Ok(Server {
            broker: Broker::new(hello.gpus.clone(), rules),
            eyes: Eyes::new(hello.gpus.len()),
            most_clients: raise_descriptor_limit(),
            listener,
            mps,
            board,
            config,
            node,
            _stop: stop,
            epoll,
            hello,
            reclaims: Reclaims::default(),
            clients: BTreeMap::new(),
            guests: BTreeMap::new(),
            next_id: 1,
            offenders: 0,
            start: Instant::now(),
            idle: Some(Duration::ZERO),
            shown: Duration::ZERO,
            changed: true,
        })
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Runs until told to stop, or idle for long enough.
    pub fn run(mut self) -> Result<(), DaemonError> {
        for gpu in &self.hello.gpus {
            tracing::info!(
                gpu = gpu.index,
                uuid = gpu.uuid,
                name = gpu.name,
                usable_mib = gpu.usable_bytes >> 20,
                context_kib = gpu.context_bytes >> 10,
                warps = gpu.max_warps,
                "sharing"
            );
        }
        let (policy, mps) = (&self.hello.policy, self.mps.is_some());
        tracing::info!(socket = %self.config.socket.display(), policy, mps, "mgbd is ready");
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        loop {
            self.settle();
            if self.is_idle_for_long() {
                tracing::info!("nobody needed mgbd for a while: it ends");
                return Ok(());
            }
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                self.timeout().as_ref(),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(DaemonError::System("wait for events", error)),
            }
            let seen = self.now();
            let sources: Vec<Source> = events
                .iter()
                .filter_map(|event| Source::from_data(event.data))
                .collect();
            if sources.contains(&Source::Stop) {
                tracing::info!(clients = self.clients.len(), "told to stop");
                return Ok(());
            }
            // Deaths first: what the dead asked for is void.
            for source in &sources {
                if let Source::Process(id) = source {
                    self.died(*id, seen);
                }
            }
            for source in sources {
                match source {
                    Source::Listener => self.accept(),
                    Source::Guest(id) => self.greet(id),
                    Source::Socket(id) => self.socket(id),
                    Source::Doorbell(id) => self.doorbell(id),
                    Source::Process(_) | Source::Stop => {}
                }
            }
        }
    }

    /// What follows from the events: rooms freed, requests answered, the view.
    fn settle(&mut self) {
        let now = self.now();
        let late: Vec<u64> = self
            .guests
            .iter()
            .filter(|(_, (_, since))| now.saturating_sub(*since) > GREETING)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.turn_away(id, &Offence::Silent);
        }
        let reclaiming = self.reclaims.interval(now).is_some();
        let show = self.changed || now.saturating_sub(self.shown) >= SHOWING && !self.clients.is_empty();
        if reclaiming || self.broker.waiting() {
            let mut sight = self
                .eyes
                .look(self.node.as_ref(), self.broker.ledger(), &self.clients);
            if self.reclaims.check(&self.eyes.gpus, &mut self.broker, now) {
                self.changed = true;
                sight = self
                    .eyes
                    .look(self.node.as_ref(), self.broker.ledger(), &self.clients);
            }
            let answers = self.broker.serve(&sight, now);
            self.changed |= !answers.is_empty();
            self.deliver(answers);
        } else if show {
            self.eyes
                .look(self.node.as_ref(), self.broker.ledger(), &self.clients);
        }
        if show {
            self.show(now);
        }
    }

    fn show(&mut self, now: Duration) {
        let clients = self.clients.values().filter(|client| !client.observer).count() as u32;
        self.board.write(show::node_view(
            &self.hello,
            &self.broker,
            &self.eyes.gpus,
            &self.reclaims,
            clients,
            self.offenders,
            now,
        ));
        self.shown = now;
        self.changed = false;
    }

    fn deliver(&mut self, answers: Vec<Answer>) {
        for Answer { client, cell, reply } in answers {
            if let Some(client) = self.clients.get_mut(&client) {
                client.answer(cell, &reply);
            }
        }
    }

    /// How long to sleep at most; `None`: until something happens.
    fn timeout(&self) -> Option<Timespec> {
        let now = self.now();
        let mut next: Option<Duration> = self.reclaims.interval(now);
        let mut sooner = |wait: Duration| next = Some(next.map_or(wait, |other| other.min(wait)));
        if self.changed {
            sooner(Duration::ZERO);
        }
        if self.broker.waiting() {
            sooner(WAITING);
        }
        if !self.clients.is_empty() {
            sooner(SHOWING);
        }
        if !self.guests.is_empty() {
            sooner(GREETING);
        }
        if let (Some(limit), Some(since)) = (self.config.idle_exit, self.idle) {
            sooner((since + limit).saturating_sub(now) + Duration::from_millis(1));
        }
        next.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        })
    }

    fn is_idle_for_long(&mut self) -> bool {
        let now = self.now();
        let busy = self.clients.values().any(|client| !client.observer) || !self.guests.is_empty();
        if busy {
            self.idle = None;
            return false;
        }
        let since = *self.idle.get_or_insert(now);
        self.config
            .idle_exit
            .is_some_and(|limit| now.saturating_sub(since) >= limit)
    }

    fn watch(&self, what: &OwnedFd, source: Source, flags: epoll::EventFlags) -> Result<(), Offence> {
        epoll::add(&self.epoll, what, source.data(), flags)
            .map_err(|error| Offence::System("failed to watch it", error))
    }

    fn unwatch(&self, what: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, what.as_fd());
    }

    fn accept(&mut self) {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = rustix::net::accept_with(&self.listener.socket, flags) else {
                return;
            };
            if self.guests.len() >= MOST_GUESTS || self.clients.len() >= self.most_clients {
                greet::refuse(&socket, &Offence::Full);
                continue;
            }
            let id = self.next_id;
            self.next_id += 1;
            if self
                .watch(&socket, Source::Guest(id), epoll::EventFlags::IN)
                .is_ok()
            {
                self.guests.insert(id, (socket, self.now()));
            }
        }
    }

    fn greet(&mut self, id: u64) {
        let Some((socket, _)) = self.guests.get(&id) else {
            return;
        };
        match greet::receive(socket) {
            None => {}
            Some(Ok(guest)) => self.welcome(id, guest),
            Some(Err(offence)) => self.turn_away(id, &offence),
        }
    }

    fn turn_away(&mut self, id: u64, offence: &Offence) {
        let Some((socket, _)) = self.guests.remove(&id) else {
            return;
        };
        // Whoever only looks whether mgbd is there connects and says nothing.
        if !matches!(offence, Offence::Silent) {
            self.offenders += 1;
            tracing::warn!(why = %offence, "turned a client away");
        }
        greet::refuse(&socket, offence);
        self.unwatch(&socket);
        self.changed = true;
    }

    fn welcome(&mut self, id: ClientId, guest: Guest) {
        let watched = self
            .watch(&guest.pidfd, Source::Process(id), epoll::EventFlags::IN)
            // Edge-triggered and never read: a client can take the number out of
            // its eventfd, and a read of it could then block.
            .and_then(|()| {
                let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
                self.watch(&guest.doorbell, Source::Doorbell(id), flags)
            });
        let Some((socket, _)) = self.guests.get(&id) else {
            return;
        };
        let said = watched.and_then(|()| greet::welcome(socket, &self.hello));
        if let Err(offence) = said {
            self.unwatch(&guest.pidfd);
            self.unwatch(&guest.doorbell);
            self.turn_away(id, &offence);
            return;
        }
        let Some((socket, _)) = self.guests.remove(&id) else {
            return;
        };
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        let _ = epoll::modify(&self.epoll, &socket, Source::Socket(id).data(), flags);
        tracing::debug!(
            client = id,
            pid = guest.pid,
            observer = guest.observer,
            "connected"
        );
        if !guest.observer {
            self.replaces(guest.pid);
        }
        self.broker.arrive(id, guest.pid);
        self.clients.insert(id, Client::new(id, guest, socket));
        self.changed = true;
    }

    /// A process that hung up and now connects again has become another program:
    /// what the old one had on the GPU is gone with it.
    fn replaces(&mut self, pid: u32) {
        let old: Vec<ClientId> = self
            .clients
            .values()
            .filter(|client| client.pid == pid && client.line.is_none())
            .map(|client| client.id)
            .collect();
        let now = self.now();
        for id in old {
            let lost = self.broker.exec(id, now);
            self.reclaims.died(pid, lost, now, now);
        }
    }

    fn died(&mut self, id: ClientId, seen: Duration) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let pid = client.pid;
        let lost = self.broker.die(id, self.now());
        self.reclaims.died(pid, lost, seen, self.now());
        self.remove(id);
    }

    fn remove(&mut self, id: ClientId) {
        let Some(client) = self.clients.remove(&id) else {
            return;
        };
        if let Some(line) = &client.line {
            self.unwatch(&line.socket);
            self.unwatch(&line.doorbell);
        }
        self.unwatch(&client.pidfd);
        self.changed = true;
    }

    /// A client's socket says something: that it hung up, or what no client says.
    fn socket(&mut self, id: ClientId) {
        let Some(line) = self.clients.get(&id).and_then(|client| client.line.as_ref()) else {
            return;
        };
        let mut byte = [0u8; 1];
        match rustix::net::recv(&line.socket, &mut byte, RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Ok((_, 0)) | Err(_) => self.hang_up(id),
            Ok(_) => self.cut_off(id, &"it sent a second message on its socket"),
        }
    }

    fn doorbell(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id).filter(|client| client.line.is_some()) else {
            return;
        };
        let requests = match client.take() {
            Ok(requests) => requests,
            Err(breach) => return self.cut_off(id, &breach),
        };
        let now = self.now();
        for (cell, request) in requests {
            tracing::trace!(client = id, ?request, "asked");
            if let Some(reply) = self.broker.request(id, cell, request, now)
                && let Some(client) = self.clients.get_mut(&id)
            {
                client.answer(cell, &reply);
            }
            self.changed = true;
        }
    }

    /// Cuts a client off. What it holds stays charged until its process dies.
    fn cut_off(&mut self, id: ClientId, why: &dyn std::fmt::Display) {
        self.offenders += 1;
        let pid = self.clients.get(&id).map_or(0, |client| client.pid);
        tracing::warn!(client = id, pid, %why, "cut a client off");
        self.hang_up(id);
    }

    fn hang_up(&mut self, id: ClientId) {
        self.broker.hang_up(id);
        if let Some(line) = self.clients.get_mut(&id).and_then(|client| client.line.take()) {
            self.unwatch(&line.socket);
            self.unwatch(&line.doorbell);
        }
        self.changed = true;
        if self.broker.ledger().holds_nothing(id) {
            self.broker.die(id, self.now());
            self.remove(id);
        }
    }
}

fn start_mps(config: &Config, node: &dyn Node, listener: &Listener) -> (Option<Mps>, Option<String>) {
    let note = if !config.mps {
        "switched off".to_owned()
    } else if node.software() {
        "software GPUs need none".to_owned()
    } else {
        match Mps::start(listener.folder()) {
            Ok(mps) => return (Some(mps), None),
            Err(why) => {
                tracing::warn!(
                    why,
                    "going on without MPS: kernels of different programs take turns"
                );
                why
            }
        }
    };
    (None, Some(note))
}

/// Three descriptors a client: how many clients can there be?
fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let descriptors = usize::try_from(current.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    (descriptors.saturating_sub(MOST_GUESTS + 64) / 3).clamp(1, MOST_CLIENTS)
}
