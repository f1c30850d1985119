//! What is known of the GPUs' health, also from one `mgbd` to the next.
//!
//! What holds until a reset is remembered as it was said last: a GPU that a person has used again is drained again by
//! what is new, and not by what that person knew.

use std::collections::BTreeMap;

use crate::journal::Standing;
use crate::node::health::{Ailment, News, States};

/// What is known of the GPUs' health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Health {
    /// What is wrong with each GPU, one of a kind, in the order in which it was said.
    ailments: BTreeMap<usize, Vec<Ailment>>,
    /// What holds until a reset, as said last.
    states: BTreeMap<usize, States>,
}

impl Health {
    /// What earlier brokers knew of this many GPUs.
    pub(super) fn of(standing: &Standing, gpus: usize) -> Health {
        let is_there = |gpu: usize| gpu < gpus;
        let ailments = standing.ailments.iter().filter(|(gpu, _)| is_there(*gpu));
        let states = standing.health.iter().filter(|(gpu, _)| is_there(*gpu));
        Health {
            ailments: ailments.cloned().collect(),
            states: states.copied().collect(),
        }
    }

    /// What is wrong with a GPU by the driver's word.
    pub(super) fn ailments(&self, gpu: usize) -> &[Ailment] {
        self.ailments.get(&gpu).map_or(&[], Vec::as_slice)
    }

    /// A person knows what is wrong with a GPU, and has it used. Whether anything was.
    pub(super) fn forgive(&mut self, gpu: usize) -> bool {
        self.ailments.remove(&gpu).is_some()
    }

    /// Writes down what is known of the GPUs' health.
    pub(super) fn write(&self, standing: &mut Standing) {
        standing.ailments = self.ailments.clone().into_iter().collect();
        standing.health = self.states.clone().into_iter().collect();
    }

    /// What the news say has gone wrong.
    pub(super) fn hear(&mut self, gpu: usize, news: News) -> Vec<Ailment> {
        match news {
            News::Event(ailment) if ailment.is_fatal() => vec![ailment],
            News::Event(_) => Vec::new(),
            News::States(states) => states.since(self.states.insert(gpu, states)),
        }
    }

    /// Takes down what has gone wrong with a GPU. Returns what is of a kind that was not known of it.
    pub(super) fn take_down(&mut self, gpu: usize, ailments: Vec<Ailment>) -> Vec<Ailment> {
        if ailments.is_empty() {
            return ailments;
        }
        let known = self.ailments.entry(gpu).or_default();
        let mut new = Vec::new();
        for ailment in ailments {
            match known.iter_mut().find(|one| one.is_like(ailment)) {
                Some(one) => *one = ailment,
                None => new.push(ailment),
            }
        }
        known.extend(&new);
        new
    }
}
