//! What holds for the users of clients: from the file of quotas, as of the start or of the last SIGHUP.

use crate::client::ClientId;
use crate::daemon::server::Server;

impl Server {
    /// A client's process is this user's.
    pub(crate) fn belongs_to(&mut self, id: ClientId, uid: u32) {
        self.broker.belongs_to(id, uid);
        if !self.broker.knows_account(uid) {
            let account = self.accounts.account(uid);
            self.broker.has_account(uid, account);
        }
    }

    /// What holds for a user is known now, or is something else.
    pub(crate) fn renew_account(&mut self, uid: u32) {
        if self.broker.knows_account(uid) {
            let account = self.accounts.account(uid);
            self.broker.has_account(uid, account);
            self.view.changed();
        }
    }

    /// The file says something else: what held for each user holds until it is known what does now.
    pub(crate) fn renew_accounts(&mut self) {
        let now = self.now();
        for uid in self.broker.users() {
            self.accounts.ask(uid, now);
            if !self.accounts.is_unknown(uid) {
                self.renew_account(uid);
            }
        }
        self.view.changed();
    }
}
