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
mod counted;
mod entrance;
mod failing;
mod files;
mod hold;
mod journal_write;
mod late;
mod pace;
mod pause;
mod quotas;
mod recover;
mod requests;
mod rounds;
mod settings;
mod setup;
mod signal;
mod sleep;

use std::os::fd::OwnedFd;
use std::time::Duration;

use mgb_probe::Hello;
use mgb_probe::view::NodeView;
use rustix::event::epoll;

use crate::Broker;
use crate::daemon::accept::greet::Offence;
use crate::daemon::accept::listener::Listener;
use crate::daemon::accept::{Accept, MAX_GUESTS};
use crate::daemon::accounts::Accounts;
use crate::daemon::client::clients::Clients;
use crate::daemon::clock::{boot_clock, computed};
use crate::daemon::config::Config;
use crate::daemon::deferred_close;
use crate::daemon::error::DaemonError;
use crate::daemon::history_file::HistoryFile;
use crate::daemon::lookups::Lookups;
use crate::daemon::monitor::Monitor;
use crate::daemon::paces::Paces;
use crate::daemon::poll::Poll;
use crate::daemon::quota_file::QuotaFile;
use crate::daemon::restart::Restart;
use crate::daemon::restart::open_holder::open_holder;
use crate::daemon::server::rounds::Rounds;
use crate::daemon::server::setup::{hello, raise_descriptor_limit, rules, watch_all};
use crate::daemon::service::Service;
use crate::daemon::source::EventSource;
use crate::daemon::usage::UsageBook;
use crate::daemon::view::{View, node_view};
use crate::node::NodeDriver;
use crate::seccomp;

/// Deaths that are dealt with in a turn of the loop, each of which may leave many tasks: the others are there
/// in the next one.
const MAX_DEATHS: usize = 1;
/// Clients at once, if descriptors allow.
const MAX_CLIENTS: usize = 4096;

/// A running `mgbd`: its parts, and what follows for one from what happened to another.
pub struct Server {
    // Dropped in this order: first what others could still connect to.
    accept: Accept,
    restart: Restart,
    view: View,
    config: Config,
    node: Box<dyn NodeDriver>,
    poll: Poll,
    hello: Hello,
    broker: Broker,
    monitor: Monitor,
    clients: Clients,
    accounts: Accounts,
    rounds: Rounds,
    paces: Paces,
    usage: UsageBook,
    service: Service,
}

impl Server {
    /// Sets up everything but the loop.
    pub fn new(
        config: Config,
        node: Box<dyn NodeDriver>,
        mut listener: Listener,
        stop: OwnedFd,
    ) -> Result<Server, DaemonError> {
        let (start, several) = (boot_clock(), config.users.are_several());
        if let Some(left) = &listener.left {
            left.remove_views();
        }
        // Before anything that clients have sent is open here.
        let lookups = Lookups::new().map_err(DaemonError::Lookups)?;
        let quotas = QuotaFile::read(config.quotas.clone(), node.gpus(), &lookups)?;
        let view = View::new(several, start)?;
        let descriptors = raise_descriptor_limit();
        let (holder, mps, mut left) = open_holder(&config, node.as_ref(), &listener)?;
        let adopted = left.listener.take();
        listener.listen(adopted, &config.users)?;
        if let Some(holder) = &holder {
            holder.listener(listener.socket());
        }
        // Four descriptors each, and half of all for what is kept.
        let most_clients = ((descriptors / 2).saturating_sub(MAX_GUESTS + 64) / 4).clamp(1, MAX_CLIENTS);
        let mut accept = Accept::new(listener, config.subordinates.clone(), most_clients);
        accept.note(view.names());
        let poll = watch_all(&config, accept.socket(), &lookups, holder.as_ref(), stop)?;
        let hello = hello(&config, node.as_ref(), mps, &view);
        let mut broker = Broker::new(hello.gpus.clone(), rules(&config));
        let history = HistoryFile::open(config.past.clone(), &mut broker);
        let mut server = Server {
            accept,
            restart: Restart::new(holder, history),
            view,
            monitor: Monitor::new(hello.gpus.len(), descriptors, &lookups),
            clients: Clients::new(node.as_ref(), descriptors / 2, start),
            accounts: Accounts::new(quotas, lookups, several),
            rounds: Rounds::new(),
            paces: Paces::new(&config),
            usage: UsageBook::open(config.usage.clone(), several, start),
            service: Service::default(),
            config,
            node,
            poll,
            hello,
            broker,
        };
        server.recover(left);
        // After what the mgbd before knew of it, and before this thread may make fewer system calls.
        let watched = server
            .monitor
            .watch_health(server.node.as_ref(), server.accounts.lookups());
        watched.map_err(DaemonError::Lookups)?;
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
            accept,
            restart,
            mut broker,
            clients,
            usage,
            ..
        } = self;
        usage.finish();
        let holder = restart.finish_history(&mut broker);
        // Clients that wait are told before MPS is waited for. What they sent may wait for somebody as it is
        // closed: that is left to the process's end.
        accept.end();
        for client in clients.into_values() {
            if let Some(line) = client.line {
                deferred_close::close_socket(client.uid, line.socket);
            }
        }
        holder.end();
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
            self.count_usage(seen);
            let sources: Vec<EventSource> = events
                .iter()
                .filter_map(|event| EventSource::from_data(event.data))
                .collect();
            if sources.contains(&EventSource::Stop) {
                tracing::info!(order = "stop", clients = self.clients.len(), "audit");
                tracing::info!(clients = self.clients.len(), "told to stop");
                return Ok(());
            }
            // Deaths first: what the dead asked for is void.
            let dead = sources.iter().filter_map(|source| match source {
                EventSource::Process(id) => Some(*id),
                _ => None,
            });
            for id in dead.take(MAX_DEATHS) {
                self.died(id, seen);
            }
            for source in sources {
                match source {
                    EventSource::Listener => self.accept(),
                    EventSource::Guest(id) => self.greet(id),
                    EventSource::Socket(id) => self.socket(id, seen),
                    EventSource::Doorbell(id) => {
                        self.clients.posted(id);
                    }
                    EventSource::Holder => self.hear_holder(),
                    EventSource::Reload => self.reload(),
                    EventSource::Lookups => self.hear_lookups(),
                    EventSource::Process(_) | EventSource::Stop => {}
                }
            }
            self.take_requests();
        }
    }

    /// What follows from the events: rooms freed, requests answered, the view.
    fn settle(&mut self) {
        let now = self.now();
        for id in self.accept.late(now) {
            self.turn_away(id, &Offence::Silent);
        }
        self.let_in();
        for (id, pid) in self.clients.fds_mut().check(self.node.as_ref(), now) {
            self.restart.let_go(id, &mut self.clients);
            self.monitor.reclaims_mut().exited(pid, now);
            self.view.changed();
        }
        self.restart_holder();
        self.count_descriptors(now);
        self.end_pauses(now);
        self.drop_views(now);
        self.pace(now);
        let turns = self.broker.take_turns(now);
        self.deliver(turns);
        let reclaiming = self
            .monitor
            .reclaims()
            .due_in(now)
            .is_some_and(|wait| wait.is_zero());
        let show = self.shows_in().is_some_and(|wait| wait.is_zero());
        if reclaiming || self.broker.waiting() || self.broker.presses() || self.monitor.is_to_retry(now) {
            self.serve(reclaiming, now);
        } else if show || self.broker.shuffles().is_some() {
            self.even_out(now);
        }
        let (waiting, to_leave) = (self.broker.waiting(), self.broker.to_leave());
        for client in self.clients.values_mut() {
            let is_old = self.monitor.late().has_no_leases(client.id);
            client.want(waiting || is_old || to_leave.contains(&client.id));
        }
        if show {
            self.show(now);
        }
        // Last, so that no request that could be answered waits for the driver's list.
        let node = self.node.as_ref();
        let overheads = self
            .monitor
            .sample_overheads(node, &self.broker, &self.clients, now);
        if let Some((gpu, seen)) = overheads {
            for (client, bytes) in &seen {
                self.broker.has_overhead(*client, gpu, *bytes);
            }
            self.check_overheads(gpu, &seen, now);
        }
        self.check_times(now);
        self.restart.save_history(&mut self.broker, now);
        self.usage.check(now);
        self.note(&[]);
        self.note_waits(now);
        self.service.lives(now);
    }

    pub(crate) fn show(&mut self, now: Duration) {
        let began = computed();
        let mut view = node_view::node_view(
            &self.hello,
            &self.broker,
            &self.monitor,
            self.clients.all(),
            self.clients.offences(),
            now,
        );
        self.show_paces(&mut view.tasks, &mut view.queue);
        let quotas = self.accounts.view(self.broker.owner_views());
        self.view.write(NodeView { quotas, ..view }, began, now);
    }

    /// Counts the descriptors, if it is time.
    fn count_descriptors(&mut self, now: Duration) {
        /// What `mgbd` has for itself, and the files of a client whose socket is open.
        const OWN: usize = 64;
        const OF_CLIENT: usize = 4;
        let (clients, guests) = (&self.clients, self.accept.len());
        let accounted = || {
            let kept = clients.values().map(|client| client.kept.len());
            let kept = kept.sum::<usize>() + clients.fds().files();
            OWN + guests + OF_CLIENT * (clients.len() + guests) + kept
        };
        self.monitor.count_descriptors(accounted, now);
    }
}
