//! Files that clients have kept: see [`crate::daemon::client::client_fds`]. Where a user's clients send too many lists of them,
//! these wait in their sockets ([`crate::daemon::limits::FILE_LISTS`]).

use std::collections::BTreeMap;

use mgb_probe::wire::{KEEP, MOST_KEPT};

use crate::client::ClientId;
use crate::daemon::accept::greet::Message;
use crate::daemon::deferred_close;
use crate::daemon::limits::LIST_INTERVAL;
use crate::daemon::server::Server;
use crate::daemon::source::EventSource;

impl Server {
    /// A client wants files to be kept. That it cannot have them kept is no reason to cut it off: a file that
    /// it found to be the driver's may be another's by the time it is sent.
    pub(crate) fn files(&mut self, id: ClientId, mut message: Message) {
        if message.bytes() != KEEP {
            return self.cut_off(id, &"it sent a message on its socket that is none of a client's");
        }
        self.pace_lists(id);
        let files = &message.descriptors;
        let why = if message.cut || files.len() > MOST_KEPT {
            "it sent more files than a client may"
        } else if !self.clients.fds().takes(files) {
            "it sent files that are none of the driver's"
        } else if !self.makes_room_to_keep(id, files.len()) {
            "too many files are open; raise mgbd's limit (ulimit -n)"
        } else {
            if let Some(client) = self.clients.get_mut(&id) {
                let files = std::mem::take(&mut message.descriptors);
                let old = std::mem::replace(&mut client.kept, files);
                deferred_close::close_drivers(client.uid, old);
                self.restart.hold_files(client);
            }
            return;
        };
        self.warn_of_unkept(id, why);
    }

    fn warn_of_unkept(&mut self, client: ClientId, why: &str) {
        let now = self.now();
        if let Some(left_out) = self.clients.offence_line(now) {
            tracing::warn!(
                client,
                why,
                left_out,
                "if it is killed at work, its neighbours fail"
            );
        }
    }

    /// Sees to room for so many files of a client: where all that may be kept are, those of clients go whose
    /// user has more than this one. False: there is none.
    fn makes_room_to_keep(&mut self, id: ClientId, wanted: usize) -> bool {
        let Some(uid) = self.clients.get(&id).map(|client| client.uid) else {
            return false;
        };
        let others = self.clients.values().filter(|client| client.id != id);
        let keeps = Keeps {
            living: others
                .map(|client| (client.id, client.uid, client.kept.len()))
                .collect(),
            gone: self.clients.fds().by_user().collect(),
            most: self.clients.max_fds(),
            are_several: self.config.users.are_several(),
        };
        let Some(losers) = keeps.room_for(uid, wanted) else {
            return false;
        };
        for id in losers {
            if let Some(client) = self.clients.get_mut(&id) {
                deferred_close::close_drivers(client.uid, std::mem::take(&mut client.kept));
                self.restart.hold_files(client);
            }
            self.warn_of_unkept(id, "its user has most files open, and others have some as well");
        }
        true
    }

    /// A list came. Where its user's come too often, the next ones stay in the client's socket for a while.
    fn pace_lists(&mut self, id: ClientId) {
        if !self.clients.may_list_files(id, self.now()) {
            self.pause(EventSource::Socket(id), LIST_INTERVAL);
        }
    }
}

/// Whose files are kept.
struct Keeps {
    /// Of clients: who, whose, and how many.
    living: Vec<(ClientId, u32, usize)>,
    /// Of processes that ended at work. Theirs stay: neighbours would fail at once.
    gone: Vec<(u32, usize)>,
    /// Of all together.
    most: usize,
    are_several: bool,
}

impl Keeps {
    /// The clients whose files go, so that a user can have so many more: those that came last, of who has
    /// most. `None`: there is no room for them. Of several users none has more than half of all.
    fn room_for(&self, uid: u32, wanted: usize) -> Option<Vec<ClientId>> {
        let mut of_users: BTreeMap<u32, usize> = BTreeMap::new();
        let living = self.living.iter().map(|(_, uid, files)| (*uid, *files));
        for (uid, files) in living.chain(self.gone.iter().copied()) {
            *of_users.entry(uid).or_default() += files;
        }
        let own = of_users.get(&uid).copied().unwrap_or(0) + wanted;
        if self.are_several && own > self.most / 2 {
            return None;
        }
        let mut all = of_users.values().sum::<usize>() + wanted;
        let mut living: Vec<_> = self.living.iter().filter(|(_, _, files)| *files > 0).collect();
        living.sort_by_key(|(id, ..)| *id);
        let mut losers = Vec::new();
        while all > self.most {
            let has = |(_, of, _): &&(ClientId, u32, usize)| of_users.get(of).copied().unwrap_or(0);
            // Of those who have as much, the last one.
            let at = (0..living.len()).max_by_key(|at| has(&living[*at]))?;
            let (loser, of, files) = *living.remove(at);
            let theirs = of_users.get_mut(&of).filter(|theirs| **theirs > own)?;
            *theirs -= files;
            all -= files;
            losers.push(loser);
        }
        Some(losers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(living: &[(ClientId, u32, usize)], gone: &[(u32, usize)], are_several: bool) -> Keeps {
        Keeps {
            living: living.to_vec(),
            gone: gone.to_vec(),
            most: 100,
            are_several,
        }
    }

    #[test]
    fn who_has_most_files_loses_first() {
        // Three users fill it together.
        let full = keeps(
            &[(1, 7, 20), (2, 7, 20), (3, 8, 20), (4, 9, 30)],
            &[(8, 10)],
            true,
        );
        assert_eq!(full.room_for(10, 10), Some(vec![2]));
        assert_eq!(full.room_for(10, 25), Some(vec![2, 4]));
        assert_eq!(full.room_for(8, 5), Some(vec![2]));
        // Nobody has more than half of all, nor takes anything from those who have less.
        assert_eq!(full.room_for(10, 51), None);
        assert_eq!(full.room_for(7, 1), None);
        assert_eq!(
            keeps(&[(1, 7, 50)], &[(8, 45)], true).room_for(9, 10),
            Some(vec![1])
        );
        // Work under way is not failed for it.
        assert_eq!(
            keeps(&[(1, 7, 5)], &[(8, 50), (9, 45)], true).room_for(10, 5),
            None
        );
    }

    #[test]
    fn one_user_has_all_of_them() {
        let own = keeps(&[(1, 7, 60)], &[(7, 20)], false);
        assert_eq!(own.room_for(7, 20), Some(Vec::new()));
        assert_eq!(own.room_for(7, 21), None);
    }
}
