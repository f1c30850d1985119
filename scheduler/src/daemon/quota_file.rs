//! The file of quotas, and what it says of each user. Names are looked up beside the loop: until the name
//! service answers, a user has what the file says by number and for everybody.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgb_probe::Gpu;
use mgb_probe::view::{OwnerView, QuotasView};

use crate::daemon::lookups::{LOOKUP_TIMEOUT, LookupAnswer, Lookups};
use crate::quota::Account;
use crate::quota::file::{Quotas, QuotasError};

/// How long the start waits for the names in the file.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// Users that are remembered.
const MAX_USERS: usize = 1 << 12;

/// What the file says, as of when it was read last without a mistake.
#[derive(Debug, Default)]
pub(crate) struct QuotaFile {
    path: Option<PathBuf>,
    quotas: Arc<Quotas>,
    /// The GPUs that are shared.
    gpus: Vec<Gpu>,
    mistake: Option<String>,
    users: BTreeMap<u32, UserAccount>,
}

/// What is known of a user's account.
#[derive(Debug)]
enum UserAccount {
    /// It was asked for then.
    Asked(Duration),
    Account(Account),
}

impl QuotaFile {
    /// Reads it; without one nobody is limited.
    pub(crate) fn read(
        path: Option<PathBuf>,
        gpus: &[Gpu],
        lookups: &Lookups,
    ) -> Result<QuotaFile, QuotasError> {
        let Some(file) = &path else {
            return Ok(QuotaFile::default());
        };
        // Mistakes in it are known without names.
        let mut quotas = Quotas::read_unnamed(file)?;
        if !quotas.unknown.is_empty() {
            match named(file.clone(), lookups) {
                Some(named) => quotas = named?,
                None => tracing::error!(
                    file = %file.display(),
                    "the name service does not answer: whom the quotas name has those of everybody until it does"
                ),
            }
        }
        find_gpus(&mut quotas, gpus);
        Ok(QuotaFile {
            path,
            quotas: Arc::new(quotas),
            gpus: gpus.to_vec(),
            ..QuotaFile::default()
        })
    }

    /// Asks what holds for a user, unless that is known or asked already.
    pub(crate) fn ask(&mut self, uid: u32, lookups: &Lookups, now: Duration) {
        if self.users.len() > MAX_USERS {
            self.users.clear();
        }
        if self.users.contains_key(&uid) {
            return;
        }
        if !self.quotas.name_groups() {
            let account = self.quotas.account_without_groups(uid);
            self.users.insert(uid, UserAccount::Account(account));
        } else if lookups.account(uid, self.quotas.clone()) {
            self.users.insert(uid, UserAccount::Asked(now));
        }
    }

    /// The answer came. False: it is of another file than holds now, or of nobody who was asked about.
    pub(crate) fn found(&mut self, uid: u32, by: &Arc<Quotas>, account: Account) -> bool {
        let is_right = Arc::ptr_eq(by, &self.quotas) && self.users.contains_key(&uid);
        if is_right {
            self.users.insert(uid, UserAccount::Account(account));
        }
        is_right
    }

    /// Whether an answer about the user may still come in time.
    pub(crate) fn are_asked(&self, uid: u32, now: Duration) -> bool {
        let is_young = |asked: Duration| now.saturating_sub(asked) < LOOKUP_TIMEOUT;
        matches!(self.users.get(&uid), Some(UserAccount::Asked(asked)) if is_young(*asked))
    }

    /// Whether it is not known what holds for the user.
    pub(crate) fn is_unknown(&self, uid: u32) -> bool {
        !matches!(self.users.get(&uid), Some(UserAccount::Account(_)))
    }

    /// What holds for a user, as far as that is known.
    pub(crate) fn account(&self, uid: u32) -> Account {
        match self.users.get(&uid) {
            Some(UserAccount::Account(account)) => account.clone(),
            _ => self.quotas.account_without_groups(uid),
        }
    }

    /// The quotas for the node view.
    pub(crate) fn view(&self, owners: Vec<OwnerView>) -> QuotasView {
        QuotasView {
            file: self.path.as_ref().map(|path| path.display().to_string()),
            mistake: self.mistake.clone(),
            owners,
            kept: self.quotas.kept_views(),
        }
    }

    /// Has it read again.
    pub(crate) fn ask_again(&self, lookups: &Lookups) {
        if let Some(path) = &self.path
            && !lookups.quotas(path.clone())
        {
            tracing::error!("the quotas stay as they were: the name service does not answer");
        }
    }

    /// It was read again. A file with a mistake changes nothing.
    pub(crate) fn read_again(&mut self, read: Result<Quotas, QuotasError>) {
        match read {
            Ok(mut quotas) => {
                find_gpus(&mut quotas, &self.gpus);
                tracing::info!(order = "reload", outcome = "done", "audit");
                tracing::info!(file = ?self.path, "read the quotas again");
                self.quotas = Arc::new(quotas);
                self.users.clear();
                self.mistake = None;
            }
            Err(error) => {
                tracing::info!(order = "reload", outcome = %error, "audit");
                tracing::error!(%error, "the quotas stay as they were");
                self.mistake = Some(error.to_string());
            }
        }
    }
}

/// What the file says with the names in it looked up; `None`: that takes too long, and comes later.
fn named(file: PathBuf, lookups: &Lookups) -> Option<Result<Quotas, QuotasError>> {
    lookups.quotas(file);
    let until = Instant::now() + START_TIMEOUT;
    // Nothing else is asked yet.
    lookups
        .wait_until(until)
        .into_iter()
        .find_map(|found| match found {
            LookupAnswer::Quotas(read) => Some(read),
            _ => None,
        })
}

/// Finds the GPUs that they name, and warns of all that is unknown.
fn find_gpus(quotas: &mut Quotas, gpus: &[Gpu]) {
    let unknown = quotas.find_gpus(gpus);
    for unknown in quotas.unknown.iter().chain(&unknown) {
        tracing::warn!("the quotas name {unknown}, which this system does not know");
    }
    if quotas.spares_all() {
        tracing::warn!("end-late ends nobody as long as the quotas name users or groups that are unknown");
    }
}
