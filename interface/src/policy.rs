//! The policies by name. What they decide is the scheduler's.

use std::fmt;
use std::str::FromStr;

use crate::queue::Queue;

/// The names of all policies, as a literal for texts of `--policy`.
#[macro_export]
macro_rules! policy_names {
    () => {
        "mgb, alg2, alg3, schedgpu[:fifo|mmu|priority-fifo|priority-mmu], sa or cg:N (N processes per GPU)"
    };
}

/// A policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// MGB's own policy, the default.
    Mgb,
    /// Algorithm 2 of the MGB paper.
    Alg2,
    /// Algorithm 3 of the MGB paper.
    Alg3,
    /// Single assignment: one process per GPU.
    Sa,
    /// Coarse-grained: this many processes per GPU.
    Cg(u32),
    /// schedGPU, with one of its ways of waiting.
    SchedGpu(WaitOrder),
}

impl Policy {
    /// All names, for people.
    pub const NAMES: &str = policy_names!();

    /// Each of them, in the order of [`Policy::NAMES`]; `cg:N` with an N.
    pub const ALL: [Policy; 9] = [
        Policy::Mgb,
        Policy::Alg2,
        Policy::Alg3,
        Policy::SchedGpu(WaitOrder::Fifo),
        Policy::SchedGpu(WaitOrder::Mmu),
        Policy::SchedGpu(WaitOrder::PriorityFifo),
        Policy::SchedGpu(WaitOrder::PriorityMmu),
        Policy::Sa,
        Policy::Cg(4),
    ];

    /// How many processes it places on a GPU, where it places whole processes by device mask and no tasks.
    pub fn processes_per_gpu(&self) -> Option<u32> {
        match self {
            Policy::Sa => Some(1),
            Policy::Cg(most) => Some(*most),
            Policy::Mgb | Policy::Alg2 | Policy::Alg3 | Policy::SchedGpu(_) => None,
        }
    }

    /// Whether it places whole processes, which it does without regard to their memory.
    pub fn places_processes(&self) -> bool {
        self.processes_per_gpu().is_some()
    }

    /// Whether a task waits until its blocks find a place.
    pub fn compute_hard(&self) -> bool {
        matches!(self, Policy::Alg2)
    }

    /// The only order in which it serves; `None`: any will do.
    fn own_order(&self) -> Option<Queue> {
        match self {
            Policy::SchedGpu(way) => way.queue(),
            Policy::Sa | Policy::Cg(_) => Some(Queue::InOrder),
            Policy::Mgb | Policy::Alg2 | Policy::Alg3 => None,
        }
    }

    /// The order in which it serves, given the one that is wanted, if any.
    pub fn serves(&self, wanted: Option<Queue>) -> Result<Queue, OwnOrder> {
        let own = self.own_order();
        let usual = match self {
            Policy::Mgb => Queue::Largest,
            _ => Queue::default(),
        };
        match (own, wanted) {
            (Some(own), Some(wanted)) if own != wanted => Err(OwnOrder {
                policy: *self,
                own,
                wanted,
            }),
            _ => Ok(own.or(wanted).unwrap_or(usual)),
        }
    }
}

/// How tasks of schedGPU wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitOrder {
    /// The first blocks all behind it until it fits.
    #[default]
    Fifo,
    /// "Most memory used": in order, whoever fits.
    Mmu,
    /// As `Fifo` among those of the highest priority that wait.
    PriorityFifo,
    /// As `Mmu` among those of the highest priority that wait.
    PriorityMmu,
}

impl WaitOrder {
    /// Every order of waiting that schedGPU has.
    pub const ALL: [WaitOrder; 4] = [
        WaitOrder::Fifo,
        WaitOrder::Mmu,
        WaitOrder::PriorityFifo,
        WaitOrder::PriorityMmu,
    ];

    /// The name of the order, as it follows `schedgpu:`.
    pub fn name(self) -> &'static str {
        match self {
            WaitOrder::Fifo => "fifo",
            WaitOrder::Mmu => "mmu",
            WaitOrder::PriorityFifo => "priority-fifo",
            WaitOrder::PriorityMmu => "priority-mmu",
        }
    }

    /// The order it stands for; `None`: any will do.
    pub fn queue(self) -> Option<Queue> {
        match self {
            WaitOrder::Mmu => None,
            WaitOrder::Fifo | WaitOrder::PriorityFifo => Some(Queue::InOrder),
            WaitOrder::PriorityMmu => Some(Queue::Backfill),
        }
    }

    /// Whether those of the highest priority that wait go first.
    pub fn by_priority(self) -> bool {
        matches!(self, WaitOrder::PriorityFifo | WaitOrder::PriorityMmu)
    }
}

/// A policy was asked to serve in another order than its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "policy {policy} has an order of its own ({own}) and cannot serve {wanted}; the queue can be chosen for {}",
    any_order()
)]
pub struct OwnOrder {
    policy: Policy,
    own: Queue,
    wanted: Queue,
}

/// The names of the policies that have no order of their own.
fn any_order() -> String {
    let names = Policy::ALL.iter().filter(|policy| policy.own_order().is_none());
    let names: Vec<String> = names.map(Policy::to_string).collect();
    match names.as_slice() {
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
        [] => String::new(),
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Mgb => f.write_str("mgb"),
            Policy::Alg2 => f.write_str("alg2"),
            Policy::Alg3 => f.write_str("alg3"),
            Policy::Sa => f.write_str("sa"),
            Policy::Cg(most) => write!(f, "cg:{most}"),
            Policy::SchedGpu(WaitOrder::Fifo) => f.write_str("schedgpu"),
            Policy::SchedGpu(way) => write!(f, "schedgpu:{}", way.name()),
        }
    }
}

/// Why a text names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The text is the name of no policy.
    #[error("unknown policy `{0}`; known are {names}", names = Policy::NAMES)]
    Unknown(String),
    /// `cg` without its number.
    #[error("policy `{0}` needs a number of processes per GPU from 1 to 1024, such as cg:4")]
    Number(String),
    /// `schedgpu` with an unknown way of waiting.
    #[error("policy `{0}` names no way of waiting: schedgpu:fifo, :mmu, :priority-fifo or :priority-mmu")]
    Way(String),
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Policy, PolicyError> {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        match (name, rest) {
            ("cg", rest) => rest
                .and_then(|number| number.parse().ok())
                .filter(|most| (1..=1024).contains(most))
                .map(Policy::Cg)
                .ok_or_else(|| PolicyError::Number(text.to_owned())),
            ("schedgpu", Some(rest)) => WaitOrder::ALL
                .into_iter()
                .find(|way| way.name() == rest)
                .map(Policy::SchedGpu)
                .ok_or_else(|| PolicyError::Way(text.to_owned())),
            _ => Policy::ALL
                .into_iter()
                .find(|policy| policy.to_string() == text)
                .ok_or_else(|| PolicyError::Unknown(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_baselines_place_processes() {
        assert!(Policy::Sa.places_processes() && Policy::Cg(4).places_processes());
        assert!(!Policy::Mgb.places_processes() && !Policy::Alg3.places_processes());
    }

    #[test]
    fn every_policy_is_read_by_the_name_that_it_has() {
        for policy in Policy::ALL {
            let name = policy.to_string();
            assert_eq!(name.parse(), Ok(policy));
            let word = name.split(':').next().unwrap_or(&name);
            assert!(Policy::NAMES.contains(word), "{name}");
        }
    }

    #[test]
    fn an_order_of_its_own_is_told_with_those_that_have_none() {
        let refused = Policy::Sa.serves(Some(Queue::Largest)).unwrap_err().to_string();
        assert_eq!(
            refused,
            "policy sa has an order of its own (in-order) and cannot serve largest; the queue can be chosen for mgb, \
             alg2, alg3 and schedgpu:mmu"
        );
    }
}
