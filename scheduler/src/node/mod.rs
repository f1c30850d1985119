//! The node: its GPUs, and what the driver says about their memory.

pub mod bounded;
pub mod capability;
pub mod health;
pub mod nvml;
mod nvml_health;
mod software;
mod stamps;

use std::path::PathBuf;
use std::time::Duration;

use mgb_probe::Gpu;

use health::HealthSource;

/// What the driver says about a GPU's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuMemory {
    /// All of it.
    pub total: u64,
    /// What nobody has.
    pub free: u64,
}

impl GpuMemory {
    /// What somebody has, the driver included.
    pub fn used(&self) -> u64 {
        self.total.saturating_sub(self.free)
    }
}

/// A process with a context on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Process id, in `mgbd`'s namespace if it is visible there.
    pub pid: u32,
    /// Bytes it has, its context included; `None` where the driver does not say.
    pub bytes: Option<u64>,
}

/// The driver failed to say something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the driver does not say: {text}")]
pub struct NodeError {
    /// What it says instead.
    pub text: String,
    /// It cannot reach the GPU any more.
    pub is_lost: bool,
}

/// Where `mgbd` learns about GPUs: NVML, or a test's idea of one.
pub trait NodeDriver: Send + Sync {
    /// The GPUs to share; the same for as long as the node lives.
    fn gpus(&self) -> &[Gpu];

    /// Whether the GPUs are software: MPS has nothing to do there.
    fn software(&self) -> bool;

    /// The memory of a GPU now.
    fn memory(&self, gpu: usize) -> Result<GpuMemory, NodeError>;

    /// The processes with a context on a GPU now.
    fn residents(&self, gpu: usize) -> Result<Vec<Resident>, NodeError>;

    /// The percentage of the last time, a second at most, in which a GPU had any work.
    fn utilisation(&self, gpu: usize) -> Result<u32, NodeError>;

    /// One device file of each kind by which the driver knows a process that uses
    /// it; none where a process's end harms nobody else.
    fn driver_files(&self) -> Vec<PathBuf>;

    /// Whether a GPU has had nothing to do for a moment in the last time, `ago` long: what had been queued
    /// there by then is done.
    fn paused_within(&self, gpu: usize, ago: Duration) -> Result<bool, NodeError>;

    /// What says how the GPUs' health is; `None`: nothing does.
    fn health(&self) -> Option<Box<dyn HealthSource>> {
        None
    }
}

#[cfg(test)]
pub(crate) fn test_gpu(index: u32, usable: u64, context: u64) -> Gpu {
    Gpu {
        index,
        node_index: index,
        uuid: format!("GPU-{index}"),
        name: "test".to_owned(),
        total_bytes: usable,
        usable_bytes: usable,
        context_bytes: context,
        max_warps: 1000,
        multiprocessors: test_multiprocessors(),
    }
}

/// Sixteen of compute capability 9.0.
#[cfg(test)]
pub(crate) fn test_multiprocessors() -> mgb_probe::Multiprocessors {
    capability::multiprocessors(16 * 128, 9, 0)
}
