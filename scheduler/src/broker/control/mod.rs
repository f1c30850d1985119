//! What people want of GPUs and processes, and what is known of the GPUs' health: drained GPUs take no process, and
//! suspended processes have nothing on any GPU.
//!
//! Both are states, not events: they hold until a person ends them. A suspended process is forgotten with its
//! end, a job with that of its last process. GPUs that fail by the driver's word are drained, until a person ends
//! that.

mod health;
mod suspensions;

use std::time::Duration;

use super::clients::{ClientState, Clients, Subject};
use crate::gpu_set::GpuSet;
use crate::journal::Standing;
use crate::node::health::{Ailment, News};

use health::Health;
use suspensions::Suspensions;

/// Drained and lost GPUs, their health, and suspended processes.
#[derive(Debug, Default)]
pub(super) struct Control {
    drained: GpuSet,
    /// GPUs that the driver cannot reach, as last seen.
    lost: GpuSet,
    health: Health,
    suspensions: Suspensions,
    /// Whether anything here has changed that was not written down yet.
    changed: bool,
}

impl Control {
    /// GPUs that are drained: a person wants it, or they fail.
    pub(super) fn drained(&self) -> GpuSet {
        self.drained
    }

    /// GPUs that take no process: those that are drained, and those that the driver cannot reach.
    pub(super) fn closed(&self) -> GpuSet {
        self.drained | self.lost
    }

    /// The driver cannot reach these GPUs.
    pub(super) fn set_lost(&mut self, lost: GpuSet) {
        self.lost = lost;
    }

    /// Has a GPU drained, or used again, whatever was wrong with it. False: that changes nothing.
    pub(super) fn drain(&mut self, gpu: usize, drained: bool) -> bool {
        let before = self.drained;
        if drained {
            self.drained.insert(gpu);
        } else {
            self.drained.remove(gpu);
        }
        let was_failing = !drained && self.health.forgive(gpu);
        before != self.drained || was_failing
    }

    /// The driver says this of a GPU. Returns what is wrong with it that was not known, and whether it is drained
    /// now and was not, which is what becomes of failing GPUs where `drains`.
    pub(super) fn hear(&mut self, gpu: usize, news: News, drains: bool) -> (Vec<Ailment>, bool) {
        let (drained, health) = (self.drained, self.health.clone());
        let ailments = self.health.hear(gpu, news);
        if !ailments.is_empty() && drains {
            self.drained.insert(gpu);
        }
        let new = self.health.take_down(gpu, ailments);
        self.changed |= drained != self.drained || health != self.health;
        (new, drained != self.drained)
    }

    /// What is wrong with a GPU by the driver's word.
    pub(super) fn ailments(&self, gpu: usize) -> &[Ailment] {
        self.health.ailments(gpu)
    }

    /// Whether no process is suspended.
    pub(super) fn suspends_none(&self) -> bool {
        self.suspensions.is_empty()
    }

    /// Since when the client is suspended; `None`: it is not.
    pub(super) fn suspended_since(&self, client: &ClientState) -> Option<Duration> {
        self.suspensions.since(client)
    }

    /// Whether that very process or job is suspended.
    pub(super) fn suspends(&self, subject: Subject) -> bool {
        self.suspensions.has(subject)
    }

    /// Suspends a process or a job. False: it was suspended.
    pub(super) fn suspend(&mut self, subject: Subject, now: Duration) -> bool {
        self.suspensions.add(subject, now)
    }

    /// Resumes a process, or a job and all its processes. Whether any of it was suspended.
    pub(super) fn resume(&mut self, subject: Subject, clients: &Clients) -> bool {
        self.suspensions.remove(subject, clients)
    }

    /// A client is gone, and not among `clients` any more.
    pub(super) fn forget(&mut self, gone: &ClientState, clients: &Clients) {
        self.changed |= self.suspensions.forget(gone, clients);
    }

    /// A person's order has changed something.
    pub(super) fn note_change(&mut self) {
        self.changed = true;
    }

    /// Whether anything has changed since this was last called.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Writes down what holds until a person ends it.
    pub(super) fn write(&self, standing: &mut Standing) {
        standing.drained = self.drained.bits();
        self.health.write(standing);
        self.suspensions.write(standing);
    }

    /// What held under an earlier broker over this many GPUs.
    pub(super) fn bring_in(&mut self, standing: &Standing, gpus: usize, clients: &Clients) {
        self.drained = GpuSet::from_bits(standing.drained);
        self.health = Health::of(standing, gpus);
        self.suspensions.bring_in(standing, clients);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_gpu_is_drained_until_a_person_ends_that() {
        let mut control = Control::default();
        let event = News::Event(Ailment::Xid(79));
        assert_eq!(control.hear(1, event, true), (vec![Ailment::Xid(79)], true));
        assert!(control.take_changed() && !control.take_changed());
        assert_eq!(
            control.hear(1, event, true),
            (Vec::new(), false),
            "that was known"
        );
        control.set_lost(GpuSet::of(0));
        assert_eq!(
            (control.drained(), control.closed()),
            (GpuSet::of(1), GpuSet::first_of(2))
        );
        assert!(control.drain(1, false) && !control.drain(1, false));
        assert_eq!(control.ailments(1), []);
    }

    #[test]
    fn what_is_wrong_is_forgiven_where_failing_gpus_are_not_drained() {
        let mut control = Control::default();
        let event = News::Event(Ailment::Xid(79));
        assert_eq!(control.hear(0, event, false), (vec![Ailment::Xid(79)], false));
        assert!(control.drain(0, false), "there is an ailment less");
    }
}
