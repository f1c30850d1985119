//! What an `mgbd` leaves to the next one beside its clients.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use mgb_interface::holder::packet::send_patiently;
use mgb_interface::holder::wire::FromHolder;
use rustix::io::Errno;

/// What an `mgbd` leaves to the next one.
#[derive(Default)]
pub(super) struct Handover {
    /// Where clients connect.
    pub(super) listener: Option<OwnedFd>,
    /// The journal that it wrote.
    pub(super) journal: Option<OwnedFd>,
}

impl Handover {
    /// Gives it to an `mgbd`, until then.
    pub(super) fn hand_over(&self, mgbd: &OwnedFd, until: Instant) -> Result<(), Errno> {
        if let Some(listener) = &self.listener {
            send_patiently(mgbd, &FromHolder::Listener, &[listener.as_fd()], until)?;
        }
        if let Some(journal) = &self.journal {
            send_patiently(mgbd, &FromHolder::Journal, &[journal.as_fd()], until)?;
        }
        Ok(())
    }
}
