//! Clients come and go: what the loop does about each event.

use std::time::Duration;

use mgb_interface::peer::is_over;
use mgb_probe::Hello;
use rustix::event::epoll;
use rustix::io::Errno;

use crate::broker::ProgramId;
use crate::client::ClientId;
use crate::daemon::accept::connection::Connection;
use crate::daemon::accept::greet::{self, Guest, Message, Offence};
use crate::daemon::accept::identity::Identity;
use crate::daemon::client::Client;
use crate::daemon::clock::boot_clock;
use crate::daemon::deferred_close;
use crate::daemon::poll;
use crate::daemon::process::family::{has_no_agent, is_exiting, is_killed};
use crate::daemon::server::Server;
use crate::daemon::source::EventSource;
use crate::journal::KnownClient;

impl Server {
    pub(crate) fn greet(&mut self, id: u64) {
        let Some(connection) = self.accept.guest(id) else {
            return;
        };
        let whose = connection.whose;
        if self.may_not_send(whose.account) {
            return self.turn_away(id, &Offence::Unclosed(whose.account));
        }
        let waited = self.now().saturating_sub(connection.since);
        match greet::receive(&connection.socket, whose, &self.config.users, waited) {
            None => {}
            Some(Ok(guest)) => self.comes(id, guest),
            Some(Err(offence)) => self.turn_away(id, &offence),
        }
    }

    pub(crate) fn turn_away(&mut self, id: u64, offence: &Offence) {
        let Some(Connection { socket, whose, .. }) = self.accept.remove(id) else {
            return;
        };
        // Whoever only looks whether mgbd is there connects and says nothing.
        if !matches!(offence, Offence::Silent)
            && let Some(left_out) = self.clients.offends(self.now())
        {
            tracing::warn!(why = %offence, left_out, "turned a client away");
        }
        greet::refuse(&socket, offence);
        self.poll.unwatch(&socket);
        deferred_close::close_socket(whose.account, socket);
        self.view.client_left(boot_clock());
    }

    /// A guest becomes a client, of whom is known what it runs, or that this is not to be had.
    pub(crate) fn welcome(&mut self, id: ClientId, guest: Guest, program: Option<ProgramId>) {
        self.bury(guest.pid);
        let watched = self
            .watch(&guest.pidfd, EventSource::Process(id), epoll::EventFlags::IN)
            .and_then(|()| self.watch(&guest.doorbell, EventSource::Doorbell(id), poll::DOORBELL));
        if guest.observer && self.view.is_stale() {
            // It reads the view next, and shall find in it what was before.
            self.sample();
            self.show(self.now());
        }
        let is_held = self.is_to_be_held(id, &guest);
        let view = self.view_of(guest.whose);
        let (class, mps_client) = self.joins(guest.whose.account, guest.class);
        let Some(Connection { socket, .. }) = self.accept.guest(id) else {
            return;
        };
        let said = watched.and_then(|()| {
            let hello = Hello {
                version: guest.version,
                client_pid: Some(guest.pid),
                exchanged: self.broker.exchanged((guest.whose.account, guest.job)),
                numbering: self.broker.numbering((guest.whose.account, guest.job)),
                usable: self.accounts.usable_by(guest.whose.account),
                class: Some(class),
                mps_client,
                view,
                ..self.hello.clone()
            };
            greet::welcome(socket, hello)
        });
        if let Err(offence) = said {
            self.poll.unwatch(&guest.pidfd);
            self.poll.unwatch(&guest.doorbell);
            self.turn_away(id, &offence);
            if is_held {
                self.restart.let_go(id, &mut self.clients);
                self.restart.gone(id);
            }
            return;
        }
        let Some(Connection { socket, .. }) = self.accept.remove(id) else {
            return;
        };
        let _ = self.poll.watch(&socket, EventSource::Socket(id), poll::SOCKET);
        tracing::debug!(
            client = id,
            pid = guest.pid,
            observer = guest.observer,
            "connected"
        );
        self.broker.arrive(id, guest.pid);
        self.belongs_to(id, guest.whose.account);
        self.broker.join(id, guest.job);
        if guest.observer {
            self.broker.only_looks(id, guest.whose.administers);
        } else {
            // After its arrival: what is kept of a process ends with the last client that it is.
            self.replaces(guest.pid);
        }
        if let Some(program) = program {
            self.broker.identify(id, program);
        }
        self.clients.insert(Client::new(id, guest, socket, is_held));
        self.notes_class(id);
        self.view.changed();
    }

    /// Deals with the deaths of clients whose number another process has now: what people want of them, and
    /// what is kept of them, is not for that one.
    fn bury(&mut self, pid: u32) {
        let has_ended = |client: &&Client| client.pid == pid && is_over(&client.pidfd);
        let ended: Vec<ClientId> = self
            .clients
            .values()
            .filter(has_ended)
            .map(|client| client.id)
            .collect();
        for id in ended {
            self.died(id, self.now());
        }
    }

    /// The name of a user's view, with something in it.
    fn view_of(&mut self, whose: Identity) -> Option<String> {
        let (name, is_new) = match self.view.of(whose.account, whose.uid) {
            Ok(view) => view,
            Err(error) => {
                tracing::error!(%error, uid = whose.uid, "a user has no view of the node");
                return None;
            }
        };
        if is_new {
            self.show(self.now());
            self.note_views();
        }
        Some(name)
    }

    /// Has a guest held who is about to become a client, before it hears that it is one: whoever has heard
    /// that is known to the next `mgbd`. False: nobody holds it.
    fn is_to_be_held(&mut self, id: ClientId, guest: &Guest) -> bool {
        let Some(Connection { socket, .. }) = self.accept.guest(id).filter(|_| !guest.observer) else {
            return false;
        };
        let files = [&guest.pidfd, &guest.memory, socket, &guest.doorbell];
        let known = KnownClient {
            id,
            pid: guest.pid,
            uid: guest.whose.account,
            reader: Some(guest.whose.uid).filter(|reader| *reader != guest.whose.account),
            job: guest.job,
            version: guest.version,
        };
        let is_held = self.restart.comes(known, &files);
        if is_held {
            self.note(&[]);
        }
        is_held
    }

    /// A process that hung up and now connects again has become another program:
    /// what the old one had on the GPU is gone with it.
    fn replaces(&mut self, pid: u32) {
        let old: Vec<ClientId> = self
            .clients
            .values()
            .filter(|client| client.pid == pid && client.line.is_none() && !client.leaving)
            .map(|client| client.id)
            .collect();
        for id in old {
            self.executes(id, pid);
        }
    }

    /// The client's process runs another program: what the old one had on the GPU is gone with it.
    fn executes(&mut self, id: ClientId, pid: u32) {
        let now = self.now();
        let lost = self.broker.exec(id, now);
        self.monitor.reclaims_mut().died(pid, lost, now, now);
        self.outlive(id);
        if !self.clients.fds().keeps(pid) {
            self.monitor.reclaims_mut().exited(pid, now);
        }
        if self.broker.ledger().holds_nothing(id) {
            self.broker.die(id, now);
            self.remove(id);
        }
    }

    pub(crate) fn died(&mut self, id: ClientId, seen: Duration) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let (pid, leaving) = (client.pid, client.leaving);
        if !leaving {
            self.dies(id, pid, seen);
        }
        self.outlive(id);
        if !self.clients.fds().keeps(pid) {
            let now = self.now();
            self.monitor.reclaims_mut().exited(pid, now);
        }
        self.remove(id);
    }

    /// What the client's process had on the GPUs is gone, as far as it is not kept.
    fn outlive(&mut self, id: ClientId) {
        let now = self.now();
        let gpus = self.hello.gpus.len();
        if let Some(client) = self.clients.outlive(id, gpus, now) {
            self.restart.hold_files(client);
        }
    }

    /// The kernel ends a process descriptor by descriptor: the socket, opened
    /// first, closes well before the driver has cleaned up and the pidfd tells.
    /// True if that is what happened.
    fn is_leaving(&mut self, id: ClientId, seen: Duration) -> bool {
        let Some(client) = self.clients.get_mut(&id).filter(|client| is_exiting(client.pid)) else {
            return false;
        };
        client.leaving = true;
        let pid = client.pid;
        self.dies(id, pid, seen);
        true
    }

    /// Looks whether a process that hung up did so since it runs another program.
    fn look_for_exec(&mut self, id: ClientId) {
        let pid = self.clients.get(&id).map(|client| client.pid);
        if let Some(pid) = pid.filter(|pid| has_no_agent(*pid)) {
            self.executes(id, pid);
        }
    }

    /// The client's process ends: what it holds is to be reclaimed.
    fn dies(&mut self, id: ClientId, pid: u32, seen: Duration) {
        let lost = self.broker.die(id, self.now());
        if !lost.is_empty() && is_killed(pid) {
            self.broker.count_killed();
        }
        let now = self.now();
        self.monitor.reclaims_mut().died(pid, lost, seen, now);
    }

    fn remove(&mut self, id: ClientId) {
        let Some(client) = self.clients.remove(id) else {
            return;
        };
        if let Some(line) = client.line {
            self.poll.unwatch(&line.socket);
            self.poll.unwatch(&line.doorbell);
            deferred_close::close_socket(client.uid, line.socket);
        }
        self.poll.unwatch(&client.pidfd);
        if client.is_held {
            self.restart.gone(id);
            if !self.clients.fds().keeps_client(id) {
                self.restart.let_go(id, &mut self.clients);
            }
        }
        self.view.client_left(boot_clock());
    }

    /// A client's socket says something: that it hung up, or what is to be kept of it.
    pub(crate) fn socket(&mut self, id: ClientId, seen: Duration) {
        let Some(client) = self.clients.get(&id) else {
            return;
        };
        let Some(line) = &client.line else { return };
        let account = client.uid;
        if self.may_not_send(account) && deferred_close::has_files(&line.socket) {
            return self.cut_off(id, &Offence::Unclosed(account));
        }
        match Message::receive(&line.socket, account) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(message) if !message.bytes().is_empty() => self.files(id, message),
            Ok(_) | Err(_) => {
                let leaving = self.is_leaving(id, seen);
                let had_agent = self.clients.get(&id).is_some_and(Client::listens);
                self.cut(id);
                if !leaving {
                    self.hang_up(id);
                }
                if !leaving && had_agent {
                    self.look_for_exec(id);
                }
            }
        }
    }

    /// Cuts a client off. What it holds stays charged until its process dies.
    pub(crate) fn cut_off(&mut self, id: ClientId, why: &dyn std::fmt::Display) {
        let pid = self.clients.get(&id).map_or(0, |client| client.pid);
        if let Some(left_out) = self.clients.offends(self.now()) {
            tracing::warn!(client = id, pid, %why, left_out, "cut a client off");
        }
        self.hang_up(id);
    }

    /// Closes a client's line: nothing it says counts any more.
    fn cut(&mut self, id: ClientId) {
        self.clients.drop_calls(id);
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let account = client.uid;
        if let Some(line) = client.line.take() {
            self.poll.unwatch(&line.socket);
            self.poll.unwatch(&line.doorbell);
            // The holder has the socket too: only this tells the client.
            let _ = rustix::net::shutdown(&line.socket, rustix::net::Shutdown::Both);
            deferred_close::close_socket(account, line.socket);
        }
        self.view.changed();
    }

    /// Its process may hold room still, or become a program that asks for some: it counts until it ends.
    fn hang_up(&mut self, id: ClientId) {
        self.broker.hang_up(id);
        self.cut(id);
        let nobody = self.clients.get(&id).is_some_and(|client| client.observer);
        if nobody && self.broker.ledger().holds_nothing(id) {
            self.broker.die(id, self.now());
            self.remove(id);
        }
    }
}
