//! Guests that have said hello, until it is known what they run and what holds for their user, or until that
//! takes too long.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::client::ClientId;
use crate::daemon::accept::arrivals::WaitingGuest;
use crate::daemon::accept::connection::Connection;
use crate::daemon::accept::greet::Guest;
use crate::daemon::lookups::{LOOKUP_TIMEOUT, LookupAnswer};
use crate::daemon::server::Server;

impl Server {
    /// A guest has said hello: it becomes a client once what is to be known of it is.
    pub(crate) fn comes(&mut self, id: ClientId, guest: Guest) {
        let now = self.now();
        let until = now + LOOKUP_TIMEOUT;
        let is_asked = !guest.observer
            && self
                .accounts
                .lookups()
                .program(id, guest.whose.account, guest.pid);
        self.accounts.ask(guest.whose.account, now);
        let program = (!is_asked).then_some(None);
        if let Some(Connection { socket, .. }) = self.accept.guest(id) {
            // What it says next is heard when it is a client.
            self.poll.unwatch(socket);
        }
        let waiting = WaitingGuest {
            guest,
            program,
            until,
        };
        self.accept.arrives(id, waiting, now);
        self.let_in();
    }

    /// Answers came, from beside the loop.
    pub(crate) fn hear_lookups(&mut self) {
        let found = self.accounts.lookups().take();
        self.found(found);
        self.let_in();
    }

    fn found(&mut self, found: Vec<LookupAnswer>) {
        for found in found {
            match found {
                LookupAnswer::Program(id, program) => {
                    if let Some(program) = self.accept.arrivals().runs(id, program) {
                        self.broker.identify(id, program);
                    }
                }
                LookupAnswer::Account(uid, by, account) => {
                    if self.accounts.found(uid, &by, account) {
                        self.renew_account(uid);
                    }
                }
                LookupAnswer::Health(gpu, news) => self.hear_of_health(gpu, news),
                LookupAnswer::Quotas(read) => {
                    self.accounts.was_read(read);
                    self.renew_accounts();
                }
                LookupAnswer::Settings(read) => self.has_settings(read),
            }
        }
    }

    /// Lets in whoever is known well enough, or has waited long enough for that.
    pub(crate) fn let_in(&mut self) {
        let now = self.now();
        let accounts = &self.accounts;
        let is_done = |waiting: &WaitingGuest| {
            let is_known = waiting.program.is_some() && !accounts.are_asked(waiting.guest.whose.account, now);
            is_known || now >= waiting.until
        };
        let done = self.accept.arrivals().take(is_done);
        for (id, waiting) in done {
            let WaitingGuest { guest, program, .. } = waiting;
            let (pid, uid) = (guest.pid, guest.whose.account);
            let is_nameless = self.accounts.is_unknown(uid);
            if (program.is_none() || is_nameless)
                && let Some(left_out) = self.clients.offence_line(now)
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
            let is_asked = self
                .clients
                .values()
                .any(|client| self.accounts.are_asked(client.uid, now));
            if programs.is_empty() && !is_asked || Instant::now() >= until {
                return;
            }
            let found = self.accounts.lookups().wait_until(until);
            for found in &found {
                if let LookupAnswer::Program(id, _) = found {
                    programs.remove(id);
                }
            }
            self.found(found);
        }
    }
}
