//! What holds for the users of clients: from the file of quotas, as of the start or of the last SIGHUP.

use super::server::Server;
use crate::client::ClientId;

impl Server {
    /// A client's process is this user's.
    pub(super) fn belongs_to(&mut self, id: ClientId, uid: u32) {
        self.broker.belongs_to(id, uid);
        if !self.broker.knows_account(uid) {
            self.broker.has_account(uid, self.quotas.account(uid));
        }
    }

    /// Does what SIGHUP asks for.
    pub(super) fn reload(&mut self) {
        self.quotas.read_again();
        for uid in self.broker.users() {
            self.broker.has_account(uid, self.quotas.account(uid));
        }
        self.changed = true;
    }
}
