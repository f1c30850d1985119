//! The loop: what happened, and what follows from it.

mod admission;
mod answers;
#[allow(
    clippy::disallowed_methods,
    reason = "the kernel's own word on a process's name"
)]
mod audit;
mod beyond;
mod connections;
mod descriptors;
mod entrance;
mod failing;
mod files;
mod hold;
mod journal_write;
mod late;
mod pause;
mod quotas;
mod recover;
mod rounds;
mod setup;
mod signal;
mod sleep;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::Duration;

use mgb_probe::view::NodeView;
use mgb_probe::{Hello, Spin, wire};
use rustix::event::epoll;

use crate::Broker;
use crate::broker::{Rules, Snapshot};
use crate::client::ClientId;
use crate::daemon::accept::arrivals::Arrivals;
use crate::daemon::accept::connection::Connection;
use crate::daemon::accept::greet::Offence;
use crate::daemon::accept::identity::Identities;
use crate::daemon::accept::listener::Listener;
use crate::daemon::client::Client;
use crate::daemon::client::client_fds::ClientFds;
use crate::daemon::clock::{boot_clock, computed};
use crate::daemon::config::Config;
use crate::daemon::deferred_close;
use crate::daemon::error::DaemonError;
use crate::daemon::history_file::HistoryFile;
use crate::daemon::limits::{
    CONNECTIONS, DutyCycle, FILE_LISTS, LOG_LINES, Limiter, Pauses, USER_LOG_LINES, VIEW_WRITES,
    WAITING_REQUESTS,
};
use crate::daemon::lookups::Lookups;
use crate::daemon::monitor::activity::Activities;
use crate::daemon::monitor::descriptor_count::Descriptors;
use crate::daemon::monitor::ending::Done;
use crate::daemon::monitor::foreign::ForeignLoads;
use crate::daemon::monitor::health::HealthWatch;
use crate::daemon::monitor::late_processes::LateProcesses;
use crate::daemon::monitor::memory_monitor::MemoryMonitor;
use crate::daemon::monitor::overhead::Overheads;
use crate::daemon::monitor::reclaim::Reclaims;
use crate::daemon::quota_file::QuotaFile;
use crate::daemon::restart::book::{Book, Pending};
use crate::daemon::restart::holder::Holder;
use crate::daemon::restart::open_holder::open_holder;
use crate::daemon::server::rounds::Rounds;
use crate::daemon::server::setup::raise_descriptor_limit;
use crate::daemon::service::Service;
use crate::daemon::source::Source;
use crate::daemon::view::node_view;
use crate::daemon::view::user_views::UserViews;
use crate::node::Node;
use crate::note::Note;
use crate::seccomp;

/// How long a connection may stay silent before it has to have said hello.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that have not said hello yet, at once.
pub(crate) const MAX_GUESTS: usize = 128;
/// Deaths that are dealt with in a turn of the loop, each of which may leave many tasks: the others are there
/// in the next one.
const MAX_DEATHS: usize = 1;
/// Clients at once, if descriptors allow.
const MAX_CLIENTS: usize = 4096;

/// A running `mgbd`.
pub struct Server {
    // Dropped in this order: first what others could still connect to.
    pub(crate) listener: Listener,
    /// `None` where there is nothing that needs one.
    pub(crate) holder: Option<Holder>,
    pub(crate) boards: UserViews,
    pub(crate) config: Config,
    pub(crate) node: Box<dyn Node>,
    /// Watched by the epoll as long as it is open.
    _stop: OwnedFd,
    pub(crate) epoll: OwnedFd,
    pub(crate) hello: Hello,
    pub(crate) broker: Broker,
    pub(crate) memory_monitor: MemoryMonitor,
    pub(crate) activities: Activities,
    pub(crate) foreign_loads: ForeignLoads,
    overheads: Overheads,
    /// What was done about clients that have more than they were granted,
    pub(crate) beyond: BTreeMap<ClientId, Done>,
    /// and about those that have it for longer than they may.
    pub(crate) late: LateProcesses,
    pub(crate) history: HistoryFile,
    pub(crate) service: Service,
    pub(crate) quotas: QuotaFile,
    /// The journal; `None` where nobody would have it after this process.
    pub(crate) book: Option<Book>,
    /// What is to be taken down with the next step.
    pub(crate) pending: Pending,
    /// The last snapshot taken while no request waited, less what was granted since, and its time.
    pub(crate) recent: Option<(Snapshot, Duration)>,
    pub(crate) rounds: Rounds,
    pub(crate) reclaims: Reclaims,
    pub(crate) keeper: ClientFds,
    pub(crate) clients: BTreeMap<ClientId, Client>,
    /// Clients with requests that are not taken yet.
    pub(crate) posting: BTreeSet<ClientId>,
    /// The first of them that is heard.
    pub(crate) hears_from: ClientId,
    pub(crate) guests: BTreeMap<u64, Connection>,
    pub(crate) coming: Arrivals,
    pub(crate) identities: Identities,
    pub(crate) lookups: Lookups,
    /// Ends with the server.
    pub(crate) health: Option<HealthWatch>,
    pub(crate) most_clients: usize,
    /// Descriptors kept for clients, at once.
    pub(crate) most_kept: usize,
    pub(crate) next_id: u64,
    /// Requests that are taken and not answered, by user.
    pub(crate) unanswered: Limiter<u32>,
    /// Connections that are taken.
    pub(crate) connections: Limiter<()>,
    pub(crate) descriptors: Descriptors,
    /// Lists of files to be kept, by user.
    pub(crate) file_lists: Limiter<u32>,
    pub(crate) pauses: Pauses<Source>,
    pub(crate) offenders: u64,
    /// Lines of the log about people's orders, by user.
    pub(crate) audits: Limiter<u32>,
    /// Lines of the log about clients that do wrong.
    pub(crate) offence_lines: Limiter<()>,
    /// When it came up.
    start: Duration,
    /// Since when there is no client.
    pub(crate) idle: Option<Duration>,
    /// When the node view was written last.
    pub(crate) shown: Duration,
    pub(crate) view_writes: DutyCycle,
    pub(crate) changed: bool,
    /// When a GPU that the driver could not reach is tried again.
    pub(crate) look_again: Duration,
    /// A client asked for something since the last wait.
    pub(crate) asked: bool,
    pub(crate) spin: Spin,
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
        if let Some(left) = &listener.left {
            left.remove_views();
        }
        // Before anything that clients have sent is open here.
        let lookups = Lookups::new().map_err(DaemonError::Lookups)?;
        let quotas = QuotaFile::read(config.quotas.clone(), node.gpus(), &lookups)?;
        let boards = UserViews::new(config.users.are_several())?;
        let descriptors = raise_descriptor_limit();
        let (holder, mps, mut left) = open_holder(&config, node.as_ref(), &listener)?;
        let adopted = left.listener.take();
        listener.listen(adopted, &config.users)?;
        if let Some(holder) = &holder {
            holder.listener(listener.socket());
        }
        let note = Note {
            pid: std::process::id(),
            views: boards.names(),
            socket: listener.file(),
        };
        if let Err(error) = listener.note(&note) {
            tracing::warn!(%error, "failed to write the lock file");
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("make an epoll"))?;
        epoll::add(
            &epoll,
            listener.socket(),
            Source::Listener.data(),
            epoll::EventFlags::IN,
        )
        .map_err(system("watch the socket"))?;
        epoll::add(&epoll, &stop, Source::Stop.data(), epoll::EventFlags::IN)
            .map_err(system("watch for signals"))?;
        if let Some(reload) = &config.reload {
            epoll::add(&epoll, reload, Source::Reload.data(), epoll::EventFlags::IN)
                .map_err(system("watch for SIGHUP"))?;
        }
        let hello = Hello {
            version: wire::VERSION,
            policy: config.policy.to_string(),
            queue: config.queue.to_string(),
            mps_pipe: mps.pipe.map(|pipe| pipe.display().to_string()),
            mps_note: mps.note,
            gpus: node.gpus().to_vec(),
            mgbd_pid: std::process::id(),
            client_pid: None,
            exchanged: None,
            numbering: Vec::new(),
            usable: None,
            view: Some(boards.whole().to_owned()),
        };
        epoll::add(
            &epoll,
            lookups.rings(),
            Source::Lookups.data(),
            epoll::EventFlags::IN,
        )
        .map_err(system("watch for what is looked up"))?;
        let rules = Rules {
            patience: config.patience,
            queue: config.queue,
            evicts: config.evicts,
            moves: config.moves,
            shuffles: config.shuffles,
            swap_memory: config.swap_memory,
            drains_failing: config.drains_failing,
            ..Rules::new(config.policy)
        };
        if let Some(line) = holder.as_ref().and_then(Holder::line) {
            epoll::add(&epoll, line, Source::Holder.data(), epoll::EventFlags::IN)
                .map_err(system("watch the holder"))?;
        }
        let mut broker = Broker::new(hello.gpus.clone(), rules);
        let identities = Identities::new(config.subordinates.clone());
        let start = boot_clock();
        let mut server = Server {
            history: HistoryFile::open(config.past.clone(), &mut broker),
            broker,
            memory_monitor: MemoryMonitor::new(hello.gpus.len(), lookups.marks()),
            activities: Activities::default(),
            foreign_loads: ForeignLoads::new(hello.gpus.len()),
            overheads: Overheads::new(hello.gpus.len(), lookups.marks()),
            beyond: BTreeMap::new(),
            late: LateProcesses::new(),
            recent: None,
            rounds: Rounds::new(),
            // Four descriptors each, and half of all for what is kept.
            most_clients: ((descriptors / 2).saturating_sub(MAX_GUESTS + 64) / 4).clamp(1, MAX_CLIENTS),
            most_kept: descriptors / 2,
            keeper: ClientFds::new(node.as_ref()),
            listener,
            holder,
            boards,
            config,
            node,
            _stop: stop,
            epoll,
            hello,
            reclaims: Reclaims::new(),
            clients: BTreeMap::new(),
            posting: BTreeSet::new(),
            hears_from: 0,
            guests: BTreeMap::new(),
            coming: Arrivals::default(),
            identities,
            lookups,
            health: None,
            next_id: 1,
            unanswered: Limiter::new(WAITING_REQUESTS),
            connections: Limiter::new(CONNECTIONS),
            descriptors: Descriptors::new(descriptors),
            file_lists: Limiter::new(FILE_LISTS),
            pauses: Pauses::default(),
            offenders: 0,
            audits: Limiter::new(USER_LOG_LINES),
            offence_lines: Limiter::new(LOG_LINES),
            start,
            idle: Some(start),
            shown: Duration::ZERO,
            view_writes: VIEW_WRITES,
            changed: true,
            look_again: Duration::ZERO,
            asked: false,
            spin: Spin::default(),
            service: Service::default(),
            quotas,
            book: None,
            pending: Pending::default(),
        };
        server.recover(left);
        // After what the mgbd before knew of it, and before this thread may make fewer system calls.
        server.watch_health().map_err(DaemonError::Lookups)?;
        Ok(server)
    }

    /// The time on a clock that goes on from one `mgbd` to the next.
    pub(crate) fn now(&self) -> Duration {
        boot_clock()
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
        let (policy, mps) = (&self.hello.policy, self.hello.mps_pipe.is_some());
        tracing::info!(socket = %self.config.socket.display(), policy, mps, "mgbd is ready");
        if self.config.confines {
            seccomp::confine().map_err(DaemonError::Seccomp)?;
        }
        let status = format!("sharing {} GPUs by {policy}", self.hello.gpus.len());
        self.service.is_ready(boot_clock(), &status);
        let ended = self.serve_all();
        self.service.stops();
        let Server {
            holder,
            history,
            mut broker,
            listener,
            clients,
            ..
        } = self;
        history.finish(&mut broker);
        // Clients that wait are told before MPS is waited for. What they sent may wait for somebody as it is
        // closed: that is left to the process's end.
        drop(listener);
        for client in clients.into_values() {
            if let Some(line) = client.line {
                deferred_close::close_socket(client.uid, line.socket);
            }
        }
        if let Some(holder) = holder {
            holder.end();
        }
        ended
    }

    fn serve_all(&mut self) -> Result<(), DaemonError> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        loop {
            self.settle();
            if self.is_idle_for_long() {
                tracing::info!("nobody needed mgbd for a while: it ends");
                return Ok(());
            }
            events.clear();
            match self.wait(&mut events) {
                Ok(()) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(DaemonError::System("wait for events", error)),
            }
            let seen = self.now();
            let sources: Vec<Source> = events
                .iter()
                .filter_map(|event| Source::from_data(event.data))
                .collect();
            if sources.contains(&Source::Stop) {
                tracing::info!(order = "stop", clients = self.clients.len(), "audit");
                tracing::info!(clients = self.clients.len(), "told to stop");
                return Ok(());
            }
            // Deaths first: what the dead asked for is void.
            let dead = sources.iter().filter_map(|source| match source {
                Source::Process(id) => Some(*id),
                _ => None,
            });
            for id in dead.take(MAX_DEATHS) {
                self.died(id, seen);
            }
            for source in sources {
                match source {
                    Source::Listener => self.accept(),
                    Source::Guest(id) => self.greet(id),
                    Source::Socket(id) => self.socket(id, seen),
                    Source::Doorbell(id) => {
                        self.posting.insert(id);
                    }
                    Source::Holder => self.hear_holder(),
                    Source::Reload => self.reload(),
                    Source::Lookups => self.hear_lookups(),
                    Source::Process(_) | Source::Stop => {}
                }
            }
            self.take_requests();
        }
    }

    /// What follows from the events: rooms freed, requests answered, the view.
    fn settle(&mut self) {
        let now = self.now();
        let late: Vec<u64> = self
            .guests
            .iter()
            .filter(|(_, connection)| now.saturating_sub(connection.since) > HELLO_TIMEOUT)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            self.turn_away(id, &Offence::Silent);
        }
        self.let_in();
        for (id, pid) in self.keeper.check(self.node.as_ref(), now) {
            self.let_go(id);
            self.reclaims.exited(pid, now);
            self.changed = true;
        }
        self.restart_holder();
        self.count_descriptors(now);
        self.end_pauses(now);
        self.drop_views(now);
        let turns = self.broker.take_turns(now);
        self.deliver(turns);
        let reclaiming = self.reclaims.due_in(now).is_some_and(|wait| wait.is_zero());
        let show = self.shows_in().is_some_and(|wait| wait.is_zero());
        if reclaiming || self.broker.waiting() || self.broker.presses() || self.is_to_look_again(now) {
            self.serve(reclaiming, now);
        } else if show || self.broker.shuffles().is_some() {
            self.even_out(now);
        }
        let (waiting, to_leave) = (self.broker.waiting(), self.broker.to_leave());
        for client in self.clients.values_mut() {
            let is_old = self.late.without_leases.contains(&client.id);
            client.want(waiting || is_old || to_leave.contains(&client.id));
        }
        if show {
            self.show(now);
        }
        // Last, so that no request that could be answered waits for the driver's list.
        let (ledger, node) = (self.broker.ledger(), self.node.as_ref());
        if let Some((gpu, seen)) = self.overheads.sample(node, ledger, &self.clients, now) {
            for (client, bytes) in &seen {
                self.broker.has_overhead(*client, gpu, *bytes);
            }
            self.check_overheads(gpu, &seen, now);
        }
        self.check_times(now);
        self.history.check(&mut self.broker, now);
        self.note(&[]);
        self.note_waits(now);
        self.service.lives(now);
    }

    pub(crate) fn show(&mut self, now: Duration) {
        let began = computed();
        let view = node_view::node_view(
            &self.hello,
            &self.broker,
            &self.memory_monitor.gpus,
            &self.reclaims,
            &self.clients,
            self.offenders,
            now,
        );
        let quotas = self.quotas.view(self.broker.owner_views());
        let uptime_ms = now.saturating_sub(self.start).as_millis() as u64;
        let view = NodeView {
            uptime_ms,
            quotas,
            ..view
        };
        self.boards.write(view, now);
        self.shown = now;
        self.view_writes.worked(computed().saturating_sub(began));
        self.changed = false;
    }
}
