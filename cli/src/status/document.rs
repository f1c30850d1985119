//! What `mgb status --json` prints: the node view, with each GPU's holders beside it.

use mgb_probe::view::{Counts, NodeView, ReclaimView, TaskState, TaskView, WaitView};
use serde::Serialize;

/// The version of this layout.
pub const VERSION: u32 = 1;

/// The node.
#[derive(Debug, Serialize)]
pub struct Status<'a> {
    /// [`VERSION`].
    pub version: u32,
    /// The policy in force.
    pub policy: &'a str,
    /// mgbd's process.
    pub mgbd_pid: u32,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// The pipe folder of its MPS.
    pub mps_pipe: Option<&'a str>,
    /// Why there is no MPS, where there is none.
    pub mps_note: Option<&'a str>,
    /// Connected processes.
    pub clients: u32,
    /// The GPUs.
    pub gpus: Vec<Gpu<'a>>,
    /// How many requests wait.
    pub waiting: usize,
    /// The requests that wait, first come first.
    pub queue: &'a [WaitView],
    /// The latest deaths of processes that held room.
    pub reclaims: &'a [ReclaimView],
    /// Totals since mgbd's start.
    pub counts: Counts,
}

/// One GPU. Sizes are bytes.
#[derive(Debug, Serialize)]
pub struct Gpu<'a> {
    /// Its number.
    pub index: u32,
    /// Its name that lasts.
    pub uuid: &'a str,
    /// The product.
    pub name: &'a str,
    /// Its memory.
    pub total_bytes: u64,
    /// What tasks and their contexts may take.
    pub usable_bytes: u64,
    /// Free as the driver says.
    pub driver_free_bytes: Option<u64>,
    /// Reserved for tasks of living processes.
    pub reserved_bytes: u64,
    /// Of that, mapped, as the processes say.
    pub resident_bytes: u64,
    /// Charged for contexts.
    pub contexts_bytes: u64,
    /// Charged for dead processes until the driver shows it free.
    pub reclaiming_bytes: u64,
    /// Held outside MGB.
    pub foreign_bytes: u64,
    /// Warps of the tasks that run, and what the GPU can hold.
    pub warps_charged: u64,
    /// What the GPU can hold.
    pub max_warps: u64,
    /// Launches that have not finished.
    pub launches_in_flight: u64,
    /// Who holds room.
    pub holders: Vec<Holder<'a>>,
}

/// A task that holds room.
#[derive(Debug, Serialize)]
pub struct Holder<'a> {
    /// Its process has died, and the driver does not show the room free yet.
    pub reclaiming: bool,
    /// The task.
    #[serde(flatten)]
    pub task: &'a TaskView,
}

impl<'a> Status<'a> {
    /// Of a node view.
    pub fn of(view: &'a NodeView) -> Self {
        let holders = |index| {
            let here = view.tasks.iter().filter(move |task| task.gpu == index);
            here.map(|task| Holder {
                reclaiming: task.state == TaskState::Reclaiming,
                task,
            })
            .collect()
        };
        let gpus = view.gpus.iter().map(|gpu| Gpu {
            index: gpu.gpu.index,
            uuid: &gpu.gpu.uuid,
            name: &gpu.gpu.name,
            total_bytes: gpu.gpu.total_bytes,
            usable_bytes: gpu.gpu.usable_bytes,
            driver_free_bytes: gpu.driver_free_bytes,
            reserved_bytes: gpu.reserved_bytes,
            resident_bytes: gpu.resident_bytes,
            contexts_bytes: gpu.contexts_bytes,
            reclaiming_bytes: gpu.reclaiming_bytes,
            foreign_bytes: gpu.foreign_bytes,
            warps_charged: gpu.warps_charged,
            max_warps: gpu.gpu.max_warps,
            launches_in_flight: gpu.launches_in_flight,
            holders: holders(gpu.gpu.index),
        });
        Self {
            version: VERSION,
            policy: &view.policy,
            mgbd_pid: view.mgbd_pid,
            uptime_s: view.uptime_ms / 1000,
            mps_pipe: view.mps_pipe.as_deref(),
            mps_note: view.mps_note.as_deref(),
            clients: view.clients,
            gpus: gpus.collect(),
            waiting: view.queue.len(),
            queue: &view.queue,
            reclaims: &view.reclaims,
            counts: view.counts,
        }
    }
}
