//! The real node: NVML, as the dynamic loader finds `libnvidia-ml.so.1`.
//!
//! softgpu's library goes by the same name and is asked in the same way.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use mgb_probe::need::{margin_bytes, spare_bytes};
use mgb_probe::{Gpu, Multiprocessors, VisibleError, visible_gpus};
use nvml_wrapper::enum_wrappers::device::{ComputeMode, Sampling};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::health::HealthSource;
use super::nvml_health::NvmlHealth;
use super::stamps::Stamps;
use super::{GpuMemory, NodeDriver, NodeError, Resident, capability, software};

/// The driver's library.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Bytes a context takes where nobody says otherwise: measured with driver 580
/// on an H200, with and without MPS.
pub const CONTEXT_BYTES: u64 = 526 << 20;
/// Bytes that the MPS server takes of a GPU, and the little that the driver counts as free and gives to
/// nobody: measured as above, 65 MiB (74 while no client is there) and 3 MiB.
const SERVER_BYTES: u64 = 80 << 20;
/// How NVML says that a GPU is divided.
const MIG_ENABLED: u32 = 1;
/// What a driver's version says when its GPUs are software.
const SOFTWARE: &str = "softgpu";
/// A GPU that was busy for less of a sample's time than this, in percent, had pauses: one with kernels or
/// copies queued reads 99 or 100 (measured on an H200: a sample each 200 ms, as well for copies and for
/// kernels of 200 µs).
const PAUSED: f64 = 80.0;

/// Why there is no node to share.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// There is no driver.
    #[error(
        "no GPU: {0}; install NVIDIA's driver, or use software GPUs: put MGB's lib/softgpu first in \
         LD_LIBRARY_PATH (mgb run and mgb batch do it by themselves) and set SOFTGPU_DEVICES=4x256MiB"
    )]
    NoDriver(NvmlError),
    /// A driver, but no GPU.
    #[error("no GPU: the driver finds none; check nvidia-smi and, in a container, that GPUs are passed in")]
    NoGpu,
    /// The device mask leaves none, or cannot be used.
    #[error(transparent)]
    Visible(#[from] VisibleError),
    /// None of them can be shared.
    #[error("no GPU that can be shared: {0}")]
    LeftAlone(String),
    /// Software GPUs of another version.
    #[error(
        "softgpu's library does not say what a context takes: install mgbd and lib/softgpu together, or set --context"
    )]
    OldSoftware,
    /// The driver failed.
    #[error("failed to ask the driver for {0}: {1}")]
    Driver(&'static str, NvmlError),
}

/// What people may set about GPUs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Bytes that tasks and their contexts may take together on each GPU.
    pub capacity: Option<u64>,
    /// Bytes of a context.
    pub context: Option<u64>,
    /// There will be an MPS server.
    pub mps: bool,
}

/// The GPUs of the node as NVML shows them.
pub struct NvmlNode {
    nvml: &'static Nvml,
    devices: Vec<Device<'static>>,
    gpus: Vec<Gpu>,
    software: bool,
    stamps: Stamps,
}

impl NvmlNode {
    /// Finds the GPUs that `CUDA_VISIBLE_DEVICES` leaves this process. NVML stays
    /// loaded until the process ends.
    pub fn discover(limits: Limits) -> Result<NvmlNode, DiscoverError> {
        let nvml = Nvml::builder()
            .lib_path(OsStr::new(LIBRARY))
            .init()
            .map_err(DiscoverError::NoDriver)?;
        // Handles borrow it; there is one node in a process.
        let nvml: &'static Nvml = Box::leak(Box::new(nvml));
        let driver = |what| move |error| DiscoverError::Driver(what, error);
        let version = nvml.sys_driver_version().unwrap_or_default();
        let is_software = version.contains(SOFTWARE);
        let count = nvml.device_count().map_err(driver("the number of GPUs"))?;
        let mut devices = Vec::new();
        let mut uuids = Vec::new();
        let mut left_alone = Vec::new();
        for index in 0..count {
            let found = nvml.device_by_index(index).map_err(driver("a GPU"));
            let uuid = |device: Device<'static>| {
                let uuid = device.uuid().map_err(driver("a GPU's UUID"))?;
                device.memory_info().map_err(driver("a GPU's memory"))?;
                Ok((device, uuid))
            };
            match found.and_then(uuid) {
                Ok((device, uuid)) => {
                    uuids.push(uuid);
                    devices.push(Some(device));
                }
                // The others are there.
                Err(DiscoverError::Driver(_, error)) if is_lost(&error) => {
                    let why = "the driver cannot reach it (reset it, and start mgbd again)";
                    tracing::error!(gpu = index, "not shared: {why}: {error}");
                    left_alone.push(format!("GPU {index}: {why}"));
                    uuids.push(String::new());
                    devices.push(None);
                }
                Err(error) => return Err(error),
            }
        }
        if devices.is_empty() {
            return Err(DiscoverError::NoGpu);
        }
        let list = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let names: Vec<&str> = uuids.iter().map(String::as_str).collect();
        let mut visible = visible_gpus(list.as_deref(), &names)?;
        visible.truncate(mgb_probe::wire::MAX_GPUS);
        let mut node = NvmlNode {
            nvml,
            devices: Vec::new(),
            gpus: Vec::new(),
            software: is_software,
            stamps: Stamps::new(),
        };
        for at in visible {
            let Some(device) = devices[at].take() else {
                continue;
            };
            if let Some(why) = why_left_alone(&device, limits.mps) {
                tracing::warn!(gpu = at, uuid = uuids[at], "not shared: {why}");
                left_alone.push(format!("GPU {at}: {why}"));
                continue;
            }
            let index = node.gpus.len();
            let memory = device.memory_info().map_err(driver("a GPU's memory"))?;
            let whole = memory.total.saturating_sub(memory.reserved);
            let server = if limits.mps && !is_software {
                SERVER_BYTES
            } else {
                0
            };
            let whole = whole.saturating_sub(server);
            let usable = limits.capacity.unwrap_or(whole).min(whole);
            let own = spare_bytes(usable) + margin_bytes(usable);
            let context = match limits.context {
                Some(bytes) => bytes,
                None if is_software => {
                    software::context_bytes(&device, LIBRARY).ok_or(DiscoverError::OldSoftware)? + own
                }
                None => CONTEXT_BYTES + own,
            };
            let multiprocessors = multiprocessors(&device);
            node.gpus.push(Gpu {
                index: index as u32,
                node_index: at as u32,
                uuid: uuids[at].clone(),
                name: device.name().unwrap_or_else(|_| "GPU".to_owned()),
                total_bytes: memory.total,
                usable_bytes: usable,
                context_bytes: context,
                max_warps: multiprocessors.all_warps(),
                multiprocessors,
            });
            node.devices.push(device);
        }
        if node.gpus.is_empty() && !left_alone.is_empty() {
            return Err(DiscoverError::LeftAlone(left_alone.join("; ")));
        }
        Ok(node)
    }
}

/// What the device computes with, as its cores and architecture have it.
fn multiprocessors(device: &Device<'_>) -> Multiprocessors {
    match (device.num_cores(), device.cuda_compute_capability()) {
        (Ok(cores), Ok(capability)) => capability::multiprocessors(cores, capability.major, capability.minor),
        _ => capability::unknown(),
    }
}

impl NodeDriver for NvmlNode {
    fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    fn software(&self) -> bool {
        self.software
    }

    fn memory(&self, gpu: usize) -> Result<GpuMemory, NodeError> {
        let memory = self.devices[gpu].memory_info().map_err(failed)?;
        Ok(GpuMemory {
            total: memory.total,
            free: memory.free,
        })
    }

    fn residents(&self, gpu: usize) -> Result<Vec<Resident>, NodeError> {
        let processes = self.devices[gpu].running_compute_processes().map_err(failed)?;
        Ok(processes
            .into_iter()
            .map(|process| Resident {
                pid: process.pid,
                bytes: match process.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes),
                    UsedGpuMemory::Unavailable => None,
                },
            })
            .collect())
    }

    fn utilisation(&self, gpu: usize) -> Result<u32, NodeError> {
        let rates = self.devices[gpu].utilization_rates().map_err(failed)?;
        Ok(rates.gpu)
    }

    fn driver_files(&self) -> Vec<PathBuf> {
        if self.software {
            return Vec::new();
        }
        // Those of the GPUs themselves are of the first one's kind.
        ["/dev/nvidiactl", "/dev/nvidia-uvm"].map(PathBuf::from).into()
    }

    fn health(&self) -> Option<Box<dyn HealthSource>> {
        Some(Box::new(NvmlHealth::new(self.nvml, &self.devices)))
    }

    fn paused_within(&self, gpu: usize, ago: Duration) -> Result<bool, NodeError> {
        let (then, now) = self.stamps.since(ago);
        let samples = match self.devices[gpu].samples(Sampling::GpuUtilization, then) {
            // Those of the future are from before the clock was set back.
            Ok(mut samples) => {
                samples.retain(|sample| sample.timestamp <= now);
                samples
            }
            // None is as new.
            Err(NvmlError::NotFound) => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        // The first one tells of some time before, too.
        Ok(samples
            .iter()
            .skip(1)
            .any(|sample| percent(&sample.value) < PAUSED))
    }
}

fn failed(error: NvmlError) -> NodeError {
    NodeError {
        is_lost: is_lost(&error),
        text: error.to_string(),
    }
}

/// Whether an error means that the driver cannot reach the GPU.
fn is_lost(error: &NvmlError) -> bool {
    matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired)
}

/// Why a GPU cannot be shared; `None`: it can.
fn why_left_alone(device: &Device<'_>, mps: bool) -> Option<&'static str> {
    if device.mig_mode().is_ok_and(|mode| mode.current == MIG_ENABLED) {
        return Some("it is divided into MIG instances (nvidia-smi -mig 0 ends that)");
    }
    match device.compute_mode() {
        Ok(ComputeMode::Prohibited) => Some("its compute mode lets nobody use it (nvidia-smi -c DEFAULT)"),
        // MPS's server is the one process that may.
        Ok(ComputeMode::ExclusiveProcess | ComputeMode::ExclusiveThread) if !mps => {
            Some("its compute mode lets one process use it at a time (nvidia-smi -c DEFAULT)")
        }
        _ => None,
    }
}

/// A sample's value.
fn percent(value: &SampleValue) -> f64 {
    match *value {
        SampleValue::F64(value) => value,
        SampleValue::U32(value) => f64::from(value),
        SampleValue::U64(value) => value as f64,
        SampleValue::I64(value) => value as f64,
    }
}
