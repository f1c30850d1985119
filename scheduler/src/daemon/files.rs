//! Files that clients have kept: see [`super::keep`]. Where a user's clients send too many lists of them,
//! these wait in their sockets ([`super::lists`]).

use mgb_probe::wire::{KEEP, MOST_KEPT};

use super::closer;
use super::greet::Message;
use super::lists::EVERY;
use super::server::Server;
use super::source::Source;
use crate::client::ClientId;

impl Server {
    /// A client wants files to be kept. That it cannot have them kept is no reason to cut it off: a file that
    /// it found to be the driver's may be another's by the time it is sent.
    pub(super) fn files(&mut self, id: ClientId, mut message: Message) {
        if message.bytes() != KEEP {
            return self.cut_off(id, &"it sent a message on its socket that is none of a client's");
        }
        self.pace_lists(id);
        let files = &message.descriptors;
        let others = self.clients.values().filter(|client| client.id != id);
        let kept = others.map(|client| client.kept.len()).sum::<usize>() + self.keeper.files();
        let why = if message.cut || files.len() > MOST_KEPT || kept + files.len() > self.most_kept {
            "too many files are open; raise mgbd's limit (ulimit -n)"
        } else if !self.keeper.takes(files) {
            "it sent files that are none of the driver's"
        } else {
            if let Some(client) = self.clients.get_mut(&id) {
                let files = std::mem::take(&mut message.descriptors);
                let old = std::mem::replace(&mut client.kept, files);
                closer::close_drivers(client.uid, old);
            }
            self.hold_files(id);
            return;
        };
        if let Some(left_out) = self.ration.take(self.now()) {
            tracing::warn!(
                client = id,
                kept,
                why,
                left_out,
                "if it is killed at work, its neighbours fail"
            );
        }
    }

    /// A list came. Where its user's come too often, the next ones stay in the client's socket for a while.
    fn pace_lists(&mut self, id: ClientId) {
        let now = self.now();
        if let Some(uid) = self.clients.get(&id).map(|client| client.uid)
            && !self.lists.take(uid, now)
        {
            self.pause(Source::Socket(id), EVERY);
        }
    }
}
