//! What GPUs this machine has, asked of the real driver library.

use std::ffi::OsStr;

use anyhow::anyhow;
use mgb_probe::Client;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

/// NVIDIA's library, by the name that the driver package always installs.
const NVML: &str = "libnvidia-ml.so.1";

/// NVML, initialised.
///
/// # Errors
/// Without a driver, or one that does not answer.
pub fn nvml() -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path(OsStr::new(NVML)).init()
}

/// How many GPUs answer, or why none does.
pub fn gpu_count() -> Result<u32, String> {
    let count = nvml().and_then(|nvml| nvml.device_count());
    match count {
        Ok(0) => Err("the driver lists no GPU".to_owned()),
        Ok(count) => Ok(count),
        Err(NvmlError::LibloadingError(_)) => Err(format!("no driver: {NVML} cannot be loaded")),
        Err(error) => Err(format!("the driver does not answer: {error}")),
    }
}

/// The driver's version, or why it does not say.
pub fn driver_version() -> Result<String, String> {
    let version = nvml().and_then(|nvml| nvml.sys_driver_version());
    version.map_err(|error| error.to_string())
}

/// What the first GPU executes, as clang names it: `sm_90`.
pub fn first_gpu_arch() -> Option<String> {
    let nvml = nvml().ok()?;
    let capability = nvml.device_by_index(0).ok()?.cuda_compute_capability().ok()?;
    Some(format!("sm_{}{}", capability.major, capability.minor))
}

/// The number of a GPU that is named by it, or by its UUID.
pub fn gpu_number(text: &str, client: &Client) -> anyhow::Result<u32> {
    let gpus = &client.hello().gpus;
    let is_it = |gpu: &&mgb_probe::Gpu| text == gpu.uuid || text.parse() == Ok(gpu.index);
    let found = gpus.iter().find(is_it).map(|gpu| gpu.index);
    found.ok_or_else(|| unknown_gpu(text, client))
}

/// Why there is no such GPU.
pub fn unknown_gpu(text: &str, client: &Client) -> anyhow::Error {
    match client.hello().gpus.len() {
        1 => anyhow!("mgbd shares no GPU {text}: it has GPU 0 only"),
        count => anyhow!("mgbd shares no GPU {text}: it has GPUs 0 to {}", count - 1),
    }
}
