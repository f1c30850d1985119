//! An `mgbd` that wants to go on with what is held.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long the death of an `mgbd` whose lock another one has may take to show.
pub(super) const DEATH_TIMEOUT: Duration = Duration::from_secs(1);

/// An `mgbd` that has come, perhaps before the last one is seen to be gone.
pub(super) struct Candidate {
    pub(super) line: OwnedFd,
    /// Its process, as it says.
    pub(super) pid: u32,
    /// Whether it wants MPS for several users, if it wants one.
    pub(super) wants_mps: Option<bool>,
    /// It is started again if it ends without a word.
    pub(super) restarts: bool,
    /// What hangs up when it is gone.
    pub(super) lifeline: Option<OwnedFd>,
    /// Until when the last one may be seen to be gone.
    pub(super) until: Instant,
}

/// Whether a process is gone that has the other end of its lifeline.
pub(super) fn has_hung_up(lifeline: Option<&OwnedFd>) -> bool {
    lifeline.is_some_and(|lifeline| {
        let mut end = [PollFd::new(lifeline, PollFlags::empty())];
        poll(&mut end, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    })
}
