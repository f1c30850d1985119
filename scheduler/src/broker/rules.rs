//! How a broker serves.

use std::time::Duration;

use mgb_interface::{Policy, Queue};

use crate::eviction::{EvictionRule, Speed};

/// How the broker serves: its policy, its order, and its limits.
#[derive(Clone, Copy, Debug)]
pub struct ServingRules {
    /// The policy, which decides what is granted.
    pub policy: Policy,
    /// The order in which requests are served.
    pub queue: Queue,
    /// How long the first in the queue may be passed by others.
    pub patience: Duration,
    /// Most processes on a GPU at once.
    pub max_processes: u32,
    /// By which rule idle memory is evicted for requests that wait; `None`: it is not.
    pub evicts: Option<EvictionRule>,
    /// How fast memory is expected to go to the host and back before it was seen.
    pub copy_speed: Speed,
    /// Whether tasks that may go on elsewhere are moved between GPUs.
    pub moves: bool,
    /// For tests: they are moved at random, one so often, whether or not that is of any use.
    pub shuffles: Option<Duration>,
    /// Bytes of evicted memory that the host may hold at once; `None`: what it has to spare.
    pub swap_memory: Option<u64>,
    /// Whether GPUs that fail by the driver's word are drained.
    pub drains_failing: bool,
}

/// How long the first in the queue may be passed by others, unless set. What is kept for him is of no use to
/// others until then: with 10 s a batch of jobs of some 20 s each had a mean turnaround a quarter longer, and
/// the same makespan and longest wait (`cargo bench --bench replay`).
pub const PASSED_TIMEOUT: Duration = Duration::from_secs(30);
/// Clients that an MPS server takes for one GPU.
pub const MPS_CLIENTS: u32 = 48;

impl ServingRules {
    /// The usual rules for a policy.
    pub fn new(policy: Policy) -> ServingRules {
        ServingRules {
            policy,
            queue: policy.serves(None).unwrap_or_default(),
            patience: PASSED_TIMEOUT,
            max_processes: MPS_CLIENTS,
            evicts: Some(EvictionRule::Pays),
            copy_speed: Speed::expected(1),
            moves: true,
            shuffles: None,
            swap_memory: None,
            drains_failing: true,
        }
    }
}
