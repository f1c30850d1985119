//! What the loop takes down in the journal, and when: what a step changed before anybody is told of it, so
//! that whatever a client has seen is known to the next `mgbd`.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::broker::Answer;
use crate::client::ClientId;
use crate::daemon::restart::book::{Book, Pending};
use crate::daemon::server::Server;
use crate::journal::{Call, Image, Known, Record};
use crate::note::Note;

impl Server {
    /// Begins a journal that says this, if there is a holder with whom it outlives this process.
    pub(crate) fn begin_book(&mut self, image: Image) {
        let Some(holder) = &self.holder else { return };
        match Book::new(image) {
            Ok(book) => {
                holder.journal(&book);
                self.book = Some(book);
            }
            Err(error) => self.lose_book(&error),
        }
    }

    /// Drops the views of users who are gone, if it is time.
    pub(crate) fn drop_views(&mut self, now: Duration) {
        if self.boards.drop_in(now).is_some_and(|wait| wait.is_zero()) {
            self.note_views();
        }
    }

    /// Notes which views there are, for who clears away after this process, and forgets those of users who
    /// are gone.
    pub(crate) fn note_views(&mut self) {
        let guests = self.guests.values();
        let here: BTreeSet<(u32, u32)> = self
            .clients
            .values()
            .map(|client| (client.uid, client.reader))
            .chain(guests.map(|connection| (connection.whose.account, connection.whose.uid)))
            .collect();
        self.boards.keep(|reader| here.contains(&reader));
        let note = Note {
            pid: std::process::id(),
            views: self.boards.names(),
            socket: self.listener.file(),
        };
        if let Err(error) = self.listener.note(&note) {
            tracing::warn!(%error, "failed to write the lock file");
        }
    }

    fn lose_book(&mut self, error: &std::io::Error) {
        tracing::error!(%error, "no journal can be kept: if this mgbd is killed, programs that wait fail");
        self.book = None;
        if let Some(holder) = &self.holder {
            holder.no_journal();
        }
    }

    pub(crate) fn note_came(&mut self, known: Known) {
        self.pending.came.push(known);
    }

    pub(crate) fn note_gone(&mut self, id: ClientId) {
        self.pending.gone.push(id);
    }

    /// Takes down what has changed, together with the answers that follow from it: their replies are in their
    /// cells. Where nothing has changed, who asks again gets the same answer.
    pub(crate) fn note(&mut self, answers: &[Answer]) {
        let (ledger, standing) = self.broker.take_changes();
        let Pending { came, gone } = &mut self.pending;
        let is_nothing = ledger.is_empty() && standing.is_none() && came.is_empty() && gone.is_empty();
        if is_nothing || self.book.is_none() {
            came.clear();
            gone.clear();
            return;
        }
        let record = Record {
            came: std::mem::take(came),
            gone: std::mem::take(gone),
            ledger,
            standing,
            answered: answers.iter().filter_map(|answer| self.call(answer)).collect(),
            ..Record::default()
        };
        self.write_journal(record);
    }

    /// Takes down which requests wait, so that each keeps its place.
    pub(crate) fn note_waits(&mut self, now: Duration) {
        if self.book.is_none() {
            return;
        }
        let clients = self.clients.values_mut();
        let waits: Vec<(Call, Duration)> = clients
            .flat_map(|client| client.new_waits())
            .map(|call| (call, now))
            .collect();
        if !waits.is_empty() {
            self.write_journal(Record {
                waits,
                ..Record::default()
            });
        }
    }

    fn call(&self, answer: &Answer) -> Option<Call> {
        Some(self.clients.get(&answer.client)?.call(answer.cell))
    }

    fn write_journal(&mut self, record: Record) {
        let Some(book) = &mut self.book else { return };
        match book.add(record) {
            Ok(false) => {}
            Ok(true) => {
                if let Some(holder) = &self.holder {
                    holder.journal(&*book);
                }
            }
            Err(error) => self.lose_book(&error),
        }
    }
}
