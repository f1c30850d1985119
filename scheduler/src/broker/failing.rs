//! GPUs that fail by the driver's word are drained, until a person ends that.
//!
//! What holds until a reset is remembered as it was said last ([`super::health`]): a GPU that a person has
//! used again is drained again by what is new, and not by what that person knew.

use std::time::Duration;

use super::Broker;
use crate::node::health::{Ailment, News};

impl Broker {
    /// The driver says this of a GPU. Returns what is wrong with it that was not known.
    pub fn has_health(&mut self, gpu: usize, news: News, now: Duration) -> Vec<Ailment> {
        if gpu >= self.ledger.gpus().len() {
            return Vec::new();
        }
        let (drained, health) = (self.drained, self.health.clone());
        let ailments = self.health.hear(gpu, news);
        if !ailments.is_empty() && self.rules.drains_failing {
            self.drained.insert(gpu);
        }
        let new = self.health.take_down(gpu, ailments);
        self.standing_changed |= drained != self.drained || health != self.health;
        if drained != self.drained {
            self.hold_back(now);
        }
        new
    }

    /// A person knows what is wrong with a GPU, and has it used. Whether anything was.
    pub(super) fn forgives(&mut self, gpu: usize) -> bool {
        self.health.ailments.remove(&gpu).is_some()
    }

    /// What is wrong with a GPU by the driver's word.
    pub fn ailments(&self, gpu: usize) -> &[Ailment] {
        self.health.ailments.get(&gpu).map_or(&[], Vec::as_slice)
    }
}
