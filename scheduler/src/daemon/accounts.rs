//! What holds for the users of clients, by the file of quotas, and what is looked up beside the loop for that.

use std::sync::Arc;
use std::time::Duration;

use mgb_probe::Class;
use mgb_probe::view::{OwnerView, QuotasView};

use crate::daemon::lookups::Lookups;
use crate::daemon::quota_file::QuotaFile;
use crate::gpu_set::GpuSet;
use crate::quota::file::{Quotas, QuotasError};
use crate::quota::{Account, MAX_LATENCY_PERCENT};

/// The users' accounts.
pub(crate) struct Accounts {
    quotas: QuotaFile,
    lookups: Lookups,
    /// Whether a user's priority is for the administrator to raise.
    are_several: bool,
}

impl Accounts {
    /// By this file, of one user or of several.
    pub(crate) fn new(quotas: QuotaFile, lookups: Lookups, are_several: bool) -> Accounts {
        Accounts {
            quotas,
            lookups,
            are_several,
        }
    }

    /// What is looked up beside the loop.
    pub(crate) fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// Asks what holds for a user, unless that is known or asked already.
    pub(crate) fn ask(&mut self, uid: u32, now: Duration) {
        self.quotas.ask(uid, &self.lookups, now);
    }

    /// The answer came. False: it is of another file than holds now, or of nobody who was asked about.
    pub(crate) fn found(&mut self, uid: u32, by: &Arc<Quotas>, account: Account) -> bool {
        self.quotas.found(uid, by, account)
    }

    /// Whether an answer about the user may still come in time.
    pub(crate) fn are_asked(&self, uid: u32, now: Duration) -> bool {
        self.quotas.are_asked(uid, now)
    }

    /// Whether it is not known what holds for the user.
    pub(crate) fn is_unknown(&self, uid: u32) -> bool {
        self.quotas.is_unknown(uid)
    }

    /// What holds for a user. Of several users none raises a priority by himself, nor takes time from others.
    pub(crate) fn account(&self, uid: u32) -> Account {
        let mut account = self.quotas.account(uid);
        if self.are_several {
            account.most_priority.get_or_insert(0);
        }
        let latency = if self.are_several { 0 } else { MAX_LATENCY_PERCENT };
        account.latency_percent.get_or_insert(latency);
        account
    }

    /// The class that a user's program has which says that it is of this one.
    pub(crate) fn class(&self, uid: u32, said: Class) -> Class {
        match said {
            Class::Latency if self.latency_percent(uid) == 0 => Class::Batch,
            said => said,
        }
    }

    /// How many percent of a GPU's time a user's latency programs may take from batch programs.
    pub(crate) fn latency_percent(&self, uid: u32) -> u32 {
        self.account(uid).latency_percent.unwrap_or(0)
    }

    /// The GPUs that a user may use; `None`: all.
    pub(crate) fn usable_by(&self, uid: u32) -> Option<u64> {
        let gpus = self.quotas.account(uid).gpus;
        (gpus != GpuSet::ALL).then_some(gpus.bits())
    }

    /// The quotas for the node view.
    pub(crate) fn view(&self, owners: Vec<OwnerView>) -> QuotasView {
        self.quotas.view(owners)
    }

    /// Has the file read again.
    pub(crate) fn read_file(&self) {
        self.quotas.ask_again(&self.lookups);
    }

    /// The file was read again.
    pub(crate) fn was_read(&mut self, read: Result<Quotas, QuotasError>) {
        self.quotas.read_again(read);
    }
}
