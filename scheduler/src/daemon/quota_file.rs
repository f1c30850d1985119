//! The file of quotas.

use std::path::PathBuf;

use mgb_probe::view::{OwnerView, QuotasView};

use crate::quota::Account;
use crate::quota::file::{Quotas, QuotasError};

/// What the file says, as of when it was read last without a mistake.
#[derive(Debug, Default)]
pub(super) struct QuotaFile {
    path: Option<PathBuf>,
    quotas: Quotas,
    mistake: Option<String>,
}

impl QuotaFile {
    /// Reads it; without one nobody is limited.
    pub(super) fn read(path: Option<PathBuf>) -> Result<QuotaFile, QuotasError> {
        let quotas = path.as_deref().map(Quotas::read).transpose()?.unwrap_or_default();
        warn_of(&quotas);
        Ok(QuotaFile {
            path,
            quotas,
            mistake: None,
        })
    }

    /// What holds for a user.
    pub(super) fn account(&self, uid: u32) -> Account {
        self.quotas.account(uid)
    }

    /// For people.
    pub(super) fn view(&self, owners: Vec<OwnerView>) -> QuotasView {
        QuotasView {
            file: self.path.as_ref().map(|path| path.display().to_string()),
            mistake: self.mistake.clone(),
            owners,
        }
    }

    /// Reads it again. A file with a mistake changes nothing.
    pub(super) fn read_again(&mut self) {
        let Some(path) = &self.path else { return };
        match Quotas::read(path) {
            Ok(quotas) => {
                warn_of(&quotas);
                tracing::info!(file = %path.display(), "read the quotas again");
                self.quotas = quotas;
                self.mistake = None;
            }
            Err(error) => {
                tracing::error!(%error, "the quotas stay as they were");
                self.mistake = Some(error.to_string());
            }
        }
    }
}

fn warn_of(quotas: &Quotas) {
    for unknown in &quotas.unknown {
        tracing::warn!("the quotas name {unknown}, which this system does not know");
    }
}
