//! The policies: pure functions from a view of the ledger and the waiting tasks
//! to grants. `mgbd` and the simulator run the same code.
//!
//! | name   | memory | chooses |
//! |--------|--------|---------|
//! | `mgb`  | hard   | as `alg3` until clients publish their load |
//! | `alg3` | hard   | among GPUs with room, the one with the fewest warps charged |
//! | `sa`   | blind  | one process per GPU at a time |
//! | `cg:N` | blind  | up to N processes per GPU |
//!
//! Those that are blind know no tasks that want a GPU for themselves.

mod alg3;
mod backfill;
mod cg;
mod sa;

pub use backfill::HOLDER_PATIENCE;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::ledger::ClientId;

/// A GPU as a policy sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuState {
    /// Bytes that can be granted now: what the ledger has left, and no more than
    /// the driver shows free beyond what holders may still map.
    pub room: u64,
    /// Bytes of a context, which a process's first task on the GPU pays.
    pub context_bytes: u64,
    /// Warps the GPU can hold.
    pub max_warps: u64,
    /// Warps of the tasks running there.
    pub warps: u64,
    /// Processes that hold something there.
    pub processes: u32,
    /// Processes that can be there at once.
    pub max_processes: u32,
    /// Processes that have room or a task there: those whom a task that wants the GPU for itself waits for.
    pub present: u32,
    /// Somebody there waits to grow: processes that hold nothing there stay out.
    pub growth_waits: bool,
    /// That somebody has waited beyond the patience: nobody begins there.
    pub growth_aged: bool,
    /// Nobody who holds memory there can go on by himself: room is kept there
    /// from newcomers only.
    pub stalled: bool,
}

/// A task that waits to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Whose it is.
    pub client: ClientId,
    /// GPUs it may be placed on, by index.
    pub gpus: u64,
    /// GPUs on which the process already has a context.
    pub contexts: u64,
    /// It wants a GPU for itself.
    pub alone: bool,
    /// GPUs that it cannot have because of who else is there: those that another process's task has for itself, and
    /// for one that wants to be alone all with company.
    pub closed: u64,
    /// Bytes to reserve.
    pub bytes: u64,
    /// Warps of its largest launch; `None`: not known.
    pub warps: Option<u64>,
    /// How long it has waited.
    pub waited: Duration,
    /// Its process has a context or more somewhere, so that others wait for it
    /// to go on.
    pub holds: bool,
}

impl Waiter {
    /// Warps to charge on a GPU.
    pub fn charge(&self, gpu: &GpuState) -> u64 {
        warps_charged(self.warps, gpu.max_warps)
    }
}

/// Warps to charge for a task on a GPU that holds so many: at most those, and all
/// of them for a launch nobody knows.
pub fn warps_charged(warps: Option<u64>, max_warps: u64) -> u64 {
    warps.unwrap_or(u64::MAX).min(max_warps)
}

/// What a policy decides from: the GPUs, and who waits, first come first.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// By index.
    pub gpus: &'a [GpuState],
    /// In order of arrival.
    pub waiting: &'a [Waiter],
    /// How long the first may be passed by others; see `backfill`.
    pub patience: Duration,
}

/// A grant: the waiter (its position in the view) and its GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Position in [`View::waiting`].
    pub waiter: usize,
    /// GPU index.
    pub gpu: usize,
}

/// A policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The default.
    Mgb,
    /// Algorithm 3 of the MGB paper.
    Alg3,
    /// Single assignment.
    Sa,
    /// Coarse-grained: this many processes per GPU.
    Cg(u32),
}

impl Policy {
    /// Who is granted what now.
    pub fn place(&self, view: &View<'_>) -> Vec<Placement> {
        match self {
            Policy::Mgb | Policy::Alg3 => alg3::place(view),
            Policy::Sa => sa::place(view),
            Policy::Cg(most) => cg::place(view, *most),
        }
    }

    /// Whether memory is not looked at.
    pub fn blind(&self) -> bool {
        matches!(self, Policy::Sa | Policy::Cg(_))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Mgb => f.write_str("mgb"),
            Policy::Alg3 => f.write_str("alg3"),
            Policy::Sa => f.write_str("sa"),
            Policy::Cg(most) => write!(f, "cg:{most}"),
        }
    }
}

/// Why a text names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No such name.
    #[error("unknown policy `{0}`; known are mgb, alg3, sa and cg:N (N processes per GPU)")]
    Unknown(String),
    /// `cg` without its number.
    #[error("policy `{0}` needs a number of processes per GPU from 1 to 1024, such as cg:4")]
    Number(String),
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Policy, PolicyError> {
        match text {
            "mgb" => Ok(Policy::Mgb),
            "alg3" => Ok(Policy::Alg3),
            "sa" => Ok(Policy::Sa),
            _ => match text.strip_prefix("cg") {
                Some(rest) if rest.is_empty() || rest.starts_with(':') => rest
                    .strip_prefix(':')
                    .and_then(|number| number.parse().ok())
                    .filter(|most| (1..=1024).contains(most))
                    .map(Policy::Cg)
                    .ok_or_else(|| PolicyError::Number(text.to_owned())),
                _ => Err(PolicyError::Unknown(text.to_owned())),
            },
        }
    }
}

#[cfg(test)]
mod tests;
