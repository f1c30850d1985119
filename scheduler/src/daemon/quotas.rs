//! What holds for the users of clients: from the file of quotas, as of the start or of the last SIGHUP.

use rustix::net::RecvFlags;

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
        // Left in the socket they would fill it, and later signals would say nothing.
        if let Some(told) = &self.config.reload {
            let mut bytes = [0; 64];
            while rustix::net::recv(told, &mut bytes, RecvFlags::DONTWAIT).is_ok_and(|(count, _)| count > 0) {
            }
        }
        self.quotas.read_again();
        for uid in self.broker.users() {
            self.broker.has_account(uid, self.quotas.account(uid));
        }
        self.changed = true;
    }
}
