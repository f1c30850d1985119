//! A snapshot of what the driver and the clients' publications show.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::client::ClientId;
use crate::gpu_set::GpuSet;
use crate::ledger::TaskKey;

/// Parts of a whole in which [`Snapshot::activity`] counts.
pub const WHOLE: u32 = 1000;

/// What the driver and the clients' publications show.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// By GPU: bytes that the driver shows free beyond what holders may still
    /// map. `None`: the driver does not say, and the ledger alone decides.
    pub covered: Vec<Option<u64>>,
    /// Bytes that clients say that they have mapped beyond their reservations, by client and GPU: a library
    /// or the driver took them, the driver shows them taken, and the client is to ask for room for them. Of a
    /// growth they are no longer missing.
    pub ahead: BTreeMap<(ClientId, usize), u64>,
    /// GPUs that the driver cannot reach.
    pub lost: GpuSet,
    /// Clients with launches in flight, by GPU.
    pub busy: BTreeSet<(ClientId, usize)>,
    /// Tasks that are over but keep their grant until another request waits for it.
    pub leased: BTreeSet<TaskKey>,
    /// How much of the last time processes had work under way, by client and GPU in that order. A
    /// process that is missing counts as busy.
    pub activity: Vec<Activity>,
    /// How much of the last time programs outside MGB had work, by GPU, in parts of [`WHOLE`].
    /// Missing: none.
    pub foreign: Vec<u32>,
    /// Clients that are latency programs, as far as their users may have any; all others are batch programs.
    pub latency: BTreeSet<ClientId>,
    /// Clients whose agents listen to orders.
    pub listening: BTreeSet<ClientId>,
    /// Bytes of host memory to spare; `None`: not known, and nothing is evicted.
    pub host_bytes: Option<u64>,
}

impl Snapshot {
    /// How much of a GPU the processes in question fill, in parts of [`WHOLE`].
    pub(super) fn work(&self, is_meant: impl Fn(&Activity) -> bool) -> u32 {
        let seen = self.activity.iter().filter(|seen| is_meant(seen));
        seen.fold(0, |sum, seen| sum.saturating_add(seen.part))
    }

    /// How much of a GPU its processes fill, and go on to: of one that is known to pause no more than in the
    /// long run.
    pub(super) fn lasting_work(&self, gpu: usize) -> u32 {
        let seen = self.activity.iter().filter(|seen| seen.gpu == gpu);
        seen.fold(0, |sum, seen| sum.saturating_add(seen.part.min(seen.average)))
    }

    /// Whether a process has had no work on a GPU for so long. Of one that is missing nobody knows.
    pub(super) fn rests(&self, client: ClientId, gpu: usize, length: Duration) -> bool {
        let idle = self.seen(client, gpu).and_then(|seen| seen.idle);
        idle.is_some_and(|idle| idle >= length)
    }

    /// How much of the time a process has had work on a GPU, in parts of [`WHOLE`].
    pub(super) fn busy_part(&self, client: ClientId, gpu: usize) -> u32 {
        self.seen(client, gpu).map_or(WHOLE, |seen| seen.busy.min(WHOLE))
    }

    fn seen(&self, client: ClientId, gpu: usize) -> Option<&Activity> {
        let at = self
            .activity
            .binary_search_by_key(&(client, gpu), |seen| (seen.client, seen.gpu));
        at.ok().map(|at| &self.activity[at])
    }
}

/// How busy a process has been on a GPU lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The client whose process it is.
    pub client: ClientId,
    /// The GPU, by index.
    pub gpu: usize,
    /// How much of the GPU it filled, in parts of [`WHOLE`].
    pub part: u32,
    /// How much of the time it had work there, in parts of [`WHOLE`].
    pub busy: u32,
    /// How much of the GPU it fills in the long run, in parts of [`WHOLE`]; as lately where that is not
    /// known.
    pub average: u32,
    /// For how long it has had no work there; `None`: it has some.
    pub idle: Option<Duration>,
    /// How long its idle phases there last; `None`: it had none yet.
    pub phase: Option<Duration>,
    /// How long its times of work there last.
    pub lasts: Duration,
    /// How often it has had work there.
    pub uses: u64,
    /// Warps of the largest kernel that it says it has launched there; 0: it does not say.
    pub warps: u64,
}
