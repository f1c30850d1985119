//! What holds for the users of clients: from the file of quotas, as of the start or of the last SIGHUP.

use rustix::net::RecvFlags;

use crate::client::ClientId;
use crate::daemon::server::Server;
use crate::gpu_set::GpuSet;
use crate::quota::Account;

impl Server {
    /// A client's process is this user's.
    pub(crate) fn belongs_to(&mut self, id: ClientId, uid: u32) {
        self.broker.belongs_to(id, uid);
        if !self.broker.knows_account(uid) {
            let account = self.account_of(uid);
            self.broker.has_account(uid, account);
        }
    }

    /// What holds for a user. Of several users none raises a priority by himself.
    fn account_of(&self, uid: u32) -> Account {
        let mut account = self.quotas.account(uid);
        if self.config.users.are_several() {
            account.most_priority.get_or_insert(0);
        }
        account
    }

    /// The GPUs that a user may use; `None`: all.
    pub(crate) fn usable_by(&self, uid: u32) -> Option<u64> {
        let gpus = self.quotas.account(uid).gpus;
        (gpus != GpuSet::ALL).then_some(gpus.bits())
    }

    /// What holds for a user is known now, or is something else.
    pub(crate) fn renew_account(&mut self, uid: u32) {
        if self.broker.knows_account(uid) {
            let account = self.account_of(uid);
            self.broker.has_account(uid, account);
            self.changed = true;
        }
    }

    /// The file says something else: what held for each user holds until it is known what does now.
    pub(crate) fn renew_accounts(&mut self) {
        let now = self.now();
        for uid in self.broker.users() {
            self.quotas.ask(uid, &self.lookups, now);
            if !self.quotas.is_unknown(uid) {
                self.renew_account(uid);
            }
        }
        self.changed = true;
    }

    /// Does what SIGHUP asks for.
    pub(crate) fn reload(&mut self) {
        // Predecessor in the socket they would fill it, and later signals would say nothing.
        if let Some(told) = &self.config.reload {
            let mut bytes = [0; 64];
            while rustix::net::recv(told, &mut bytes, RecvFlags::DONTWAIT).is_ok_and(|(count, _)| count > 0) {
            }
        }
        self.quotas.ask_again(&self.lookups);
    }
}
