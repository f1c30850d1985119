//! What the loop writes to the journal, and when: what a step changed before anybody is told of it, so that
//! whatever a client has seen is known to the next `mgbd`.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::broker::Answer;
use crate::daemon::server::Server;
use crate::journal::{Call, JournalLine};

impl Server {
    /// Drops the views of users who are gone, if it is time.
    pub(crate) fn drop_views(&mut self, now: Duration) {
        if self.view.drops_in(now).is_some_and(|wait| wait.is_zero()) {
            self.note_views();
        }
    }

    /// Notes which views there are, for who clears away after this process, and forgets those of users who
    /// are gone.
    pub(crate) fn note_views(&mut self) {
        let clients = self.clients.values().map(|client| (client.uid, client.reader));
        let guests = self
            .accept
            .guests()
            .map(|guest| (guest.whose.account, guest.whose.uid));
        let here: BTreeSet<(u32, u32)> = clients.chain(guests).collect();
        self.view.keep(|reader| here.contains(&reader));
        self.accept.note(self.view.names());
    }

    /// Writes what has changed, together with the answers that follow from it: their replies are in their cells.
    pub(crate) fn note(&mut self, answers: &[Answer]) {
        let (ledger, standing) = self.broker.take_changes();
        let answered = answers.iter().filter_map(|answer| self.call(answer)).collect();
        self.restart.write(JournalLine {
            ledger,
            standing,
            answered,
            ..JournalLine::default()
        });
    }

    /// Writes which requests wait, so that each keeps its place.
    pub(crate) fn note_waits(&mut self, now: Duration) {
        if !self.restart.has_journal() {
            return;
        }
        let clients = self.clients.values_mut();
        let waits = clients.flat_map(|client| client.new_waits());
        let waits: Vec<(Call, Duration)> = waits.map(|call| (call, now)).collect();
        if !waits.is_empty() {
            self.restart.write(JournalLine {
                waits,
                ..JournalLine::default()
            });
        }
    }

    fn call(&self, answer: &Answer) -> Option<Call> {
        Some(self.clients.get(&answer.client)?.call(answer.cell))
    }
}
