//! Ending a client's process that has what it may not, where the administrator wants that: by SIGTERM, and
//! after a while by SIGKILL. Before it, the program says why, where MGB's runtime or front is in it.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::Signal;

use crate::client::ClientId;

/// How long a process may take to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// What was done about a process so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// The log told of it.
    Told,
    /// It was asked to say why it ends.
    Explained,
    /// It was signalled, last then.
    Signalled(Duration),
}

/// What was done about which processes.
#[derive(Debug, Default)]
pub(crate) struct Endings(BTreeMap<ClientId, Done>);

impl Endings {
    /// Forgets the processes but these.
    pub(crate) fn retain(&mut self, is_here: impl Fn(ClientId) -> bool) {
        self.0.retain(|id, _| is_here(*id));
    }

    /// What is done next about a process, which counts as done from now on, and whether it is the first step;
    /// `None`: nothing, for now. See [`next`].
    pub(crate) fn step(
        &mut self,
        id: ClientId,
        ends: bool,
        is_safe: bool,
        listens: bool,
        now: Duration,
    ) -> Option<(EndingStep, bool)> {
        let done = self.0.get(&id).copied();
        let step = next(done, ends, is_safe, listens, now)?;
        self.0.insert(id, Done::by(step, now));
        Some((step, done.is_none()))
    }
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndingStep {
    /// The log tells of it.
    Tell(&'static str),
    /// The program is asked to say why.
    Explain,
    /// It is signalled, and the log tells of that.
    Signal(Signal, &'static str),
}

/// What is done next about a process; `None`: nothing, for now. `ends`: the administrator wants it to end.
/// `is_safe`: that harms nobody else. `listens`: it can say why.
fn next(done: Option<Done>, ends: bool, is_safe: bool, listens: bool, now: Duration) -> Option<EndingStep> {
    let is_to_end = ends && is_safe;
    match done {
        None | Some(Done::Told) if is_to_end && listens => Some(EndingStep::Explain),
        None | Some(Done::Told | Done::Explained) if is_to_end => {
            Some(EndingStep::Signal(Signal::TERM, "it is told to end"))
        }
        None if ends => Some(EndingStep::Tell(
            "it goes on: its end at work would fail its neighbours under MPS",
        )),
        None => Some(EndingStep::Tell("it goes on")),
        Some(Done::Signalled(since)) if is_to_end && now.saturating_sub(since) >= END_TIMEOUT => {
            Some(EndingStep::Signal(Signal::KILL, "it is killed"))
        }
        Some(_) => None,
    }
}

impl Done {
    /// What was done about a process once this step is taken.
    fn by(step: EndingStep, now: Duration) -> Done {
        match step {
            EndingStep::Tell(_) => Done::Told,
            EndingStep::Explain => Done::Explained,
            EndingStep::Signal(..) => Done::Signalled(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    /// The signal that comes next, where any step does.
    fn signal(done: Option<Done>, ends: bool, is_safe: bool) -> Option<Option<Signal>> {
        Some(match next(done, ends, is_safe, false, NOW)? {
            EndingStep::Signal(signal, _) => Some(signal),
            EndingStep::Tell(_) | EndingStep::Explain => None,
        })
    }

    #[test]
    fn a_process_is_asked_to_end_before_it_is_killed_and_told_of_once() {
        let before = |seconds| Some(Done::Signalled(NOW - Duration::from_secs(seconds)));
        assert_eq!(signal(None, true, true), Some(Some(Signal::TERM)));
        assert_eq!(signal(before(4), true, true), None);
        assert_eq!(signal(before(5), true, true), Some(Some(Signal::KILL)));
        assert_eq!(signal(None, false, true), Some(None));
        assert_eq!(signal(None, true, false), Some(None));
        assert_eq!(signal(Some(Done::Told), false, true), None);
        assert_eq!(signal(Some(Done::Told), true, false), None);
        // It may end from now on: however long ago that was told.
        assert_eq!(signal(Some(Done::Told), true, true), Some(Some(Signal::TERM)));
        // One that can says why before it ends.
        for done in [None, Some(Done::Told)] {
            assert_eq!(next(done, true, true, true, NOW), Some(EndingStep::Explain));
        }
        assert_eq!(
            signal(Some(Done::Explained), true, true),
            Some(Some(Signal::TERM))
        );
        assert_eq!(signal(Some(Done::Explained), false, true), None);
        // It may go on, since the file says so now or its end would harm others.
        assert_eq!(signal(before(9), false, true), None);
        assert_eq!(signal(before(9), true, false), None);
    }
}
