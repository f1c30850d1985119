//! All processes of which something is held.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;

use super::held::HeldProcess;

/// The processes, each named by an `mgbd` (counted from the holder's start) and by that one's number for it.
#[derive(Default)]
pub(super) struct HeldProcesses(Vec<HeldProcess>);

impl HeldProcesses {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// A client came, with the files of [`ToHolder::Client`](mgb_interface::holder::wire::ToHolder::Client).
    pub(super) fn add(&mut self, mgbd: u64, id: u64, pid: u32, files: Vec<OwnedFd>) {
        self.0.extend(HeldProcess::new(mgbd, id, pid, files));
    }

    /// The client was granted something.
    pub(super) fn granted(&mut self, mgbd: u64, id: u64) {
        if let Some(at) = self.position(mgbd, id) {
            self.0[at].granted = true;
        }
    }

    /// The driver's files of the client, which replace those before.
    pub(super) fn keep(&mut self, mgbd: u64, id: u64, files: Vec<OwnedFd>) {
        if let Some(at) = self.position(mgbd, id) {
            self.0[at].keep(files);
        }
    }

    /// No `mgbd` goes on with the client, which is held to its end.
    pub(super) fn forgo(&mut self, mgbd: u64, id: u64) {
        if let Some(at) = self.position(mgbd, id) {
            self.0[at].mgbd = 0;
            self.0[at].hang_up();
        }
    }

    /// Nothing of the client is held any more.
    pub(super) fn release(&mut self, mgbd: u64, id: u64) {
        if let Some(at) = self.position(mgbd, id) {
            self.0.swap_remove(at);
        }
    }

    fn position(&self, mgbd: u64, id: u64) -> Option<usize> {
        self.0.iter().position(|held| (held.mgbd, held.id) == (mgbd, id))
    }

    /// What becomes readable when a process ends, of those that have not, each with its place here.
    pub(super) fn processes(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let all = self.0.iter().enumerate();
        all.filter_map(|(at, held)| Some((at, held.process()?)))
    }

    /// The process at this place has ended.
    pub(super) fn ended(&mut self, at: usize) {
        self.0[at].ended();
    }

    /// When processes that ended at work need not be held any more.
    pub(super) fn due(&self) -> impl Iterator<Item = Instant> {
        self.0.iter().filter_map(HeldProcess::due)
    }

    /// Whether a client waits for an `mgbd` to come, perhaps without knowing it.
    pub(super) fn has_waiting(&self) -> bool {
        self.0.iter().any(HeldProcess::waits)
    }

    /// Gives an `mgbd`, which counts as this one, the clients that wait for it, until then.
    pub(super) fn hand_over(&mut self, mgbd: &OwnedFd, number: u64, until: Instant) -> Result<(), Errno> {
        for held in self.0.iter_mut().filter(|held| held.waits()) {
            held.hand_over(mgbd, until)?;
            held.mgbd = number;
        }
        Ok(())
    }

    /// No `mgbd` goes on with any of them: they see that from now on.
    pub(super) fn hang_up(&mut self) {
        for held in &mut self.0 {
            held.hang_up();
        }
    }

    /// Lets go of all that were granted nothing.
    pub(super) fn retain_granted(&mut self) {
        self.0.retain(|held| held.granted);
    }

    /// Lets go of those that the `mgbd` of this number did not name, and that need not be held by themselves.
    pub(super) fn retain_needed(&mut self, mgbd: Option<u64>, now: Instant) {
        self.0
            .retain_mut(|held| Some(held.mgbd) == mgbd || held.is_needed(now));
    }

    /// Their process ids.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.0.iter().map(|held| held.pid).collect()
    }
}
