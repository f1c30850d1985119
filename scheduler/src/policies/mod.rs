//! The policies: pure functions from a view of the ledger and the waiting tasks
//! to grants. `mgbd` and the simulator run the same code. `docs/POLICIES.md` has
//! them in prose, and says how to add one.
//!
//! | name       | memory | chooses |
//! |------------|--------|---------|
//! | `mgb`      | hard   | among GPUs with room, the one with the least load as it is |
//! | `alg2`     | hard   | the first GPU with room on which all blocks find a place |
//! | `alg3`     | hard   | among GPUs with room, the one with the fewest warps charged |
//! | `schedgpu` | hard   | the first GPU with room |
//! | `sa`       | blind  | one process per GPU at a time |
//! | `cg:N`     | blind  | up to N processes per GPU |
//!
//! The order of service is a choice of its own: [`Queue`]. Blind policies serve
//! in order of arrival, and ignore requests for a GPU of one's own.

mod alg2;
mod alg3;
mod cg;
mod mgb;
mod queue;
mod sa;
mod schedgpu;
mod view;

pub use queue::{HOLDER_PATIENCE, Queue, QueueError};
pub use schedgpu::WaitOrder;
pub use view::{Claim, GpuState, Placement, View, Waiter, warps_charged};

use std::fmt;
use std::str::FromStr;

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
    pub const NAMES: &str =
        "mgb, alg2, alg3, schedgpu[:fifo|mmu|priority-fifo|priority-mmu], sa or cg:N (N processes per GPU)";

    /// The grants to make now. Policies that have an order of their own serve in
    /// that one; see [`Policy::serves`].
    pub fn place(&self, view: &View<'_>, queue: Queue) -> Vec<Placement> {
        match self {
            Policy::Mgb => queue::place(view, queue, false, &mut mgb::Mgb),
            Policy::Alg2 => queue::place(view, queue, false, &mut alg2::Alg2::new(view)),
            Policy::Alg3 => queue::place(view, queue, false, &mut alg3::Alg3),
            Policy::SchedGpu(way) => schedgpu::place(view, *way, queue),
            Policy::Sa => sa::place(view),
            Policy::Cg(most) => cg::place(view, *most),
        }
    }

    /// Whether the policy ignores memory.
    pub fn blind(&self) -> bool {
        matches!(self, Policy::Sa | Policy::Cg(_))
    }

    /// Whether a task waits until its blocks find a place.
    pub fn compute_hard(&self) -> bool {
        matches!(self, Policy::Alg2)
    }

    /// The order in which it serves, given the one that is wanted, if any.
    pub fn serves(&self, wanted: Option<Queue>) -> Result<Queue, OwnOrder> {
        let own = match self {
            Policy::SchedGpu(way) => way.queue(),
            Policy::Sa | Policy::Cg(_) => Some(Queue::InOrder),
            Policy::Mgb | Policy::Alg2 | Policy::Alg3 => None,
        };
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

/// A policy was asked to serve in another order than its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "policy {policy} has an order of its own ({own}) and cannot serve {wanted}; the queue can be chosen for mgb, alg2, \
     alg3 and schedgpu:mmu"
)]
pub struct OwnOrder {
    policy: Policy,
    own: Queue,
    wanted: Queue,
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
    /// No such name.
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
            ("mgb", None) => Ok(Policy::Mgb),
            ("alg2", None) => Ok(Policy::Alg2),
            ("alg3", None) => Ok(Policy::Alg3),
            ("sa", None) => Ok(Policy::Sa),
            ("cg", rest) => rest
                .and_then(|number| number.parse().ok())
                .filter(|most| (1..=1024).contains(most))
                .map(Policy::Cg)
                .ok_or_else(|| PolicyError::Number(text.to_owned())),
            ("schedgpu", None) => Ok(Policy::SchedGpu(WaitOrder::Fifo)),
            ("schedgpu", Some(rest)) => WaitOrder::ALL
                .into_iter()
                .find(|way| way.name() == rest)
                .map(Policy::SchedGpu)
                .ok_or_else(|| PolicyError::Way(text.to_owned())),
            _ => Err(PolicyError::Unknown(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
