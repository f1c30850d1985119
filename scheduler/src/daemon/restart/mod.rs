//! What outlives this `mgbd`: the holder, the journal, and what its predecessor left.

mod backlog;
pub(crate) mod book;
#[allow(
    clippy::disallowed_methods,
    reason = "its own folder and program, as it starts a holder"
)]
pub(crate) mod holder;
pub(crate) mod open_holder;
pub(crate) mod predecessor;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::Broker;
use crate::client::ClientId;
use crate::daemon::client::Client;
use crate::daemon::client::clients::Clients;
use crate::daemon::history_file::HistoryFile;
use crate::journal::{Image, JournalLine, KnownClient};
use book::Book;
use holder::{HolderProcess, MpsState};

/// The holder, and the journal that it has.
pub(crate) struct Restart {
    /// `None` where there is nothing that needs one.
    holder: Option<HolderProcess>,
    /// The journal; `None` where nobody would have it after this process.
    book: Option<Book>,
    /// Clients that came and went and were not written yet.
    came: Vec<KnownClient>,
    gone: Vec<ClientId>,
    /// What programs took.
    history: HistoryFile,
}

impl Restart {
    /// With this holder and history, and no journal yet.
    pub(crate) fn new(holder: Option<HolderProcess>, history: HistoryFile) -> Restart {
        Restart {
            holder,
            history,
            book: None,
            came: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// Begins a journal that says this, if there is a holder with whom it outlives this process.
    pub(crate) fn begin(&mut self, image: Image) {
        let Some(holder) = &self.holder else { return };
        match Book::new(image) {
            Ok(book) => {
                holder.journal(&book);
                self.book = Some(book);
            }
            Err(error) => self.lose_book(&error),
        }
    }

    /// Whether there is a journal.
    pub(crate) fn has_journal(&self) -> bool {
        self.book.is_some()
    }

    /// A client has gone.
    pub(crate) fn gone(&mut self, id: ClientId) {
        self.gone.push(id);
    }

    /// Writes a step to the journal, with the clients that came and went before it. Where nothing has changed, who
    /// asks again gets the same answer.
    pub(crate) fn write(&mut self, step: JournalLine) {
        let came = std::mem::take(&mut self.came);
        let gone = std::mem::take(&mut self.gone);
        let is_nothing = step.ledger.is_empty()
            && step.standing.is_none()
            && step.waits.is_empty()
            && came.is_empty()
            && gone.is_empty();
        let Some(book) = self.book.as_mut().filter(|_| !is_nothing) else {
            return;
        };
        match book.add(JournalLine { came, gone, ..step }) {
            Ok(false) => {}
            Ok(true) => {
                if let Some(holder) = &self.holder {
                    holder.journal(&*book);
                }
            }
            Err(error) => self.lose_book(&error),
        }
    }

    fn lose_book(&mut self, error: &io::Error) {
        tracing::error!(%error, "no journal can be kept: if this mgbd is killed, programs that wait fail");
        self.book = None;
        if let Some(holder) = &self.holder {
            holder.no_journal();
        }
    }

    /// Has a process held that is about to become a client. False: nobody holds it.
    pub(crate) fn comes(&mut self, known: KnownClient, files: &[&OwnedFd]) -> bool {
        let Some(holder) = &self.holder else {
            return false;
        };
        holder.comes(known.id, known.pid, files);
        self.came.push(known);
        true
    }

    /// Something was granted to the client, or it has files to be kept: that outlives even an `mgbd` which is
    /// told to stop.
    pub(crate) fn granted(&self, client: &mut Client) {
        if let Some(holder) = &self.holder
            && !client.granted
        {
            client.granted = true;
            holder.granted(client.id);
        }
    }

    /// The client's files are these now.
    pub(crate) fn hold_files(&self, client: &mut Client) {
        self.granted(client);
        if let Some(holder) = &self.holder {
            holder.keep(client.id, &client.kept);
        }
    }

    /// Of a client that is gone, or has become another program, nothing is at work any more.
    pub(crate) fn let_go(&self, id: ClientId, clients: &mut Clients) {
        if let Some(client) = clients.get_mut(&id) {
            self.hold_files(client);
        } else if let Some(holder) = &self.holder {
            holder.release(id);
        }
    }

    /// A client that was left is not gone on with.
    pub(crate) fn forgo(&self, id: ClientId) {
        if let Some(holder) = &self.holder {
            holder.forgo(id);
        }
    }

    /// Takes what the holder says: what it has of MPS now.
    pub(crate) fn hear(&mut self) -> Option<MpsState> {
        self.holder.as_mut().and_then(HolderProcess::hear)
    }

    /// How long until the holder is told something or started, or the history is written.
    pub(crate) fn due_in(&self, broker: &Broker, now: Duration) -> Option<Duration> {
        let holder = self.holder.as_ref();
        let due = holder.and_then(HolderProcess::due);
        let tells = holder.and_then(HolderProcess::tells_in);
        [due, tells, self.history.interval(broker, now)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Writes the history, if it is time.
    pub(crate) fn save_history(&mut self, broker: &mut Broker, now: Duration) {
        self.history.check(broker, now);
    }

    /// Starts a holder in the place of one that is gone, if it is time, and gives it what that had. With one, the
    /// line to it.
    pub(crate) fn start_again(&mut self, listener: &OwnedFd, clients: &Clients) -> Option<&OwnedFd> {
        let holder = self.holder.as_mut()?;
        holder.tell_more();
        let is_due = holder.due().is_some_and(|wait| wait.is_zero());
        if !is_due || !holder.start_again() {
            return None;
        }
        holder.listener(listener);
        if let Some(book) = &self.book {
            holder.journal(book);
        }
        for client in clients.values().filter(|client| client.is_held) {
            holder.client(client);
            if client.granted {
                holder.granted(client.id);
            }
            holder.keep(client.id, &client.kept);
        }
        holder.line()
    }

    /// Writes the history for the last time.
    pub(crate) fn finish_history(self, broker: &mut Broker) -> Ending {
        self.history.finish(broker);
        Ending(self.holder)
    }
}

/// The holder, as this `mgbd` ends.
pub(crate) struct Ending(Option<HolderProcess>);

impl Ending {
    /// Ends the holder, unless programs are left that need it.
    pub(crate) fn end(self) {
        if let Some(holder) = self.0 {
            holder.end();
        }
    }
}
