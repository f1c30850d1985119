//! Guests that have said hello, until it is known what they run and what holds for their user, or until that
//! takes too long.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::client::ClientId;
use crate::daemon::accept::arrivals::Waiting;
use crate::daemon::accept::connection::Connection;
use crate::daemon::accept::greet::Guest;
use crate::daemon::lookups::{Found, LOOKUP_TIMEOUT};
use crate::daemon::server::Server;

impl Server {
    /// A guest has said hello: it becomes a client once what is to be known of it is.
    pub(crate) fn comes(&mut self, id: ClientId, guest: Guest) {
        let now = self.now();
        let until = now + LOOKUP_TIMEOUT;
        if let Some(connection) = self.guests.get_mut(&id) {
            // It is silent no more.
            connection.since = now;
        }
        let is_asked = !guest.observer && self.lookups.program(id, guest.whose.account, guest.pid);
        self.quotas.ask(guest.whose.account, &self.lookups, now);
        let program = (!is_asked).then_some(None);
        if let Some(Connection { socket, .. }) = self.guests.get(&id) {
            // What it says next is heard when it is a client.
            self.unwatch(socket);
        }
        let waiting = Waiting {
            guest,
            program,
            until,
        };
        self.coming.0.insert(id, waiting);
        self.let_in();
    }

    /// Answers came, from beside the loop.
    pub(crate) fn hear_lookups(&mut self) {
        let found = self.lookups.take();
        self.found(found);
        self.let_in();
    }

    fn found(&mut self, found: Vec<Found>) {
        for found in found {
            match found {
                Found::Program(id, program) => match (self.coming.0.get_mut(&id), program) {
                    (Some(waiting), program) => waiting.program = Some(program),
                    (None, Some(program)) => self.broker.identify(id, program),
                    (None, None) => {}
                },
                Found::Account(uid, by, account) => {
                    if self.quotas.found(uid, &by, account) {
                        self.renew_account(uid);
                    }
                }
                Found::Health(gpu, news) => self.hear_of_health(gpu, news),
                Found::Quotas(read) => {
                    self.quotas.read_again(read);
                    self.renew_accounts();
                }
            }
        }
    }

    /// Lets in whoever is known well enough, or has waited long enough for that.
    pub(crate) fn let_in(&mut self) {
        let now = self.now();
        let is_done = |waiting: &Waiting| {
            let is_known =
                waiting.program.is_some() && !self.quotas.are_asked(waiting.guest.whose.account, now);
            is_known || now >= waiting.until
        };
        let done = self.coming.0.iter().filter(|(_, waiting)| is_done(waiting));
        let done: Vec<ClientId> = done.map(|(id, _)| *id).collect();
        for id in done {
            let Some(waiting) = self.coming.0.remove(&id) else {
                continue;
            };
            let Waiting { guest, program, .. } = waiting;
            let (pid, uid) = (guest.pid, guest.whose.account);
            let is_nameless = self.quotas.is_unknown(uid);
            if (program.is_none() || is_nameless)
                && let Some(left_out) = self.offence_lines.take((), now)
            {
                let (file, names) = (program.is_none(), is_nameless);
                tracing::warn!(
                    pid,
                    uid,
                    file,
                    names,
                    left_out,
                    "what a program runs, or what holds for its user, is not to be had: a file system or the \
                     name service does not answer; it goes on without, until that comes"
                );
            }
            self.welcome(id, guest, program.flatten());
        }
    }

    /// Takes the answers to what was asked of clients that another `mgbd` has left, as long as they come in
    /// time.
    pub(crate) fn await_lookups(&mut self, mut programs: BTreeSet<ClientId>) {
        let until = Instant::now() + LOOKUP_TIMEOUT;
        loop {
            let now = self.now();
            let mut users = self.clients.values().map(|client| client.uid);
            let is_asked = users.any(|uid| self.quotas.are_asked(uid, now));
            if programs.is_empty() && !is_asked || Instant::now() >= until {
                return;
            }
            let found = self.lookups.wait_until(until);
            for found in &found {
                if let Found::Program(id, _) = found {
                    programs.remove(id);
                }
            }
            self.found(found);
        }
    }
}
